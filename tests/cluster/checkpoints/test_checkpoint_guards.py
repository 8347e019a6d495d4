"""Groups that work on the target, or may: drkit never moves their positions, and checks what it writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from confluent_kafka import TopicPartition as ConsumerPartition
import pytest

from drkit.checkpoints.group_ledger import RoundTotals
from drkit.checkpoints.shard import Shard
from drkit.clock import boottime
from drkit.flow_state.records import GenerationRecord, ProducerIdsRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.access.acls import create_acls, delete_acls
from drkit.kafka.groups import requests
from drkit.kafka.groups.asking import Answered
from drkit.kafka.groups.requests import EMPTY, Committed, Groups, Offsets
from drkit.local.cluster import LocalCluster
from drkit.offsets.group_guard import OffsetMark
from drkit.replicate.side_jobs import CheckpointDriver
from drkit.topology.acls import Acl, AclOperation, PatternKind, Permission, ResourceKind
from tests.support.flows.fixtures import FlowFactory
from tests.support.shared_clusters import ClusterFactory
from tests.support.status.checkpoint_world import World, consumer
from tests.support.stored import put as put_record
from tests.support.waiting import eventually

METADATA_TOO_LARGE = 12
UNKNOWN_MEMBER = 25


@pytest.fixture
def world(
    flow_factory: FlowFactory, source: LocalCluster, target: LocalCluster, topic_name: str
) -> Iterator[World]:
    made = World(flow_factory(source, target, groups=(f"g-{topic_name}.*",)), topic_name)
    yield made
    made.task.close()


def works(world: World, group: str, **more: str) -> Any:
    """Join as an ordinary member on the target, read a record, and leave."""
    with consumer(world.flow.target, group, **more) as member:
        member.subscribe([world.topic])
        got = eventually(lambda: next(iter(member.consume(1, 0.2)), None), what="the first record")
        assert got.error() is None, got.error()
        return got


def state(world: World, group: str = "") -> str:
    listed = world.ask(world.flow.target, Groups.listed)
    return listed[group or world.group].state


@pytest.mark.wide
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_that_closed_still_holds_its_group(world: World, protocol: str) -> None:
    world.commit(world.flow.source, 5)
    assert world.round().verdicts == {"WRITE": 1}
    there = world.there()
    more = {"session_timeout_ms": "6000"} if protocol == "classic" else {}
    works(world, world.group, group_protocol=protocol, group_instance_id="one", **more)
    assert state(world) != EMPTY
    world.commit(world.flow.source, 9)
    assert world.round().verdicts == {"LIVE": 1}
    assert world.there() == there
    if protocol == "classic":  # its session ends, and it never committed: the position is still drkit's
        eventually(lambda: state(world) == EMPTY, what="the end of the session")
        assert world.round().verdicts == {"WRITE": 1}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_committed_and_left_is_not_set_back(world: World, protocol: str) -> None:
    world.commit(world.flow.source, 5)
    world.round()
    with consumer(world.flow.target, world.group, group_protocol=protocol) as member:
        member.subscribe([world.topic])
        got = eventually(lambda: next(iter(member.consume(1, 0.2)), None), what="the first record")
        member.commit(message=got, asynchronous=False)
    eventually(lambda: state(world) == EMPTY, what="an empty group")
    work = world.ask(world.flow.target, lambda g: g.committed([world.group]))[world.group].value
    for offset in (3, 40):
        world.commit(world.flow.source, offset)
        assert world.round().verdicts == {"MOVED": 1}
        now = world.ask(world.flow.target, lambda g: g.committed([world.group]))[world.group].value
        assert now == work
    # As the page says: without its offsets there it follows the source again.
    assert work is not None
    world.ask(world.flow.target, lambda g: g.delete_offsets(world.group, work))
    assert world.round().verdicts == {"WRITE": 1}


def test_a_consumer_that_never_joins_owns_even_the_offset_it_was_given(world: World) -> None:
    """Spark and Flink assign partitions themselves: their group is empty while they work."""
    world.commit(world.flow.source, 5)
    world.round()
    there = world.there()
    assert there is not None
    with consumer(world.flow.target, world.group) as worker:
        worker.assign([ConsumerPartition(*world.at, there.offset)])
        assert eventually(lambda: worker.poll(0.2), what="a record").error() is None
        worker.commit(offsets=[ConsumerPartition(*world.at, there.offset)], asynchronous=False)
        assert state(world) == EMPTY
        for offset in (9, 3):
            world.commit(world.flow.source, offset)
            assert world.round().verdicts == {"MOVED": 1}
            assert world.there() == Committed(there.offset)
    assert world.round().verdicts == {"MOVED": 1}


@pytest.mark.wide
def test_work_in_topics_that_are_not_copied_is_no_work_here(world: World) -> None:
    own = world.flow.source.alias + "-own"
    world.flow.create(world.flow.target, own, 1, {})
    with consumer(world.flow.target, world.group) as worker:
        worker.commit(offsets=[ConsumerPartition(own, 0, 0)], asynchronous=False)
    world.commit(world.flow.source, 5)
    assert world.round().verdicts == {"WRITE": 1}


def test_a_member_that_comes_while_we_write_keeps_its_position(world: World) -> None:
    """Between our look and our write: the broker refuses, and reading back shows it."""
    world.commit(world.flow.source, 5)
    world.round()
    there = world.there()
    with consumer(world.flow.target, world.group) as member:
        member.subscribe([world.topic])
        eventually(lambda: member.consume(1, 0.2), what="the first record")
        offsets = {world.group: {world.at: Committed(7, "late")}}
        failed = world.ask(world.flow.target, lambda g: g.store(offsets))
        assert failed == {world.group: {world.at: f"Kafka error code {UNKNOWN_MEMBER}"}}
        assert world.there() == there


class StandsStill(Groups):
    """A worker whose machine is suspended between its look at a group and its write."""

    async def committed(self, groups: Iterable[str], *, stable: bool = False) -> dict[str, Answered[Offsets]]:
        found = await super().committed(groups, stable=stable)
        self.look_over()
        return found

    def look_over(self) -> None:
        """Nothing yet."""


def test_a_worker_that_stood_still_after_its_look_sets_nothing_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it was suspended the group worked on the target and ended: only a new look shows that."""
    world.commit(world.flow.source, 5)
    world.round()
    world.commit(world.flow.source, 6)
    stood = [0.0]
    monkeypatch.setattr(requests, "boottime", lambda: boottime() + stood[0])

    def suspended() -> None:
        world.commit(world.flow.target, 9)
        stood[0] = 3600.0

    links = world.task._links
    assert links is not None
    still = StandsStill(links.target_groups._cluster)
    monkeypatch.setattr(still, "look_over", suspended)
    world.task._links = links._replace(target_groups=still)
    report = world.task.run(replace(world.shard, round=1))
    assert report.verdicts == {"NOT_STORED": 1}
    assert [reason for *_, reason in report.refused] == ["not sent: the look at the group is too old"]
    assert report.again == [world.group]
    assert world.there() == Committed(9, "")


