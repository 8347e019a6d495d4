"""How long a planned switchover waits for what was emptied, by whatever process it is carried on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from drkit.failover.emptying import standing
from drkit.failover.emptying.standing import EMPTIED, Wait, settle_emptied, wait_now
from drkit.journal.machine import StepName
from drkit.model import TopicPartition

INTERVAL = 66.0
FENCE = StepName.FENCE


class Scene:
    """A context whose clock advances when somebody sleeps; deleted records may come back meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, emptied: int = 4, *, planned: bool = True) -> None:
        self.now, self.begun, self.back = 1_000.0, dict[str, Any](), list[float]()
        self.context: Any = SimpleNamespace(
            request=SimpleNamespace(planned=planned), flow=SimpleNamespace(target="home"),
            pause=self._sleep,
            clock=lambda: self.now, tell=lambda _progress: None, effects=lambda _step: self.begun,
        )  # fmt: skip
        partitions = {TopicPartition("t", p): 10 for p in range(emptied)}
        monkeypatch.setattr(standing, "emptied_in", lambda _: partitions)
        monkeypatch.setattr(standing, "_seconds", lambda _: INTERVAL)
        monkeypatch.setattr(standing, "empty_again", self._empty_again)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _empty_again(self, _context: Any, _step: StepName) -> tuple[str, ...]:
        if self.back and self.now >= self.back[0]:
            self.back.pop(0)
            self.begun[EMPTIED] = {"intent": {}, "result": {}}
            return ("emptied again",)
        return ()

    def waited(self) -> float:
        before = self.now
        settle_emptied(self.context, FENCE)
        return self.now - before


def test_the_whole_interval(monkeypatch: pytest.MonkeyPatch):
    assert Scene(monkeypatch).waited() == pytest.approx(INTERVAL)
    assert Scene(monkeypatch, 0).waited() == 0.0
    assert Scene(monkeypatch, planned=False).waited() == 0.0, "an outage does not wait"


@pytest.mark.parametrize("back", [1_000.0, 1_039.0])
def test_what_comes_back_begins_it_anew(monkeypatch: pytest.MonkeyPatch, back: float):
    scene = Scene(monkeypatch)
    scene.back = [back]
    assert scene.waited() >= back - 1_000.0 + INTERVAL


def test_a_process_that_ended_in_its_wait(monkeypatch: pytest.MonkeyPatch):
    scene = Scene(monkeypatch)
    scene.begun[EMPTIED] = {"intent": {}, "result": {}}
    assert scene.waited() == pytest.approx(INTERVAL)
    scene.begun["canary"] = {"intent": {}, "result": None}
    assert scene.waited() == 0.0, "clients are kept off: it goes on"


@pytest.mark.parametrize("age_seconds", [5, -120, 120, 599, 700, 86_400])
def test_the_clocks_of_two_hosts_are_not_subtracted(monkeypatch: pytest.MonkeyPatch, age_seconds: float):
    """A switchover from a host whose clock is two minutes ahead, or a day, waited for nothing."""
    partition = TopicPartition("t", 0)
    monkeypatch.setattr(standing, "emptied_in", lambda _: {partition: 10})
    monkeypatch.setattr(standing, "_seconds", lambda _: INTERVAL)
    emptied = SimpleNamespace(at_ms=1_000_000)
    context: Any = SimpleNamespace(
        request=SimpleNamespace(planned=True), known=SimpleNamespace(emptied={partition: 10}),
        state=SimpleNamespace(get=lambda *_: emptied), wall=lambda: 1_000_000 + 1000 * age_seconds,
    )  # fmt: skip
    assert wait_now(context) == Wait(1, INTERVAL)
