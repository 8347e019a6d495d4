"""What a partition's cursor tells the map: no leader epoch that is too old, no claim left unconfirmed."""

from __future__ import annotations

from uuid import UUID

import pytest

from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.copy_task.target.bulk import Sent, intents_of
from drkit.model import SourceOffset
from drkit.offsets import encode_intent
from drkit.offsets.map_record import Mode
from drkit.offsets.partition_map import PartitionMap
from drkit.wire import Chunk
from tests.support.copy_task.chunks import HISTORY, NONCE, chunk


def begin(partition: PartitionCopy, upstream: int, downstream: int, sequence: int) -> None:
    """Settled, in leader epoch 3 of the source."""
    partition.begin(
        upstream=upstream, downstream=downstream, copied_end=downstream, sequence=sequence,
        delta=upstream - downstream, leader_epoch=3, history=HISTORY, live=True,
    )  # fmt: skip


@pytest.fixture
def partition() -> PartitionCopy:
    made = PartitionCopy(PartitionAssignment("t", str(UUID(int=1)), "t", str(UUID(int=2)), 0, 0))
    begin(made, 10, 10, 0)
    return made


def stage(partition: PartitionCopy, *chunks: Chunk) -> tuple[int, int] | None:
    """Target offset and leader epoch of the intent, if there is one."""
    partition.take(list(chunks), chunks[-1].next_source, chunks[-1].leader_epoch)
    intent = partition.stage(0, NONCE, None)
    return (intent.downstream, intent.leader_epoch) if intent is not None else None


def commit(partition: PartitionCopy, said: PartitionMap, *chunks: Chunk) -> None:
    """A transaction of bulk mode: its records come with those of the map."""
    place, placed = partition.acked_downstream, []
    for c in chunks:
        placed.append((Sent(partition, partition.generation, c, None), place))
        place += c.count
    for _, record in intents_of(placed, NONCE):
        said.apply(record)
    for sent, base in placed:
        partition.uncommitted += 1
        partition.committed(sent.chunk, base)


def confirm(partition: PartitionCopy, said: PartitionMap) -> None:
    """Write a mark, if there is one to write."""
    mark = partition.mark(NONCE)
    if mark is not None:
        said.apply(mark)
        partition.confirmed(mark, partition.generation)


def test_another_leader_epoch_begins_with_an_intent(partition: PartitionCopy) -> None:
    assert stage(partition, chunk(10, 5, 3)) is None  # continues as the map says
    assert stage(partition, chunk(15, 5, 4)) == (15, 4)
    assert stage(partition, chunk(20, 5, 4)) is None
    assert stage(partition, chunk(25, 5, 4), chunk(30, 5, 6)) == (30, 6)
    assert stage(partition, chunk(36, 5, 6)) == (35, 6)  # a hole, as ever


def test_a_claim_names_the_history_and_the_sequence_of_its_first_record(partition: PartitionCopy) -> None:
    stage(partition, chunk(10, 5, 3))
    partition.take([chunk(20, 7, 3), chunk(30, 2, 3)], 32, 3)
    claim = partition.stage(0, NONCE, None)
    assert claim is not None
    assert (claim.mode, claim.history, claim.base_sequence) == (Mode.LIVE, HISTORY, 5)
    assert claim.runs == ((20, 7), (30, 2))


def test_two_claims_of_one_offset_have_their_own_keys(partition: PartitionCopy) -> None:
    """The log cleaner must not replace one that may still be appended."""
    keys = []
    for first in (20, 30):
        partition.take([chunk(first, 7, 3)], first + 7, 3)
        claim = partition.stage(0, NONCE, None)
        assert claim is not None
        assert claim.downstream == 10
        keys.append(encode_intent(partition.key, claim)[0])
        partition.void()
        begin(partition, 10, 10, 0)
    assert len(set(keys)) == 2


def test_where_an_earlier_task_may_append_another_leader_epoch_ends_the_history(
    partition: PartitionCopy,
) -> None:
    partition.inherited = True
    assert stage(partition, chunk(10, 5, 3), chunk(15, 5, 4)) is None
    assert [staged.chunk.count for staged in partition.ready] == [5]
    assert "another leader" in partition.deviation