@pytest.mark.wide
def test_what_the_target_does_not_store_is_reported(
    cluster_factory: ClusterFactory, source: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> None:
    target = cluster_factory("strict", properties={"offset.metadata.max.bytes": "8"})
    world = World(flow_factory(source, target), topic_name)
    world.commit(world.flow.source, 5)
    report = world.round()
    assert report.verdicts == {"NOT_STORED": 1}
    assert report.refused == [
        (world.group, str(world.at), "NOT_STORED", f"Kafka error code {METADATA_TOO_LARGE}")
    ]
    assert world.there() is None
    world.task.close()


@pytest.mark.wide
def test_a_group_that_the_target_does_not_show_is_left_alone_and_others_are_synced(
    cluster_factory: ClusterFactory, source: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> None:
    target = cluster_factory("shy", authorizer=True, properties={"allow.everyone.if.no.acl.found": "true"})
    world = World(flow_factory(source, target), topic_name)
    hidden = f"{world.group}-hidden"
    rule = Acl(ResourceKind.GROUP, PatternKind.LITERAL, hidden, "User:ANONYMOUS", "*",
               AclOperation.DESCRIBE, Permission.DENY)  # fmt: skip
    assert create_acls(world.flow.target, [rule]) == {}
    for group in (world.group, hidden):
        world.commit(world.flow.source, 5, group)
    both = (world.group, hidden)
    report = eventually(lambda: told if (told := world.round(groups=both)).verdicts.get("NOT_TOLD") else None)
    assert report.verdicts.keys() <= {"NOT_TOLD", "WRITE", "UNCHANGED"}
    assert report.refused == [(hidden, str(world.at), "NOT_TOLD", "")]
    assert world.there() is not None
    assert delete_acls(world.flow.target, [rule]) == {}
    eventually(lambda: world.round(groups=both).verdicts in ({"WRITE": 1, "UNCHANGED": 1}, {"UNCHANGED": 2}))
    world.task.close()


@pytest.mark.wide
def test_offsets_are_written_again_before_the_target_forgets_them(world: World) -> None:
    world.commit(world.flow.source, 5)
    world.round()
    before = world.there()
    assert before is not None
    eventually(lambda: world.round(refresh_ms=50).verdicts == {"REFRESH": 1}, what="a refresh")
    after = world.there()
    assert after is not None
    old, new = OffsetMark.of(before.metadata), OffsetMark.of(after.metadata)
    assert old is not None
    assert new is not None
    assert new[:3] == old[:3]
    assert new.written_ms > old.written_ms


def shard_of(world: World, policy: str) -> Shard:
    """The shard that the driver makes of the current groups."""
    ids = world.shard.known.topics[world.topic]
    with StateTopic(world.flow.target, world.flow.source.alias) as kept:
        put_record(
            kept,
            GenerationRecord.key(world.topic),
            {"target": ids[0], "source_id": str(ids[1]), "target_id": str(ids[2])},
        )
        producer = world.flow.producer.id
        put_record(kept, ProducerIdsRecord.KEY, {"current": (producer, 0), "all": [producer]})
        settings = world.flow.settings.model_copy(update={"on_source_group_deleted": policy})
        clusters = world.flow.source, world.flow.target
        (shard,) = CheckpointDriver(clusters, settings, kept, RoundTotals()).shards()
    return shard


def test_deleted_groups_are_kept_or_follow_as_the_setting_says(world: World) -> None:
    stays, goes, works_here = (f"{world.group}-{x}" for x in ("stays", "goes", "works"))
    for group in (stays, goes, works_here):
        world.commit(world.flow.source, 5, group)
    assert world.task.run(shard_of(world, "keep")).verdicts == {"WRITE": 3}
    world.commit(world.flow.target, 7, works_here)
    for group in (goes, works_here):
        assert world.ask(world.flow.source, partial(Groups.delete, groups=[group])) == {group: 0}
    kept = world.task.run(shard_of(world, "keep"))
    assert (kept.groups, kept.deleted) == (1, [])
    assert world.there(goes) is not None
    mirrored = shard_of(world, "mirror")
    assert set(mirrored.gone) == {goes, works_here}
    assert world.task.run(mirrored).deleted == [goes]
    assert world.there(goes) is None
    assert world.there(works_here) == Committed(7)
    assert world.there(stays) is not None


def test_a_group_that_has_moved_keeps_its_position_when_the_old_side_deletes_it(world: World) -> None:
    """A failover has promoted its topic, and it has not worked on the target yet."""
    world.commit(world.flow.source, 5)
    assert world.round().verdicts == {"WRITE": 1}
    there = world.there()
    assert world.ask(world.flow.source, partial(Groups.delete, groups=[world.group])) == {world.group: 0}
    mirrored = replace(shard_of(world, "mirror"), promoted=frozenset({world.topic}))
    assert mirrored.gone == (world.group,)
    assert world.task.run(mirrored).deleted == []
    assert world.there() == there is not None


def test_a_group_that_a_list_of_the_source_lacks_is_not_deleted(world: World) -> None:
    """Brokers list the groups that they coordinate: one whose coordinator is away is on no list."""
    world.commit(world.flow.source, 5)
    assert world.round().verdicts == {"WRITE": 1}
    unlisted = replace(shard_of(world, "mirror"), gone=(world.group,))
    assert world.task.run(unlisted).deleted == []
    assert world.there() is not None


def test_a_round_that_read_a_group_before_its_switchover_does_not_set_it_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link to the target stood still meanwhile; the group has no members there yet."""
    world.commit(world.flow.source, 9)
    world.round()
    moved = world.there()
    assert moved is not None
    world.commit(world.flow.source, 5)
    assert world.round().verdicts == {"WRITE": 1}, "a reset on the source is followed"
    links = world.task._links
    assert links is not None
    look = links.places.look

    async def late(*asked: Any) -> Any:
        world.commit(world.flow.source, 9)
        world.commit(world.flow.target, moved.offset, metadata=moved.metadata)  # as COMMIT_OFFSETS does
        return await look(*asked)

    world.commit(world.flow.source, 6)
    monkeypatch.setattr(links.places, "look", late)
    report = world.round()
    assert (report.verdicts, report.again) == ({"NOT_STORED": 1}, [world.group])
    assert world.there() == moved
