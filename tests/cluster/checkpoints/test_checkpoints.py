"""Checkpoint rounds between real brokers: what is written for a group, and above all what is not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from confluent_kafka import TopicPartition as ConsumerPartition
import pytest

from drkit.checkpoints.shard import NO_ROUND
from drkit.kafka.groups.requests import EMPTY, Committed, Groups
from drkit.mm2_topics import topic as mm2_topic
from drkit.offsets.group_guard import OffsetMark
from drkit.offsets.mm2_records import Checkpoint
from tests.support.flows.compare import not_foreign, read
from tests.support.flows.flow import Flow
from tests.support.flows.produce import fill
from tests.support.status.checkpoint_world import World, consumer
from tests.support.waiting import eventually


@pytest.fixture
def world(flow: Flow, topic_name: str) -> Iterator[World]:
    made = World(flow, topic_name)
    yield made
    made.task.close()


def test_a_group_reads_on_at_its_next_record(world: World) -> None:
    """P14, P16: offset and checkpoint lead to the same next record."""
    middle = read(world.flow.source, world.topic)[0][20].offset
    world.commit(world.flow.source, middle)

    report = world.round()

    assert report.verdicts == {"WRITE": 1}
    there = world.there()
    assert there is not None
    assert world.first(world.flow.target, there.offset) == world.first(world.flow.source, middle)
    mark = OffsetMark.of(there.metadata)
    assert mark is not None
    assert mark[:3] == (world.flow.source.alias, middle, there.offset)
    records = read(world.flow.target, world.checkpoints)[0]
    stored = {s.key: Checkpoint.decode(s.key or b"", s.value or b"") for s in records}
    assert list(stored.values()) == [Checkpoint(world.group, world.topic, 0, middle, there.offset)]
    # At rest nothing is written; before the target forgets the offset it is written again.
    assert (world.round().verdicts, world.round().emitted) == ({"UNCHANGED": 1}, 0)
    assert world.there() == there
    assert world.round(refresh_ms=0).verdicts == {"REFRESH": 1}
    # A group that goes back is followed; so is one that reads all.
    world.commit(world.flow.source, 3)
    assert world.round().verdicts == {"WRITE": 1}
    assert world.first(world.flow.target, world.there().offset) == world.first(world.flow.source, 3)  # type: ignore[union-attr]
    world.commit(world.flow.source, world.flow.offsets(world.flow.source, world.topic)[0])
    assert world.round().verdicts == {"WRITE": 1}
    assert all(s.offset < world.there().offset for s in not_foreign(read(world.flow.target, world.topic)[0]))  # type: ignore[union-attr]


def test_a_quick_look_reads_the_target_only_when_the_source_has_something_new(world: World) -> None:
    world.commit(world.flow.source, 5)
    world.round(round=1, last=(NO_ROUND,))
    quick = frozenset({world.group})
    report = world.round(round=2, last=(1,), quick=quick)
    assert (report.same, report.positions_of, report.verdicts) == ([world.group], {world.group: 1}, {})
    # Another offset, the same one with something else written beside it, and one more partition.
    world.commit(world.flow.source, 9)
    assert world.round(round=3, last=(2,), quick=quick).verdicts == {"WRITE": 1}
    world.commit(world.flow.source, 9, metadata="mine")
    report = world.round(round=4, last=(3,), quick=quick)
    assert (report.same, report.verdicts) == ([], {"UNCHANGED": 1})
    more = {world.at._replace(partition=1): Committed(2)}
    world.ask(world.flow.source, lambda g: g.alter({world.group: more}))
    assert world.round(round=5, last=(4,), quick=quick).verdicts == {"UNCHANGED": 1, "WRITE": 1}
    # After another process looked, and without `quick`, both sides are read.
    assert world.round(round=7, last=(6,), quick=quick).verdicts == {"UNCHANGED": 2}
    assert world.round(round=8, last=(7,)).verdicts == {"UNCHANGED": 2}
    assert world.round(round=9, last=(8,), quick=quick).same == [world.group]
    # Without offsets on the source nothing is known of it any more.
    world.ask(world.flow.source, lambda g: g.delete_offsets(world.group, [world.at, *more]))
    assert world.round(round=10, last=(9,), quick=quick).positions == 0
    world.ask(world.flow.source, lambda g: g.alter({world.group: more}))
    assert world.round(round=11, last=(10,), quick=quick).verdicts == {"UNCHANGED": 1}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_group_is_never_moved_and_a_joining_one_starts_there(world: World, protocol: str) -> None:
    """P14: a group that works on the target is not moved."""
    world.commit(world.flow.source, 5)
    world.round()
    with consumer(world.flow.target, world.group, group_protocol=protocol) as member:
        member.subscribe([world.topic])
        got = eventually(lambda: next(iter(member.consume(1, 0.2)), None), what="the first record")
        if got.partition() == 0:
            there = world.there()
            assert there is not None
            assert (got.offset() or 0) >= there.offset
        world.commit(world.flow.source, 9)
        assert world.round().verdicts == {"LIVE": 1}
    before = world.there()
    # It left without a commit: the committed offset is still drkit's.
    eventually(lambda: world.ask(world.flow.target, Groups.listed)[world.group].state == EMPTY)
    assert world.round().verdicts == {"WRITE": 1}
    assert world.there() != before


def test_a_group_that_worked_on_the_target_is_left_alone_for_ever(world: World) -> None:
    world.commit(world.flow.source, 5)
    world.round()
    with consumer(world.flow.target, world.group) as member:  # as Spark and Flink do: it never joins
        there = world.there()
        assert there is not None
        member.assign([ConsumerPartition(world.topic, 1, 0)])
        member.commit(offsets=[ConsumerPartition(world.topic, 1, 2)], asynchronous=False)
    for offset in (9, 3):
        world.commit(world.flow.source, offset)
        report = world.round()
        assert report.verdicts == {"MOVED": 1}
        assert report.refused == [(world.group, f"{world.topic}-0", "MOVED", "")]
        assert world.there() == there
        assert report.emitted == 1  # checkpoints continue: they move no group


def test_nothing_is_written_where_it_must_not_be(world: World) -> None:
    world.commit(world.flow.source, 5)
    assert world.round(promoted=frozenset({world.topic})).verdicts == {"PROMOTED": 1}
    assert world.there() is None
    end = world.flow.offsets(world.flow.source, world.topic)[0]
    world.commit(world.flow.source, end + 50)
    report = world.round()
    assert report.verdicts == {"NO_POSITION": 1}
    assert "past the end of the source" in report.refused[0][3]
    # No such group, no offsets: nothing to do and nothing made up.
    assert world.round(groups=("no-such-group",)).positions == 0


def test_a_position_that_the_target_has_forgotten_is_written_there_again(world: World) -> None:
    """The group's offset on the source came from the target, and is the only one that is left."""
    world.commit(world.flow.target, 5)
    world.commit(world.flow.source, 7, metadata=OffsetMark(world.flow.target.alias, 5, 7, 1).text())
    assert world.round().verdicts == {"ECHO": 1}
    there = world.there()
    assert there is not None
    assert there.offset == 5
    assert world.ask(world.flow.target, lambda g: g.delete([world.group])) == {world.group: 0}
    assert world.round().verdicts == {"WRITE": 1}
    there = world.there()
    assert there is not None
    assert world.first(world.flow.target, there.offset) == world.first(world.flow.source, 7)


