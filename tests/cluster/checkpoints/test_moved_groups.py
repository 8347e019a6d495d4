"""Rounds read only groups that moved: none is missed, however it commits; each write asks the guard."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ConsumerPartition
import pytest
from structlog.testing import capture_logs

from drkit.checkpoints import work as checkpoint_work
from drkit.checkpoints.group_ledger import SOON_SECONDS
from drkit.checkpoints.work import CheckpointWork
from drkit.flow_state.records import GenerationRecord, ProducerIdsRecord
from drkit.kafka.access.acls import create_acls, delete_acls
from drkit.kafka.groups.asking import OFFSETS_TOPIC
from drkit.kafka.groups.requests import Committed, Groups
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offsets.group_guard import OffsetMark
from drkit.topology.acls import Acl, AclOperation, PatternKind, Permission, ResourceKind
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.produce import fill, producer, wait_for_markers
from tests.support.shared_clusters import ClusterFactory
from tests.support.status.checkpoint_world import World, consumer
from tests.support.stored import flow_state
from tests.support.waiting import eventually

PACE = 5.0


class Following(World):
    """Rounds as the flow's driver has them done, without Spark and without waiting."""

    def __init__(self, flow, topic: str) -> None:
        super().__init__(flow, topic)
        self.now = 0.0
        self.work = CheckpointWork((flow.source, flow.target), flow.settings.name, lambda: self.now)
        target, *ids = self.shard.known.topics[topic]
        own = flow.producer.id
        self.values = {
            GenerationRecord.key(topic): {
                "target": target,
                "source_id": str(ids[0]),
                "target_id": str(ids[1]),
            },
            ProducerIdsRecord.KEY: {"current": (own, 0), "all": [own]},
        }

    def next(self) -> set[str]:
        """One round; the groups it looked at."""
        self.now += PACE
        shards = self.work.of_next(self.flow.settings, flow_state(self.values))
        assert shards is not None
        reports = [self.task.run(shard) for shard in shards]
        assert not any(r.error for r in reports), reports
        self.work.take(reports)
        return {g for shard in shards for g in shard.groups}

    def settle(self, *groups: str) -> None:
        """Until a round has nothing to look at."""
        self.work.look_anew()
        eventually(lambda: not self.next() and self.work.ledger.groups >= len(groups), what="rest")

    @property
    def verdicts(self) -> dict[str, int]:
        return dict(self.work.ledger.verdicts())

    def upstream(self, group: str = "") -> int | None:
        """From which source offset the group's position on the target was made."""
        there = self.there(group)
        mark = OffsetMark.of(there.metadata) if there is not None else None
        return mark.upstream if mark is not None else None

    def close(self) -> None:
        self.work.close()
        self.task.close()


@pytest.fixture
def world(
    flow_factory: FlowFactory, source: LocalCluster, target: LocalCluster, topic_name: str
) -> Iterator[Following]:
    settings = {"groups": (f"g-{topic_name}.*",), "on_source_group_deleted": "mirror"}
    made = Following(flow_factory(source, target, **settings), topic_name)
    yield made
    made.close()


@pytest.mark.wide
def test_only_what_moved_is_looked_at_in_the_very_next_round(world: Following) -> None:
    groups = [f"{world.group}-{x}" for x in "abc"]
    for group in groups:
        world.commit(world.flow.source, 5, group)
    assert world.next() == set(groups)
    assert world.verdicts == {"WRITE": 3}
    world.settle(*groups)
    assert world.verdicts == {"UNCHANGED": 3}

    world.commit(world.flow.source, 9, groups[1])
    assert world.next() == {groups[1]}
    assert world.verdicts == {"WRITE": 1, "UNCHANGED": 2}
    assert [world.upstream(g) for g in groups] == [5, 9, 5]
    # What was written is read back again; then there is rest.
    assert world.next() == {groups[1]}
    assert world.next() == set()
    assert world.verdicts == {"UNCHANGED": 3}


