"""Forged notes in the topic of the observers, on a broker, and what is made of them."""

from __future__ import annotations

from collections.abc import Iterator
import itertools
import json
from pathlib import Path
import resource
import subprocess
import sys
import time
import uuid

import pytest

from drkit.clock import wall_ms
from drkit.config import Settings, read
from drkit.detect.agents import AgentNote, Hold
from drkit.detect.awake import AwakeClock
from drkit.detect.notes import Speakers
from drkit.detect.noticeboard import Noticeboard, put_note, topic_name
from drkit.detect.seen import Sight
from drkit.detect.votes import Vote
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from drkit.watch.agent import AgentState, read_state, write_state
from drkit.watch.identity import ObserverIdentity
from drkit.watch.observer import Moment, Observer
from tests.support.kafka.attacks import append, bomb, create
from tests.support.waiting import eventually


def settings(server: str) -> Settings:
    tag = uuid.uuid4().hex[:8]
    return Settings.model_validate({
        "clusters": {f"{side}{tag}": {"bootstrap_servers": server} for side in "ab"},
        "flows": [{"source": f"a{tag}", "target": f"b{tag}"}],
        "watch": {"observers": ["a", "b", "c"], "vote_ttl_seconds": 30.0},
        "fence_agent": {"agents": ["p-1"]},
    })  # fmt: skip


@pytest.fixture
def observer(target: LocalCluster) -> Iterator[Observer]:
    """The observer a: it hears and votes; what it sees of the primary is no matter here."""
    found = settings(target.bootstrap())
    observer = Observer(found, found.flows[0], ObserverIdentity("a", "run-a"), AwakeClock())
    for board in observer.boards:
        board.start()
    yield observer
    observer.stop()


def test_invented_names_and_second_processes_are_dropped_by_name(observer: Observer):
    flow, board = observer.flow, observer.target_board
    cluster = Cluster.connect(observer._settings.cluster(flow.target))
    eventually(lambda: board.is_read, what="the topic")
    at_ms = time.time_ns() // 1_000_000

    def vote(name: str, run: str = "r", sequence: int = 1) -> None:
        body = Vote(name, run, sequence, at_ms, Sight.GONE, abstained_seconds=99.0, renews={"p-1": 1})
        put_note(cluster, flow, Vote.key(name), body.to_json())

    def moment_when(words: str) -> Moment:
        def found() -> Moment | None:
            moment = observer.look()
            return moment if words in " ".join(moment.picture.tally.ignored) else None

        return eventually(found)

    vote("b")
    for number in range(3):
        vote(f"x{number}")
    forged = AgentNote("p-9", "r", 1, Hold.LEASED, at_ms, fenced=True)
    put_note(cluster, flow, AgentNote.key("p-9"), forged.to_json())
    moment = moment_when("p-9")
    assert "b" in moment.picture.tally.gone
    assert not any(name.startswith("x") for name in moment.picture.tally.gone)
    assert moment.agents == ()
    ignored = "\n".join(moment.as_dict()["ignored"])
    assert "vote/x0: it is not named in watch.observers" in ignored
    assert "agent/p-9: it is not named in fence_agent.agents" in ignored
    vote("b", "forged")
    vote("b", "r", 2)
    moment = moment_when("two processes")
    assert "b" not in moment.picture.tally.gone
    assert "b: two processes publish under this name" in " ".join(moment.picture.tally.in_words())


@pytest.fixture
def guarded(target: LocalCluster, tmp_path: Path) -> Path:
    """The configuration of a fence agent that was armed before; its command leaves the file `fenced`."""
    tag = uuid.uuid4().hex[:8]
    script = f"open({str(tmp_path / 'fenced')!r}, 'w').close()"
    (tmp_path / "control.key").write_text("0123456789abcdef0123456789abcdef")
    (tmp_path / "control.key").chmod(0o600)
    write_state(tmp_path / "agent.json", AgentState(armed=True, at_ms=1))
    file = tmp_path / "drkit.toml"
    file.write_text(f"""
[clusters.a{tag}]
bootstrap_servers = "127.0.0.1:1"
[clusters.b{tag}]
bootstrap_servers = "{target.bootstrap()}"
[[flows]]
source = "a{tag}"
target = "b{tag}"
[watch]
observers = ["o1"]
[fence_agent]
agents = ["dc1"]
ttl_seconds = {TTL_SECONDS}
check_seconds = {CHECK_SECONDS}
command = {json.dumps([sys.executable, "-c", script])}
state_file = "{tmp_path / "agent.json"}"
[control]
key_file = "control.key"
""")
    return file


TTL_SECONDS = 8.0
"""A lease that a busy machine does not lose by itself."""
CHECK_SECONDS = 0.2
AGENT_BYTES = 1 << 30
"""Of the agent's address space: more than it needs, less than it would need with a large record."""


class Answering:
    """Starts a fence agent, and answers it as its only observer does."""

    def __init__(self, config: Path, board: Noticeboard) -> None:
        self._board, self._votes, self._said = board, itertools.count(1), config.with_name("said")
        words = [sys.executable, "-m", "drkit", "--config", str(config), "fence-agent", "--name", "dc1"]
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(words, stdout=said, stderr=said)
        resource.prlimit(self.process.pid, resource.RLIMIT_AS, (AGENT_BYTES, AGENT_BYTES))
        self._earlier = {note.body.run for note in board.all(AgentNote)}
        self._leased: set[int] = set()
        """Requests of the agent while it has a lease."""

    def outlives_a_lease(self) -> bool:
        """Answer the newest request; return whether the agent has asked for longer than one lease lasts."""
        assert self.process.poll() is None, self._said.read_text()[-3000:]
        notes = [note.body for note in self._board.all(AgentNote) if note.body.run not in self._earlier]
        for asking in notes:
            assert not asking.fenced
            assert asking.hold is Hold.LEASED
            self._leased.add(asking.number)
            renews = {"dc1": asking.number}
            vote = Vote("o1", "r", next(self._votes), wall_ms(), Sight.CLEAR, renews=renews)
            self._board.publish(Vote.key("o1"), vote)
        return len(self._leased) * CHECK_SECONDS > TTL_SECONDS

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.mark.wide
def test_an_armed_agent_that_starts_beside_a_large_record_does_not_fence(guarded: Path):
    """It ended in SIGABRT at each start; one that was started again fenced a healthy primary before."""
    found = read(guarded, {}).settings
    flow = found.flows[0]
    cluster, name = found.cluster(flow.target), topic_name(flow)
    create(cluster, name)
    append(cluster, name, bomb(1000))
    board = Noticeboard(cluster, flow, AwakeClock(), 30.0, speakers=Speakers.of(found))
    board.start()
    try:
        for _ in range(2):
            agent = Answering(guarded, board)
            try:
                eventually(agent.outlives_a_lease, what="a lease that is renewed")
            finally:
                agent.kill()
    finally:
        board.stop()
    assert not guarded.with_name("fenced").exists()
    assert not read_state(guarded.with_name("agent.json")).fenced