def test_what_is_not_copied_yet_waits_at_the_end_of_the_copy(world: World) -> None:
    before = world.flow.offsets(world.flow.source, world.topic)[0]
    world.commit(world.flow.source, before)
    world.round()
    fill(world.flow.source, world.topic, 200, first=500)
    world.commit(world.flow.source, before + 20)
    there = world.there()
    assert world.round().verdicts == {"UNCHANGED": 1}
    assert world.there() == there
    world.flow.copy(world.topic)
    assert world.round().verdicts == {"WRITE": 1}
    now = world.there()
    assert now is not None
    assert world.first(world.flow.target, now.offset) == world.first(world.flow.source, before + 20)


def test_deleted_groups_are_followed_only_where_no_consumer_committed(world: World) -> None:
    mine, other = world.group, f"{world.group}-other"
    for group in (mine, other):
        world.commit(world.flow.source, 5, group)
    both = (mine, other)
    assert world.round(groups=both).verdicts == {"WRITE": 2}
    world.commit(world.flow.target, 6, other)
    assert world.ask(world.flow.source, partial(Groups.delete, groups=both)) == dict.fromkeys(both, 0)
    gone = world.round(groups=(), gone=both)
    assert gone.deleted == [mine]
    assert world.there(mine) is None
    assert world.there(other) == Committed(6)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who writes checkpoints waits for a topic for a shorter time."""
    monkeypatch.setattr(mm2_topic, "_SECONDS", 4.0)


@pytest.mark.wide
@pytest.mark.usefixtures("impatient")
def test_a_lost_checkpoint_topic_is_reported_and_holds_up_nothing(world: World) -> None:
    world.commit(world.flow.source, 5)
    world.round()
    there = world.there()
    world.flow.delete(world.flow.target, world.checkpoints)
    world.commit(world.flow.source, 9)
    report = world.task.run(world.shard)
    assert "checkpoints cannot be written" in report.error
    # The group's position does not wait for it.
    assert report.verdicts == {"WRITE": 1}
    assert world.there() != there
    world.flow.create(world.flow.target, world.checkpoints, 1, {"cleanup.policy": "compact"})
    assert world.round().emitted == 1


def test_a_checkpoint_topic_created_again_gets_all_of_them(world: World) -> None:
    """Another topic of the same name has none: those that did not change are written again, too."""
    world.commit(world.flow.source, 5)
    first = str(world.flow.topic(world.flow.target, world.checkpoints).topic_id)
    assert world.round(topic_id=first).emitted == 1
    assert world.round(topic_id=first).emitted == 0
    world.flow.delete(world.flow.target, world.checkpoints)
    world.flow.create(world.flow.target, world.checkpoints, 1, {"cleanup.policy": "compact"})
    second = str(world.flow.topic(world.flow.target, world.checkpoints).topic_id)
    assert world.round(topic_id=second).emitted == 1
    assert len(read(world.flow.target, world.checkpoints)[0]) == 1
