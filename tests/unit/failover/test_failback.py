"""The stages of a failback, without a command line and without clusters."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from types import SimpleNamespace
from typing import Any, Self

import pytest

from drkit.config import FlowSettings, Settings
from drkit.errors import Failed, Refused
from drkit.failover import failback
from drkit.failover.core.request import RunRequest
from drkit.failover.failback import (
    Failback,
    FailbackOperator,
    FailbackOptions,
    FailbackStage,
    FailbackState,
    copy_state,
    ways_of,
)
from drkit.journal.journal import RunLocked
from drkit.status.pair.model import PairState
from tests.support.errors import made, sentence

CLUSTERS = {alias: {"bootstrap_servers": f"{alias}:9092"} for alias in ("a", "b")}
FLOWS = [{"source": "a", "target": "b"}, {"source": "b", "target": "a"}]
SETTINGS = Settings.model_validate({"clusters": CLUSTERS, "flows": FLOWS})
REQUEST = RunRequest(
    dispositions={"orders": "discard"}, clients_cut="firewall", evict_members=True, acls_only_home="keep"
)


class Operator(FailbackOperator):
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.waits: list[str] = []

    def begin_stage(self, flow: FlowSettings) -> None:
        self.stages.append(flow.name)

    def show_wait(self, back: FlowSettings, state: str) -> None:
        self.waits.append(f"{back.name}: {state}")


class Service:
    """A service of failovers whose runs a pair answers."""

    pair: Pair

    def __init__(self, _settings: Settings, flow: FlowSettings, _tell: object) -> None:
        self.flow = flow

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, _groups: object, request: RunRequest, _confirm: object, **_: object) -> Any:
        return self.pair.answer("begin", self.flow, request)

    def begin_return(self, request: RunRequest, **_: object) -> Any:
        return self.pair.answer("begin_return", self.flow, request)

    def resume(self, request: RunRequest, **_: object) -> Any:
        return self.pair.answer("resume", self.flow, request)

    def report(self) -> Mapping[str, Any]:
        return {"state": "held"}


class Collector:
    """A look at the topics of a pair."""

    pair: Pair

    def __init__(self, *_: object, **__: object) -> None: ...

    def look(self) -> Any:
        return SimpleNamespace(pair=SimpleNamespace(topics=self.pair.topics))

    def close(self) -> None: ...


class Pair:
    """The clusters of a test: what is left to do, and what each stage answers."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *stages: FailbackStage, under_way: bool = False
    ) -> None:
        self.left = [FailbackState(stage, under_way) for stage in stages]
        self.calls: list[tuple[str, str, RunRequest]] = []
        self.errors: dict[str, Exception] = {}
        self.topics = [
            SimpleNamespace(
                topic="orders", state=PairState.PROTECTED, active="b", records=0, why="", lacks_history=False
            )
        ]
        for kind, name in ((Service, "FailoverService"), (Collector, "PairedCollector")):
            monkeypatch.setattr(kind, "pair", self, raising=False)
            monkeypatch.setattr(failback, name, kind)
        monkeypatch.setattr(failback, "situation", lambda *_: next(iter(self.left), None))
        for name in ("refuse_uncut", "refuse_unreplayed", "refuse_stopped", "put_back"):
            monkeypatch.setattr(failback, name, lambda *_: None)
        monkeypatch.setattr(Failback, "_switched_topics", lambda _: ())

    def answer(self, call: str, flow: FlowSettings, request: RunRequest) -> dict[str, Any]:
        self.calls.append((call, flow.name, request))
        if (error := self.errors.pop(call, None)) is not None:
            raise error
        self.left.pop(0)
        return {"state": "done"}


class StopsWhileItWaits(Event):
    """A signal comes during the wait."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return super().wait(timeout)


def failing_back(stop: Event | None = None, wait_seconds: float = 0.0) -> tuple[Failback, Operator]:
    operator = Operator()
    options = FailbackOptions(REQUEST, wait_seconds)
    ways = ways_of(SETTINGS, SETTINGS.flow("a->b"))
    return Failback(SETTINGS, ways, options, operator, stop or Event()), operator


def test_each_stage_gets_the_decisions_that_concern_it(monkeypatch: pytest.MonkeyPatch):
    pair = Pair(monkeypatch, FailbackStage.RETURN, FailbackStage.SWITCH, FailbackStage.TURN)
    found, operator = failing_back()
    found.run()
    assert pair.calls == [
        ("begin_return", "a->b", RunRequest(dispositions={"orders": "discard"}, clients_cut="firewall")),
        (
            "begin",
            "b->a",
            RunRequest(planned=True, clients_cut="firewall", evict_members=True, acls_only_home="keep"),
        ),
        ("begin_return", "b->a", RunRequest(clients_cut="firewall")),
    ]
    assert [(done.stage.value, done.flow, done.report["state"]) for done in found.reports] == [
        ("return", "a->b", "done"),
        ("switch", "b->a", "done"),
        ("turn", "b->a", "done"),
    ]
    assert operator.stages == ["a->b", "b->a", "b->a"]
    assert found.is_complete


def test_a_run_that_is_under_way_is_resumed(monkeypatch: pytest.MonkeyPatch):
    pair = Pair(monkeypatch, *FailbackStage, under_way=True)
    failing_back()[0].run()
    assert [call for call, *_ in pair.calls] == ["resume"] * 3


def test_a_stage_that_is_held_leaves_its_report(monkeypatch: pytest.MonkeyPatch):
    pair = Pair(monkeypatch, FailbackStage.RETURN, FailbackStage.SWITCH)
    pair.errors["begin"] = made(Refused, "held")
    found, _ = failing_back()
    with pytest.raises(Refused, match="held"):
        found.run()
    assert [(done.stage.value, done.report["state"]) for done in found.reports] == [
        ("return", "done"),
        ("switch", "held"),
    ]
    assert not found.is_complete


def test_a_replicator_may_run_the_last_stage(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(failback, "_POLL_SECONDS", 0.0)
    pair = Pair(monkeypatch, FailbackStage.TURN)
    pair.errors["begin_return"] = made(RunLocked, "another process works on it")
    found, _ = failing_back()
    found.run()
    assert [done.report["state"] for done in found.reports] == ["done"], "not of the run that was locked"
    assert len(pair.calls) == 2


@pytest.mark.timeout(30)
def test_clients_stay_while_the_copy_is_incomplete(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(failback, "_POLL_SECONDS", 0.0)
    pair = Pair(monkeypatch, FailbackStage.SWITCH)
    pair.topics[0].state, pair.topics[0].records = PairState.UNPROTECTED, 12
    stop = StopsWhileItWaits()
    for found, operator in (failing_back(), failing_back(stop, wait_seconds=1e9)):
        with pytest.raises(Failed, match=sentence("not_in_step", target="a", source="b")) as caught:
            found.run()
        assert caught.value.evidence == "1 topic of 1, 12 records left"
        assert operator.waits == ["b->a: 1 topic of 1, 12 records left"]
    assert not pair.calls


def test_the_state_of_the_copy_is_unknown_without_a_look():
    assert copy_state(None, []) == "its state is unknown"
