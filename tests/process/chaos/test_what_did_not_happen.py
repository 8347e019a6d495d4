"""A scenario whose client, trigger, look or fault did not do what it names never passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
import signal
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

from confluent_kafka import KafkaError
import pytest

from drkit.chaos import actions
from drkit.chaos.run import ScenarioRun
from drkit.chaos.scenario import Scenario
from drkit.chaos.stage import ScenarioStage
from drkit.config import Settings
from drkit.errors import Failed, Usage
from drkit.exercise import processes
from drkit.exercise.events import (
    HISTORY,
    PRIMARY,
    STANDBY,
    CommandEnded,
    CopyEnded,
    FaultBegan,
    FaultEnded,
    LookFailed,
    Probed,
    read_events,
)
from drkit.exercise.evidence import _probe, _read_positions, collect
from drkit.exercise.stage import ClientStage
from drkit.kafka.codes import INVALID_PRODUCER_EPOCH, error_name
from drkit.model import TopicPartition
from tests.support.errors import coded, made
from tests.support.waiting import eventually

NOWHERE = "127.0.0.1:1"
SCENARIO = Scenario("a-scenario", "", {}, ())


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScenarioStage]:
    """A stage whose clusters are not started; its commands and clients are processes."""
    (tmp_path / "drkit.toml").write_text(
        "".join(f'[clusters.{name}]\nbootstrap_servers = "{NOWHERE}"\n' for name in (PRIMARY, STANDBY))
        + '[[flows]]\nsource = "primary"\ntarget = "standby"\n'
    )
    stage = ScenarioStage(tmp_path)
    monkeypatch.setattr(ScenarioRun, "current", ScenarioRun(SCENARIO, tmp_path, stage=stage))
    monkeypatch.setattr(stage, "application", lambda _cluster: {})
    with stage.parent:
        yield stage
    stage.recorder.close()


def failed_looks(stage: ScenarioStage) -> list[str]:
    return [look.what for look in stage.history().of(LookFailed)]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_client_that_ended_by_itself_is_recorded(stage: ScenarioStage, *, is_killed: bool):
    stage.start_client("reader", "member", bootstrap=NOWHERE, group="shop", topics=["orders"])
    child = stage.clients["reader"]
    if is_killed:
        child.signal(signal.SIGKILL)
        eventually(child.has_ended, what="its end")
    stage.stop_clients()
    assert failed_looks(stage) == ["client reader"] * is_killed


def test_a_trigger_that_never_fires_fails(stage: ScenarioStage):
    at: Any = {"entry": "VERIFY intent", "then": ["kill primary"]}
    with pytest.raises(Failed, check=coded("trigger_never_fired")) as failed:
        actions.drkit(["config", "check"], [at])
    assert "VERIFY intent" in str(failed.value)
    assert failed_looks(stage) == ["action drkit"]
    assert actions.drkit(["config", "check"], cast("Any", [{**at, "never": True}])) == 0
    assert len([*stage.history().of(CommandEnded)]) == 2


@pytest.mark.usefixtures("stage")
@pytest.mark.parametrize("expect", ["flow_unknown", 2])
def test_a_refusal_is_expected_by_its_exit_code_or_that_of_its_error(expect: int | str):
    words = ["status", "--flow", "x->y"]
    assert actions.drkit(words, expect=[expect]) == 2
    with pytest.raises(Failed, check=coded("chaos_command_failed")):
        actions.drkit(words, expect=["rpo_exceeded", 3])


@pytest.mark.parametrize("second", ["slow operator", "cut operator"])
def test_a_target_takes_one_fault_at_a_time(stage: ScenarioStage, second: str):
    stage.faults["cut operator"] = iter(())
    with pytest.raises(Usage, check=coded("fault_on_same_target")):
        actions.fault(second)
    assert not [*stage.history().of(FaultBegan)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("kill primary", "kill primary"),
        ("kill primary", "freeze primary"),
        ("kill standby 1", "kill standby"),
        ("kill standby", "fill standby"),
        ("freeze replicator", "kill replicator"),
        ("age primary", "age primary"),
    ],
)
def test_two_faults_of_one_target_are_refused(stage: ScenarioStage, first: str, second: str):
    stage.faults[first] = iter(())
    with pytest.raises(Usage, check=coded("fault_on_same_target")):
        actions.fault(second)


def test_a_disk_is_that_of_a_killed_cluster(stage: ScenarioStage, monkeypatch: pytest.MonkeyPatch):
    disk = stage.folder / "broker-0" / "data"
    disk.mkdir(parents=True)
    monkeypatch.setattr(stage.clusters[PRIMARY], "brokers", [SimpleNamespace(folder=disk.parent)])
    for name in ("save primary", "age primary"):
        with pytest.raises(Usage, check=coded("fault_not_in_force")):
            actions.fault(name)
        assert [*stage.folder.rglob("data")] == [disk]
    for name, content in (("save primary", "older"), ("age primary", "newer")):
        stage.faults["kill primary"] = iter(())
        (disk / "log").write_text(content)
        actions.fault(name)
        assert [type(e) for e in stage.history().events][-2:] == [FaultEnded, FaultBegan]
        assert "kill primary" not in stage.faults
        assert (disk / "log").read_text() == "older"


def test_another_replicator_ends_the_fault_of_the_first(
    stage: ScenarioStage, monkeypatch: pytest.MonkeyPatch
):
    restored: list[str] = []

    def fault() -> Iterator[str]:
        yield "it is dead"
        restored.append("the first")

    stage.faults["kill replicator"] = begun = fault()
    next(begun)
    del begun
    stage.flows = dict.fromkeys((PRIMARY, STANDBY), SimpleNamespace(name="a->b"))  # type: ignore[arg-type]
    monkeypatch.setattr(stage, "start_replicator", restored.append)
    actions.replicate("back")
    assert (restored, stage.faults) == ([STANDBY], {})
    assert [e.fault for e in stage.history().of(FaultEnded)] == ["kill replicator"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_replicator_that_ended_by_itself_is_recorded(stage: ScenarioStage, *, is_killed: bool):
    stage.start_client("reader", "member", bootstrap=NOWHERE, group="shop", topics=["orders"])
    stage.replicators[PRIMARY] = child = stage.clients.pop("reader")
    if is_killed:
        child.signal(signal.SIGKILL)
        eventually(child.has_ended, what="its end")
    stage.kill_replicator()
    assert failed_looks(stage) == ["replicator primary"] * is_killed
    assert not stage.replicators


@pytest.mark.parametrize("code", [None, 1, 0])
def test_a_replicator_that_failed_is_noticed_at_the_end(code: int | None, tmp_path: Path):
    def silent(_: str) -> None:
        raise made(Failed, "no answer")

    seen: list[object] = []
    child = SimpleNamespace(has_ended=lambda: True, ended=lambda: SimpleNamespace(code=code))
    stage = SimpleNamespace(
        recorder=SimpleNamespace(record=seen.append), flows={}, clients={}, live_group="shop", groups={},
        replicators={PRIMARY: child}, stop_clients=lambda *_: None, cluster=silent, is_source_lost=True,
        history=lambda: SimpleNamespace(of=lambda _kind: (), is_copied=False),
        topics=(), export_folder=tmp_path,
    )  # fmt: skip
    stage.note_ended = partial(ClientStage.note_ended, cast("ClientStage", stage))
    collect(cast("ClientStage", stage))
    noticed = LookFailed("replicator primary", "it ended before it was stopped") in seen
    assert noticed == (code != 0), "one that has nothing left to copy ends by itself"


def test_a_zombie_that_was_not_refused_is_waited_for_in_vain(stage: ScenarioStage):
    stage.recorder.record(CopyEnded("a->b", "plan", {}, was_fenced=False))
    with pytest.raises(Failed, check=coded("chaos_waited_in_vain")):
        actions.wait("fenced", seconds=0.1)
    assert failed_looks(stage) == ["action wait"]
    stage.recorder.record(CopyEnded("a->b", "plan", {"orders-0": "refused"}, was_fenced=True))
    assert actions.wait("fenced", seconds=0.1) == "fenced"


@pytest.mark.parametrize(
    ("reason", "was_fenced"),
    [
        ("", False),
        ("the source has no leader for it", False),
        (error_name(INVALID_PRODUCER_EPOCH), True),
        ("this flow's producer was fenced on the target", True),
    ],
)
def test_what_a_fence_refuses_a_replicator_is_recorded(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, was_fenced: bool
):
    report = SimpleNamespace(
        ended="plan", partitions=[SimpleNamespace(topic="orders", partition=0, reason=reason)]
    )

    class Zombie:
        on_report: Callable[[object], None]

        def __init__(self, *_: object) -> None: ...

        def run(self) -> None:
            self.on_report(report)

    monkeypatch.setattr(processes, "SoloReplicator", Zombie)
    monkeypatch.setattr(Settings, "model_validate", lambda _: Mock())
    processes._replicate({}, "a->b", str(tmp_path / HISTORY))
    [event] = read_events(tmp_path / HISTORY, 0)[0]
    assert isinstance(event, CopyEnded)
    assert (event.stopped, event.was_fenced) == ({"orders-0": reason} if reason else {}, was_fenced)


@pytest.mark.parametrize(
    ("code", "event"),
    [
        (None, Probed(PRIMARY, "orders", is_accepted=True)),
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            Probed(PRIMARY, "orders", is_accepted=False, error="TOPIC_AUTHORIZATION_FAILED"),
        ),
        (KafkaError._MSG_TIMED_OUT, LookFailed("probe of orders on primary", "_MSG_TIMED_OUT")),
        (KafkaError.REQUEST_TIMED_OUT, LookFailed("probe of orders on primary", "REQUEST_TIMED_OUT")),
    ],
)
def test_only_the_word_of_a_cluster_shows_whether_it_takes_writes(code: int | None, event: object):
    seen: list[object] = []
    error = None if code is None else KafkaError(code)
    stage = SimpleNamespace(
        topics=["orders"], is_source_lost=True, recorder=SimpleNamespace(record=seen.append),
        history=lambda: SimpleNamespace(of=lambda _kind: ()), send=lambda *_: (error, 0),
    )  # fmt: skip
    _probe(cast("ClientStage", stage), PRIMARY)
    assert seen == [event]


def test_a_partition_in_which_no_cluster_has_a_position_of_a_group_is_unknown():
    seen: list[object] = []
    known = {TopicPartition("payments", 0): 3, TopicPartition("other", 1): 3}
    stage = SimpleNamespace(
        groups={"audit": "payments"}, recorder=SimpleNamespace(record=seen.append),
        committed=lambda cluster, _group: known if cluster == STANDBY else {},
    )  # fmt: skip
    _read_positions(cast("ClientStage", stage), STANDBY)
    assert [e for e in seen if isinstance(e, LookFailed)] == [
        LookFailed("position of group audit in payments-1", "no cluster has it")
    ]
    assert len(seen) == 3