@pytest.mark.wide
def test_a_topic_more_asks_many_groups_one_after_the_other(
    world: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_work, "GROUPS_PER_SHARD", 1)
    flow, more, groups = world.flow, f"{world.topic}-more", [f"{world.group}-{x}" for x in "ab"]
    flow.create_both(more)
    fill(flow.source, more, 20)
    there = {TopicPartition(more, 0): Committed(7)}
    world.ask(flow.source, lambda g: g.alter({group: {world.at: Committed(5), **there} for group in groups}))
    world.settle(*groups)
    assert world.work.ledger.positions == 2

    flow.copy(more)
    ids = [str(flow.topic(side, more).topic_id) for side in (flow.source, flow.target)]
    world.values[GenerationRecord.key(more)] = {"target": more, "source_id": ids[0], "target_id": ids[1]}
    world.work.look_anew()
    assert world.next() == set()
    assert not world.work.whole
    looked = [world.next() for _ in range(int(SOON_SECONDS / PACE) + 1)]
    assert set().union(*looked) == set(groups)
    assert world.work.ledger.positions == 4


@pytest.mark.wide
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_both_protocols_are_seen(world: Following, protocol: str) -> None:
    world.commit(world.flow.source, 2)
    world.settle(world.group)
    with consumer(world.flow.source, world.group, group_protocol=protocol) as member:
        member.subscribe([world.topic])
        got = eventually(lambda: next(iter(member.consume(1, 0.2)), None), what="a record")
        at = ConsumerPartition(world.topic, got.partition() or 0, 11)
        member.commit(offsets=[at], asynchronous=False)
        assert world.next() == {world.group}
        found = world.ask(world.flow.target, lambda g: g.committed([world.group]))[world.group].value
        marks = [OffsetMark.of(c.metadata) for c in (found or {}).values()]
        assert 11 in [m.upstream for m in marks if m is not None]


def in_transaction(world: Following, offset: int) -> Producer:
    """Offsets sent to a transaction that stays open."""
    out = producer(world.flow.source, transactional_id=world.group)
    out.init_transactions(60)
    out.begin_transaction()
    with consumer(world.flow.source, world.group) as reader:
        at = [ConsumerPartition(*world.at, offset)]
        out.send_offsets_to_transaction(at, reader.consumer_group_metadata(), 60)
    return out


@pytest.mark.wide
@pytest.mark.parametrize(("end", "upstream"), [("commit_transaction", 30), ("abort_transaction", 5)])
def test_offsets_in_a_transaction_count_when_it_is_decided(world: Following, end: str, upstream: int) -> None:
    world.commit(world.flow.source, 5)
    world.settle(world.group)
    out = in_transaction(world, 30)
    assert world.next() == {world.group}
    world.settle(world.group)
    assert world.upstream() == 5
    getattr(out, end)(60)
    wait_for_markers(world.flow.source, world.group)
    assert world.next() == {world.group}
    assert world.upstream() == upstream


@pytest.mark.wide
def test_a_transaction_that_was_open_before_the_first_look_counts_too(world: Following) -> None:
    world.commit(world.flow.source, 5)
    out = in_transaction(world, 30)
    world.settle(world.group)
    assert world.upstream() == 5
    out.commit_transaction(60)
    wait_for_markers(world.flow.source, world.group)
    assert world.next() == {world.group}
    assert world.upstream() == 30


@pytest.mark.wide
def test_deleted_offsets_and_groups_are_noticed(world: Following) -> None:
    stays, goes = (f"{world.group}-{x}" for x in ("stays", "goes"))
    for group in (stays, goes):
        world.commit(world.flow.source, 5, group)
    second = TopicPartition(world.topic, 1)
    world.ask(world.flow.source, lambda g: g.alter({stays: {second: Committed(3)}}))
    world.settle(stays, goes)
    assert world.work.ledger.positions == 3
    world.ask(world.flow.source, lambda g: g.delete_offsets(stays, [second]))
    assert world.next() == {stays}
    assert world.work.ledger.positions == 2
    assert world.ask(world.flow.source, partial(Groups.delete, groups=[goes])) == {goes: 0}
    world.work.look_anew()
    world.next()
    assert world.there(goes) is None
    assert world.work.ledger.groups == 1


