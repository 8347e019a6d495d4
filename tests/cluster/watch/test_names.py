"""Forged notes in the topic of the observers, on a broker: what the observer makes of them."""

from __future__ import annotations

from collections.abc import Iterator
import time
import uuid

import pytest

from drkit.config import Settings
from drkit.detect.agents import AgentNote, Hold
from drkit.detect.awake import AwakeClock
from drkit.detect.noticeboard import put_note
from drkit.detect.seen import Sight
from drkit.detect.votes import Vote
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from drkit.watch.identity import ObserverIdentity
from drkit.watch.observer import Moment, Observer
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
