"""What a process keeps of groups between rounds is used only while it is true."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from drkit.checkpoints.round import Memory, Remembered, _emit
from drkit.checkpoints.shard import NO_ROUND, Shard
from drkit.checkpoints.sync import GroupPosition
from drkit.flow_state.copied_topics import CopiedTopics, Producers
from drkit.kafka.groups.requests import Committed
from drkit.model import TopicPartition
from drkit.offsets.group_guard import OffsetMark, StoredOffset
from drkit.offsets.mm2_records import Checkpoint
from drkit.offsets.translation import Exact

AT, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = {AT: Committed(7), OTHER: Committed(9)}
KNOWN = CopiedTopics({"t": ("t", UUID(int=1), UUID(int=2))}, Producers(1, frozenset({1})))


def shard(number: int, last: int, topic_id: str = "") -> Shard:
    return Shard(0, "a", ("g",), KNOWN, round=number, last=(last,), topic_id=topic_id)


def worked(memory: Memory, number: int, last: int) -> Remembered:
    """A whole round for the group, which has something on the source and a checkpoint of that."""
    memory.begin(shard(number, last))
    group = memory.groups["g"]
    for at, committed in OFFSETS.items():
        group.newest_first(at, committed.offset)
        group.emitted[at] = (committed.offset, 1)
    group.keep(OFFSETS)
    memory.end(shard(number, last))
    return group


def test_what_the_last_look_found_is_known_to_the_process_that_did_it() -> None:
    memory = Memory()
    group = worked(memory, 1, NO_ROUND)
    memory.begin(shard(2, 1))
    assert group.offsets == OFFSETS
    assert set(group.emitted) == {AT, OTHER}


def test_a_newer_look_of_another_process_counts() -> None:
    for last in (NO_ROUND, 2):
        memory = Memory()
        group = worked(memory, 1, NO_ROUND)
        memory.begin(shard(3, last))
        assert group.offsets is None
        assert not group.emitted


def test_a_round_that_broke_off_leaves_nothing_to_rely_on() -> None:
    memory = Memory()
    group = worked(memory, 1, NO_ROUND)
    memory.begin(shard(2, 1))  # and no end
    memory.begin(shard(3, 1))
    assert group.offsets is None
    assert not group.emitted


def test_another_topic_has_none_of_the_checkpoints() -> None:
    memory = Memory()
    group = worked(memory, 1, NO_ROUND)
    memory.begin(shard(2, 1, "made anew"))
    assert not group.emitted


def test_groups_that_are_deleted_are_forgotten() -> None:
    memory = Memory()
    for number in range(9):  # two groups at a time: each round one is created, one deleted
        names = (f"g{number}", f"g{number + 1}")
        memory.begin(Shard(0, "a", names[1:], KNOWN, round=number, last=(NO_ROUND,), remembered=len(names)))
    assert list(memory.groups) == ["g8", "g9"]


def test_earlier_offsets_are_the_ones_that_the_group_has_passed() -> None:
    group = Remembered()
    assert group.newest_first(AT, 5) == (5,)
    assert group.newest_first(AT, 5) == (5,)
    for offset in (6, 8, 9):
        group.newest_first(AT, offset)
    assert group.newest_first(AT, 12) == (12, 9, 8, 6)
    assert group.newest_first(AT, 8) == (8,)  # it went back


def test_a_partition_without_an_offset_is_forgotten() -> None:
    memory = Memory()
    group = worked(memory, 1, NO_ROUND)
    group.keep({AT: Committed(7)})
    assert set(group.seen) == set(group.emitted) == {AT}


class Written:
    """A topic of checkpoints that keeps what is written to it."""

    def __init__(self) -> None:
        self.found: list[Checkpoint] = []

    def write(self, checkpoints: Iterable[Checkpoint]) -> None:
        self.found += checkpoints


def test_a_position_that_came_from_the_other_side_is_a_checkpoint_since_a_turn_only() -> None:
    """Else an older one, of another life of the log, would be believed when the source dies."""
    echo = StoredOffset(60, OffsetMark("b", 12, 60, 1).text())
    positions = {"g": {at: GroupPosition(echo, at, Exact(12), None) for at in (AT, OTHER)}}
    memory, topic = Memory({"g": Remembered()}), Written()
    _emit(topic, positions, memory, {AT})  # type: ignore[arg-type]  # it has what is used of the topic
    assert topic.found == [Checkpoint("g", *AT, 60, 12)]