@pytest.mark.wide
def test_a_group_that_began_to_work_on_the_target_is_not_moved(world: Following) -> None:
    """No round looked at it since it began, so its guard is asked when its position is written."""
    joined, assigned = (f"{world.group}-{x}" for x in ("joined", "assigned"))
    for group in (joined, assigned):
        world.commit(world.flow.source, 5, group)
    world.settle(joined, assigned)
    before = world.there(joined)
    world.commit(world.flow.target, 7, assigned)
    with consumer(world.flow.target, joined) as member:
        member.subscribe([world.topic])
        eventually(lambda: member.consume(1, 0.2), what="the first record")
        for group in (joined, assigned):
            world.commit(world.flow.source, 9, group)
        assert world.next() == {joined, assigned}
        assert world.verdicts == {"LIVE": 1, "MOVED": 1}
        assert (world.there(joined), world.there(assigned)) == (before, Committed(7))
        # Who only reads may leave at any time; who has committed has settled there.
        world.next()
        assert world.next() == {joined}
    eventually(lambda: world.next() and world.upstream(joined) == 9, what="the position, after the member")
    world.settle(joined, assigned)
    assert world.there(assigned) == Committed(7)


@pytest.mark.wide
def test_a_group_ahead_of_the_copy_gets_its_position_when_the_copy_has_come(world: Following) -> None:
    end = world.flow.offsets(world.flow.source, world.topic)[0]
    world.commit(world.flow.source, end)
    world.settle(world.group)
    fill(world.flow.source, world.topic, 100, first=500)
    world.commit(world.flow.source, end + 20)
    for _ in range(4):
        assert world.next() == {world.group}
        assert world.upstream() == end
    world.flow.copy(world.topic)
    assert world.next() == {world.group}
    assert world.upstream() == end + 20
    world.settle(world.group)


@pytest.mark.wide
def test_the_slow_look_finds_what_no_log_record_reports(world: Following) -> None:
    """A position on the target is deleted by hand."""
    world.commit(world.flow.source, 5)
    world.settle(world.group)
    world.ask(world.flow.target, lambda g: g.delete_offsets(world.group, [world.at]))
    assert world.next() == set()
    world.now += 300.0
    assert world.next() == {world.group}
    assert world.upstream() == 5


@pytest.mark.wide
def test_without_the_right_to_read_the_log_all_are_asked_for_and_that_is_said_once(
    cluster_factory: ClusterFactory, target: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> None:
    source = cluster_factory("shy", authorizer=True, properties={"allow.everyone.if.no.acl.found": "true"})
    world = Following(flow_factory(source, target, groups=(f"g-{topic_name}.*",)), topic_name)
    rule = Acl(ResourceKind.TOPIC, PatternKind.LITERAL, OFFSETS_TOPIC, "User:ANONYMOUS", "*",
               AclOperation.READ, Permission.DENY)  # fmt: skip
    world.commit(world.flow.source, 5)
    world.settle(world.group)
    with capture_logs() as events:
        assert create_acls(world.flow.source, [rule]) == {}
        eventually(lambda: world.next() == {world.group} == world.next(), what="rounds of all groups")
        world.commit(world.flow.source, 9)
        assert world.next() == {world.group}
        assert world.upstream() == 9
        assert delete_acls(world.flow.source, [rule]) == {}
        world.settle(world.group)
    told = [e for e in events if e["event"].startswith("group_commits")]
    assert [e["event"] for e in told] == ["group_commits_hidden", "group_commits_followed"]
    assert OFFSETS_TOPIC in told[0]["hint"]
    world.commit(world.flow.source, 12)
    assert world.next() == {world.group}
    assert world.upstream() == 12
    world.close()