def test_a_mark_holds_the_epoch_of_all_that_it_passes(partition: PartitionCopy) -> None:
    stage(partition, chunk(10, 5, 3))
    partition.acknowledge(partition.ready.popleft())
    mark = partition.mark(NONCE)
    assert mark is not None
    assert (mark.upstream, mark.leader_epoch) == (15, 3)
    partition.take([], 17, 5)  # a marker that the next leader wrote
    mark = partition.mark(NONCE)
    assert mark is not None
    assert (mark.upstream, mark.downstream, mark.leader_epoch) == (17, 15, 5)


def test_what_is_not_acknowledged_yet_is_passed_by_no_mark(partition: PartitionCopy) -> None:
    stage(partition, chunk(10, 5, 3), chunk(15, 5, 4))
    partition.take([], 22, 4)
    partition.acknowledge(partition.ready.popleft())
    mark = partition.mark(NONCE)
    assert mark is not None
    assert (mark.upstream, mark.sequence, mark.leader_epoch) == (15, 5, 3)
    partition.acknowledge(partition.ready.popleft())
    mark = partition.mark(NONCE)
    assert mark is not None
    assert (mark.upstream, mark.sequence, mark.leader_epoch) == (22, 10, 4)


@pytest.mark.parametrize("marks", [0, 1])
def test_a_bulk_record_confirms_what_was_appended_before_it(partition: PartitionCopy, marks: int) -> None:
    """Its sequence number is an anchor, so no mark has to come between a claim and a transaction."""
    said = PartitionMap()
    confirm(partition, said)
    stage(partition, chunk(10, 5, 3))
    partition.acknowledge(partition.ready.popleft())
    partition.take([chunk(20, 7, 3)], 27, 3)  # after a hole
    intent = partition.stage(0, NONCE, None)
    assert intent is not None
    said.apply(intent)
    confirm(partition, said)  # one of those every 15 s, while the append is on its way
    partition.acknowledge(partition.ready.popleft())
    for _ in range(marks):
        confirm(partition, said)
    partition.state = CopyState.BULK
    commit(partition, said, chunk(27, 4, 3))
    assert [said.segments.translate(SourceOffset(u), 26) for u in (10, 14, 15, 20, 26, 27, 30)] == [
        10, 14, 15, 15, 21, 22, 25,
    ]  # fmt: skip


def test_a_claim_of_which_nothing_was_appended_is_void_after_a_bulk_record(partition: PartitionCopy) -> None:
    said = PartitionMap()
    confirm(partition, said)
    stage(partition, chunk(10, 5, 3))
    partition.acknowledge(partition.ready.popleft())
    partition.take([chunk(20, 7, 3)], 27, 3)
    intent = partition.stage(0, NONCE, None)
    assert intent is not None
    said.apply(intent)
    partition.void()
    begin(partition, 15, 15, 5)
    partition.state = CopyState.BULK
    commit(partition, said, chunk(20, 2, 3), chunk(23, 5, 3))
    assert not said.pending
    assert [said.segments.translate(SourceOffset(u), 22) for u in (14, 20, 21, 22, 23, 27)] == [
        14, 15, 16, 17, 17, 21,
    ]  # fmt: skip


def test_a_mark_counts_once_it_is_durable(partition: PartitionCopy) -> None:
    """One that is on its way is not relied on, nor one from before the target was asked again."""
    partition.take([chunk(20, 7, 3)], 27, 3)
    partition.stage(0, NONCE, None)
    partition.acknowledge(partition.ready.popleft())
    mark, generation = partition.mark(NONCE), partition.generation
    assert mark is not None
    assert partition.mark(NONCE) == mark
    partition.void()
    begin(partition, 27, 17, 7)
    partition.confirmed(mark, generation)
    again = partition.mark(NONCE)
    assert again is not None
    partition.confirmed(again, partition.generation)
    assert partition.mark(NONCE) is None


def test_a_late_answer_for_an_older_mark_does_not_hide_the_newer_one(partition: PartitionCopy) -> None:
    marks = []
    for first in (10, 15):
        stage(partition, chunk(first, 5, 3))
        partition.acknowledge(partition.ready.popleft())
        mark = partition.mark(NONCE)
        assert mark is not None
        marks.append(mark)
    for mark in reversed(marks):
        partition.confirmed(mark, partition.generation)
    assert partition.mark(NONCE) is None
