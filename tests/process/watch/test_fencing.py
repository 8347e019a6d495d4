"""What a fence agent does and keeps: commands, proofs, a file that survives."""

from __future__ import annotations

from collections.abc import Iterator
import os
from pathlib import Path
import socket
import sys
import time

from pydantic import ValidationError
import pytest

from drkit import observe
from drkit.config import ClusterSettings, Settings
from drkit.config.tables.watch import FenceAgentSettings
from drkit.errors import Failed
from drkit.local.ports import PortReservation
from drkit.watch.agent import (
    AgentState,
    FenceAgent,
    FencingResult,
    closed,
    fence,
    lift,
    read_state,
    write_state,
)
from tests.support.errors import coded

TRUE, FALSE = (sys.executable, "-c", ""), (sys.executable, "-c", "raise SystemExit('no way')")


def cluster(*ports: int) -> ClusterSettings:
    servers = ",".join(f"127.0.0.1:{p}" for p in ports)
    return ClusterSettings(alias="primary", bootstrap_servers=servers)


@pytest.fixture
def dead() -> Iterator[int]:
    with PortReservation() as ports:
        yield ports.reserve()


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that accepts and never answers, as that of a frozen broker."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def settings(**fields: object) -> FenceAgentSettings:
    return FenceAgentSettings.model_validate({"fence_seconds": 3.0, "command": TRUE, **fields})


def test_closed_ports_are_a_proof(dead: int):
    found = fence(settings(), [cluster(dead)])
    assert found.proven
    assert found.evidence[1] == f"127.0.0.1:{dead}: nothing listens on this port"


def test_a_silent_broker_is_none(dead: int, silent: int):
    assert not closed([cluster(dead, silent)], (), 0.5).proven
    assert not closed([cluster(dead)], [f"127.0.0.1:{silent}"], 0.5).proven


def test_a_broker_that_answers_is_none(source):
    found = closed([ClusterSettings(alias="a", bootstrap_servers=source.bootstrap())], (), 2.0)
    assert not found.proven
    assert "a Kafka broker answers" in found.evidence[0]


def test_what_cannot_be_reached_may_be_reached_by_others():
    assert not closed(
        [ClusterSettings(alias="a", bootstrap_servers="no-such-host.invalid:9092")], (), 0.5
    ).proven
    assert not closed([], (), 0.5).proven


def test_a_failed_command_is_reported_and_the_proof_counts(dead: int):
    found = fence(settings(command=FALSE), [cluster(dead)])
    assert found.proven
    assert "exit code 1: no way" in found.evidence[0]


def test_a_proof_of_the_sites_own(silent: int):
    assert fence(settings(proof_command=TRUE), [cluster(silent)]).proven
    refused = fence(settings(proof_command=FALSE), [cluster(silent)])
    assert not refused.proven
    assert "no way" in refused.evidence[1]


def test_a_command_that_hangs_ends_in_time(silent: int):
    hangs = (sys.executable, "-c", "import threading; threading.Event().wait(60)")
    began = time.monotonic()
    found = fence(settings(command=hangs, fence_seconds=1.0), [cluster(silent)])
    assert time.monotonic() - began < 10
    assert not found.proven
    assert "did not end in 1.0 s" in found.evidence[0]


def test_the_state_is_what_was_written(tmp_path: Path):
    path = tmp_path / "there" / "agent.json"
    assert read_state(path) == AgentState()
    state = AgentState(armed=True, fenced=True, at_ms=7, evidence=("x",))
    write_state(path, state)
    assert read_state(path) == state
    assert [p.name for p in path.parent.iterdir()] == ["agent.json"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"armed": true}'])
def test_a_damaged_state_is_never_taken_for_none(tmp_path: Path, text: str):
    path = tmp_path / "agent.json"
    path.write_text(text)
    with pytest.raises(Failed, check=coded("agent_state_unreadable")):
        read_state(path)


def test_a_file_that_is_gone_is_no_lift(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "agent.json"
    fenced = AgentState(armed=True, fenced=True, at_ms=7, evidence=("x",))
    write_state(path, fenced)
    found = Settings.model_validate(
        {
            "clusters": {
                "a": {"bootstrap_servers": "127.0.0.1:1"},
                "b": {"bootstrap_servers": "127.0.0.1:2"},
            },
            "flows": [{"source": "a", "target": "b"}],
            "fence_agent": {"command": TRUE, "state_file": str(path)},
        }
    )
    agent = FenceAgent(found, found.flows[0], "p-1", fencing=lambda: FencingResult(proven=True, evidence=()))
    path.unlink()
    observe.setup()
    agent.step()
    assert agent.state == read_state(path) == fenced
    assert "fence_agent_state_lost" in capsys.readouterr().err
    write_state(path, AgentState())
    agent.step()
    assert not agent.state.fenced


def test_links_are_followed_neither_way(tmp_path: Path):
    victim, path = tmp_path / "victim", tmp_path / "agent.json"
    victim.write_text("mine")
    (tmp_path / "agent.json.new").symlink_to(victim)
    write_state(path, AgentState(armed=True))
    assert victim.read_text() == "mine"
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    victim.write_text('{"armed": false, "fenced": false, "at_ms": 0, "evidence": []}')
    path.symlink_to(victim)
    with pytest.raises(Failed):
        read_state(path)


def test_a_pipe_of_that_name_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "agent.json")
    with pytest.raises(Failed):
        read_state(tmp_path / "agent.json")


def test_the_path_does_not_depend_on_the_working_directory():
    assert FenceAgentSettings().state_file.startswith("~")
    with pytest.raises(ValidationError, match="not a full path"):
        FenceAgentSettings(state_file="agent.json")


def test_lifting(tmp_path: Path):
    path = tmp_path / "agent.json"
    write_state(path, AgentState(armed=True, fenced=True, at_ms=7))
    agent = {"command": TRUE, "state_file": str(path)}
    with pytest.raises(Failed, check=coded("fence_not_lifted")):
        lift(Settings.model_validate({"fence_agent": agent | {"lift_command": FALSE}}))
    assert read_state(path).fenced
    assert lift(Settings.model_validate({"fence_agent": agent | {"lift_command": TRUE}})).fenced
    assert not read_state(path).fenced
