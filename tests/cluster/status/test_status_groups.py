"""Groups' positions as both clusters report them: with the source, without it, and among foreign records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer
import pytest

from drkit.checkpoints.group_ledger import GroupLedger, summary
from drkit.checkpoints.shard import ShardReport
from drkit.clock import wall_ms
from drkit.flow_state.records import CheckpointsRecord
from drkit.kafka.groups.requests import EMPTY, Groups
from drkit.status.groups import GroupsSeen, GroupStatus, Readiness
from drkit.status.groups_look import GroupLook
from tests.support.flows.compare import read
from tests.support.flows.flow import Flow
from tests.support.flows.produce import fill
from tests.support.status.checkpoint_world import World, consumer
from tests.support.stored import flow_state
from tests.support.waiting import eventually


@dataclass
class Watched:
    """A world, the look at its groups, and the flow's state that it reads."""

    world: World
    look: GroupLook
    values: dict[str, Any] = field(default_factory=dict)
    ledger: GroupLedger = field(default_factory=GroupLedger)

    def round(self, **more: Any) -> ShardReport:
        report = self.world.round(**more)
        self.ledger.take(report, 0.0)
        before = flow_state(self.values).get(CheckpointsRecord)
        self.values["checkpoints"] = summary([report], wall_ms(), before, self.ledger).to_json()
        return report

    def seen(self, *, source_answers: bool = True) -> GroupsSeen:
        found = self.look.look(flow_state(self.values), source_answers=source_answers)
        assert not found.error, found.error
        return found

    def group(self, *, source_answers: bool = True) -> GroupStatus:
        (found,) = self.seen(source_answers=source_answers).groups
        assert found.group == self.world.group
        return found


@pytest.fixture
def watched(flow: Flow, topic_name: str) -> Iterator[Watched]:
    world = World(flow, topic_name)
    ((name, (target, *ids)),) = world.shard.known.topics.items()
    producer = world.shard.known.producers.current
    values = {
        f"topic/{name}": {"target": target, "source_id": str(ids[0]), "target_id": str(ids[1])},
        "producer-ids": {"current": [producer, 0], "all": [producer]},
    }
    settings = flow.settings.model_copy(update={"groups": (f"{world.group}.*",)})
    look = GroupLook((flow.source, flow.target), settings)
    yield Watched(world, look, values)
    look.close()
    world.task.close()


@pytest.mark.wide
def test_a_group_becomes_ready_and_stays_it_without_the_source(watched: Watched):
    """A group is called ready when it would read on at its next record."""
    world = watched.world
    world.commit(world.flow.source, 20)
    assert (watched.group().faulty, "no checkpoint round" in watched.group().reason) == (True, True)
    watched.round(groups=())
    before = watched.group()
    assert (before.ready, before.faulty, before.reason) == (False, False, "not written yet")
    watched.round()
    ready = watched.group()
    (part,) = ready.partitions
    assert (ready.ready, ready.repeats, ready.protocol, ready.state) == (True, 0, "classic", EMPTY)
    assert world.first(world.flow.target, part.position or 0) == world.first(world.flow.source, 20)
    assert part.stored == part.position
    assert watched.seen().rounds.stale == ""

    # The group continues on the source: until the next round it would read three records again.
    fill(world.flow.source, world.topic, 40, first=500)
    world.flow.copy(world.topic)
    world.commit(world.flow.source, 23)
    assert (watched.group().ready, watched.group().repeats) == (True, 3)
    watched.round()

    alone = watched.group(source_answers=False)
    (part,) = alone.partitions
    assert (alone.ready, alone.repeats, part.committed, part.state) == (True, None, 23, Readiness.READY)
    assert world.first(world.flow.target, part.position or 0) == world.first(world.flow.source, 23)


@pytest.mark.wide
def test_a_group_that_works_on_the_target_is_not_ready(watched: Watched):
    world = watched.world
    world.commit(world.flow.source, 5)
    watched.round()
    with consumer(world.flow.target, world.group, session_timeout_ms="6000") as member:
        member.subscribe([world.topic])
        eventually(lambda: member.consume(1, 0.2), what="the first record")
        live = watched.group()
        assert (live.ready, live.faulty) == (False, True)
        assert "members on the target (Stable)" in live.reason
        member.commit(asynchronous=False)
    eventually(lambda: world.ask(world.flow.target, Groups.listed)[world.group].state == EMPTY)
    moved = watched.group()
    assert (moved.faulty, moved.reason) == (
        True,
        f"{world.topic}-0: group committed offsets on the target",
    ) or (moved.reason == "group committed offsets on the target")


@pytest.mark.wide
def test_what_is_in_doubt_is_never_ready(watched: Watched):
    world = watched.world
    world.commit(world.flow.source, 5)
    report = watched.round()
    told = watched.values["checkpoints"]
    watched.values["checkpoints"] = {**told, "ok_ms": told["ok_ms"] - 60_000, "error": "no answer"}
    old = watched.seen()
    assert "60 s old, more than 30 s: no answer" in old.rounds.stale
    assert (old.ready, old.groups[0].partitions[0].state) == (0, Readiness.UNKNOWN)
    # A round that broke off renews nothing.
    report.error = "a coordinator is gone"
    broken = summary([report], wall_ms(), flow_state(watched.values).get(CheckpointsRecord), watched.ledger)
    assert broken.ok_ms == told["ok_ms"] - 60_000
    watched.values["checkpoints"] = told
    assert watched.seen().ready == 1

    end = world.flow.offsets(world.flow.source, world.topic)[0]
    world.commit(world.flow.source, end + 50)
    assert "past the end of the source" in watched.group().reason


@pytest.mark.wide
def test_foreign_records_hide_nothing_and_a_lost_topic_is_noticed(watched: Watched):
    world = watched.world
    world.commit(world.flow.source, 5)
    watched.round()
    assert watched.seen().unreadable == 0
    out = Producer({"bootstrap.servers": world.flow.target.bootstrap_servers})
    own_key = read(world.flow.target, world.checkpoints)[0][-1].key
    assert own_key is not None
    # The last one has the group's own key and a value of another version.
    foreign = ((b"nonsense", b"x"), (b"\x00\x02g1", b""), (b"more", None), (own_key, b"\0\1" + bytes(18)))
    for key, value in foreign:
        out.produce(world.checkpoints, value, key)
    assert out.flush(20) == 0
    seen = watched.seen()
    assert (seen.ready, seen.unreadable) == (1, 4)
    at = world.shard.known.topics[world.topic][0]
    assert watched.look._tail.newest[world.group].keys() == {type(world.at)(at, 0)}

    world.flow.delete(world.flow.target, world.checkpoints)
    assert watched.seen(source_answers=False).ready == 1  # by the mark on the offset itself
    assert watched.look._tail.newest == {}


@pytest.mark.wide
def test_an_unknown_cluster_is_an_answer(watched: Watched):
    watched.world.commit(watched.world.flow.source, 5)
    sides = (
        watched.world.flow.source,
        watched.world.flow.target.model_copy(update={"bootstrap_servers": "127.0.0.1:1"}),
    )
    look = GroupLook(sides, watched.world.flow.settings)
    try:
        found = look.look(flow_state(watched.values), source_answers=True)
    finally:
        look.close()
    assert found.error
    assert found.groups == ()
