"""A scenario whose client, trigger, look or fault did not do what it names never passes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import signal
from types import SimpleNamespace
from typing import cast

from confluent_kafka import KafkaError
import pytest

from drkit.chaos import actions
from drkit.chaos.stage import ScenarioStage
from drkit.errors import Failed, Usage
from drkit.exercise.evidence import _probe, _read_positions
from drkit.exercise.history import PRIMARY, STANDBY, CommandEnded, FaultBegan, LookFailed, Probed
from drkit.exercise.stage import ClientStage
from tests.support.errors import coded
from tests.support.waiting import eventually

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScenarioStage]:
    """A stage whose clusters are not started; its commands and clients are processes."""
    (tmp_path / "drkit.toml").write_text(
        "".join(f'[clusters.{name}]\nbootstrap_servers = "{NOWHERE}"\n' for name in (PRIMARY, STANDBY))
        + '[[flows]]\nsource = "primary"\ntarget = "standby"\n'
    )
    stage = ScenarioStage(tmp_path)
    monkeypatch.setattr(actions, "current_stage", lambda: stage)
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
    at = {"entry": "VERIFY intent", "then": ["kill primary"]}
    with pytest.raises(Failed, check=coded("trigger_never_fired")) as failed:
        actions.drkit(["config", "check"], [at])
    assert "VERIFY intent" in str(failed.value)
    assert failed_looks(stage) == ["action drkit"]
    assert actions.drkit(["config", "check"], [{**at, "never": True}]) == 0
    assert len([*stage.history().of(CommandEnded)]) == 2


@pytest.mark.usefixtures("stage")
@pytest.mark.parametrize("expect", ["flow_unknown", 2])
def test_a_refusal_is_expected_by_its_exit_code_or_that_of_its_error(expect: int | str):
    words = ["status", "--flow", "x->y"]
    assert actions.drkit(words, expect=[expect]) == 2
    with pytest.raises(Failed, check=coded("chaos_command_failed")):
        actions.drkit(words, expect=["rpo_exceeded", 3])


def test_a_link_takes_one_fault_at_a_time(stage: ScenarioStage):
    stage.faults["cut operator"] = iter(())
    with pytest.raises(Usage, check=coded("fault_on_same_link")):
        actions.fault("slow operator")
    assert not [*stage.history().of(FaultBegan)]


@pytest.mark.parametrize(
    ("code", "event"),
    [
        (None, Probed(PRIMARY, "orders", is_accepted=True)),
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            Probed(PRIMARY, "orders", is_accepted=False, error="TOPIC_AUTHORIZATION_FAILED"),
        ),
        (KafkaError._MSG_TIMED_OUT, LookFailed("probe of orders on primary", "_MSG_TIMED_OUT")),
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


def test_a_group_without_any_position_is_unknown():
    seen: list[object] = []
    stage = SimpleNamespace(
        groups=["audit"], recorder=SimpleNamespace(record=seen.append), committed=lambda *_: {}
    )
    _read_positions(cast("ClientStage", stage), STANDBY)
    assert seen == [LookFailed("positions of group audit", "no cluster has any")]
