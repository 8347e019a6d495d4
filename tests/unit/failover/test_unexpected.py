"""A step that meets what it does not foresee leaves a run that is held, and that `--resume` ends.

A broker that waits for a frozen controller delays a step, and holds nothing.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from drkit.errors import ClusterUnreachable, Failed
from drkit.failover.core.step import StepResult
from drkit.failover.loss.count import _count
from drkit.journal.lost import violations
from drkit.journal.machine import ORDER, StepName
from drkit.kafka.raw import EventLoop
from drkit.kafka.requests import TopicMetadata
from drkit.model import TopicPartition
from drkit.status.lag.source import UncopiedRange
from tests.support.errors import made
from tests.support.failover.paper import model
from tests.support.failover.paper.model import Play, Work

ERRORS = [KeyError("orders"), IndexError(3), ValueError("no"), struct.error("short"), OSError(28, "full")]
FORWARDED_SECONDS = 30.0
"""Time for which a broker waits for a frozen controller."""
ENOUGH_SECONDS = 3600.0
CHANGED = [StepName.FENCE, StepName.FREEZE, StepName.COMMIT_OFFSETS, StepName.OPEN, StepName.REPOINT]
PARTS = ["announce", "run", "prove"]


class Broken(Work):
    """Raises once, in `run` or in `prove`."""

    def __init__(self, name: StepName, error: Exception, where: str) -> None:
        super().__init__(name)
        self.error: Exception | None = error
        self.where = where

    def _raise(self, here: str) -> None:
        if here == self.where and self.error is not None:
            error, self.error = self.error, None
            raise error

    def run(self, context: Any) -> StepResult:
        self._raise("run")
        return super().run(context)

    def prove(self, context: Any) -> StepResult:
        found = super().prove(context)
        self._raise("prove")
        return found


@pytest.mark.parametrize("where", ["run", "prove"])
@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("step", [StepName.FENCE, StepName.DRAIN, StepName.TRANSLATE, StepName.VERIFY])
def test_an_error_of_any_kind_holds_the_run(
    step: StepName, error: Exception, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(model.STEPS, step, Broken(step, error, where))
    play = Play(1)
    play.journal.calm, play.journal.kill_at = True, None
    play.process(abort=False)
    assert play.run.state == "held"
    held = play.run.held
    assert held["step"] is step
    assert held["error"]["code"] == "step_unexpected"
    assert type(error).__name__ in held["error"]["evidence"]
    assert "/failover/" not in json.dumps(held["error"]).replace("failover/test_unexpected.py", "")
    assert "--resume" in held["error"]["hint"]
    play.process(abort=False)
    assert play.run.state == "done"
    assert not violations(play.run)
    assert set(play.run.results) == set(ORDER)


def test_a_partition_that_the_source_lost_is_not_counted() -> None:
    """It once ended the process with a KeyError."""
    loop = EventLoop()
    gap = UncopiedRange(TopicPartition("orders", 3), 5, 9)
    try:
        for topics in ({}, {"orders": TopicMetadata(3, None, {})}):  # type: ignore[arg-type]
            found = loop.run(_count, None, topics, gap, frozenset())
            assert (found.records, found.next_offset) == (0, 5), "from here on nothing was looked at"
    finally:
        loop.close()


def test_it_fails_with_exit_code_1() -> None:
    assert made(Failed, "x", where="y").exit_code == 1


class Silent(Work):
    """A step whose cluster answers no request for some seconds after the first one."""

    def __init__(self, name: StepName, part: str, seconds: float) -> None:
        super().__init__(name)
        self._part, self._seconds = part, seconds
        self._until: float | None = None

    def _ask(self, context: Any, part: str) -> None:
        if part == self._part:
            self._until = self._until or context.clock() + self._seconds
            if context.clock() < self._until:
                raise made(ClusterUnreachable, "no answer", hint="check its brokers")

    def announce(self, context: Any, *, begun: bool) -> None:
        self._ask(context, "announce")
        super().announce(context, begun=begun)

    def run(self, context: Any) -> StepResult:
        self._ask(context, "run")
        return super().run(context)

    def prove(self, context: Any) -> StepResult:
        self._ask(context, "prove")
        return super().prove(context)

    def undo(self, context: Any) -> StepResult:
        self._ask(context, "undo")
        return super().undo(context)


def _play(monkeypatch: pytest.MonkeyPatch, step: Work, *, abort: bool = False) -> Play:
    monkeypatch.setitem(model.STEPS, step.name, step)
    play = Play(1)
    play.journal.calm, play.journal.kill_at = True, None
    if abort:
        play.journal.kill_at = 13
        play.process(abort=False)
        play.journal.kill_at = None
    play.process(abort=abort)
    return play


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", CHANGED)
def test_no_step_is_held_while_brokers_wait_for_a_frozen_controller(
    name: StepName, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = _play(monkeypatch, Silent(name, part, FORWARDED_SECONDS))
    assert play.run.state == "done"


def test_no_abort_is_held_while_brokers_wait_for_a_frozen_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    play = _play(monkeypatch, Silent(StepName.FENCE, "undo", FORWARDED_SECONDS), abort=True)
    assert play.run.state == "aborted"


def test_a_held_abort_names_the_command_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    play = _play(monkeypatch, Silent(StepName.FENCE, "undo", ENOUGH_SECONDS), abort=True)
    assert play.run.state == "aborting"
    assert play.run.held["error"]["hint"] == "check its brokers; then: drkit failover --abort"


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", CHANGED[1:])
def test_what_is_held_names_the_command_that_continues_it(
    name: StepName, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = _play(monkeypatch, Silent(name, part, ENOUGH_SECONDS))
    assert play.run.state == "held"
    assert play.run.held["error"]["hint"] == "check its brokers; then: drkit failover --resume"


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("", "drkit failover --resume"),
        ("grant it", "grant it; then: drkit failover --resume"),
        ("drkit failover --abort", "drkit failover --abort"),
        ("grant it, then: drkit failover --resume", "grant it, then: drkit failover --resume"),
    ],
)
def test_a_command_is_named_once(hint: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Work):
        def run(self, context: Any) -> StepResult:  # noqa: ARG002  the contract's
            raise made(Failed, "not done", hint=hint)

    play = _play(monkeypatch, Failing(StepName.OPEN))
    assert play.run.held["error"]["hint"] == shown
