"""What the target's retention has removed is not lost; what a former leader or half a pack cannot prove."""

from __future__ import annotations

from typing import Final

import pytest

from drkit.kafka import codes
from drkit.kafka.requests import ProducerState
from drkit.model import TopicPartition
from drkit.offset_map.look import Look
from drkit.offset_map.settling import FirstOffset, Scan, Settled, Wanted, settling
from drkit.offsets import History, Intent, Mark, Pack, PartitionMap, SegmentMap, Unavailable
from drkit.offsets.map_record import NO_ANCHOR, Mode, Turn
from drkit.offsets.resolution import LogBatch, LogLook, Resolution
from drkit.offsets.resolve import resolve
from drkit.offsets.seed import CopyEnd, seed_of_emptied
from drkit.offsets.takeup import Author, settled_records

OURS: Final = 77
HISTORY: Final = History(OURS, 0)
AT: Final = TopicPartition("t", 0)


def claim(sequence: int, downstream: int, *runs: tuple[int, int]) -> Intent:
    return Intent(Mode.LIVE, sequence, HISTORY, sequence, downstream, downstream, 1, runs)


def mark(upstream: int, at: int, *, leader: int = -1) -> Mark:
    return Mark(1, HISTORY, upstream, at, at, at, 1, target_epoch=leader, live=True)


def ours(base: int, records: int, sequence: int) -> LogBatch:
    return LogBatch(base, records, *HISTORY, sequence, transactional=False, control=False, aborted=False)


def map_of(*records: Intent | Mark | Pack | Turn) -> PartitionMap:
    state = PartitionMap()
    for record in records:
        state.apply(record)
    return state


def walk(
    state: PartitionMap,
    look: Look,
    log: list[LogBatch],
    start: int,
    *,
    seen_epoch: int = -1,
    emptied: int = 0,
) -> Settled:
    """Settle with a log that begins where retention has come to by the time it is read."""
    steps = settling(Wanted(AT, state, frozenset({OURS}), seen_epoch=seen_epoch, emptied=emptied), look)
    answer: list[LogBatch] | int | None = None
    firsts = iter([0, start, start, start])
    while True:
        try:
            asked = steps.send(answer)
        except StopIteration as end:
            settled: Settled = end.value
            return settled
        if isinstance(asked, FirstOffset):
            answer = next(firsts)
        else:
            assert isinstance(asked, Scan)
            answer = [b for b in log if b.end > max(asked.start, start) and b.base < asked.end]


@pytest.mark.parametrize("log", [[], [ours(60, 5, 60)]])
def test_retention_and_another_leader_do_not_take_all_for_lost(log: list[LogBatch]) -> None:
    """Also where retention removes the log between the question for its start and the look at it."""
    state = map_of(claim(0, 0, (100, 50)), mark(150, 50, leader=1))
    end = log[-1].end if log else 60
    look = Look(0, end, leader_epoch=2, producers={OURS: ProducerState(0, end - 1 if log else 49, -1)})
    found = walk(state, look, log, 60).resolution
    assert found is not None
    assert (found.truncated_from, found.segments.triples()[0][:2]) == (None, (100, 0))


def test_retention_has_removed_nothing_where_the_first_claim_was_never_appended() -> None:
    """The log has the records of an earlier topic, with sequence numbers of the same history."""
    state = map_of(claim(0, 911, (0, 238)))
    found = resolve(state, LogLook(911, 911, frozenset({OURS})), [], 911)
    assert isinstance(found, Resolution)
    assert (found.upstream, found.passed, found.unappended) == (None, False, True)


def test_an_emptied_copy_that_lost_its_end_is_not_continued() -> None:
    """Records copied after that end would be deleted when the copy is emptied again."""
    seed = seed_of_emptied(CopyEnd(7, 100), 7)
    state = map_of(Pack(1, 0, 1, 100, seed.segments), seed.turn(HISTORY, None, Author(1, 1, 1)))
    for end, leader in ((90, 1), (90, 2)):
        found = walk(state, Look(0, end, leader_epoch=leader), [], 0, emptied=100)
        assert isinstance(found.answer, Unavailable)
        assert "ends at 90, before 100" in found.answer.reason
    there = walk(state, Look(0, 100, leader_epoch=2), [ours(40, 60, 9)], 0, emptied=100).resolution
    assert there is not None
    assert (there.upstream, there.downstream, there.truncated_from) == (7, 100, None), "old records are back"


def test_what_was_appended_and_removed_before_a_mark_is_not_copied_again() -> None:
    """The leader's number says that it was appended; the claims say what it was."""
    records = claim(0, 0, (100, 50)), mark(150, 50), claim(55, 55, (200, 5), (300, 5))
    look = Look(0, 70, leader_epoch=2, producers={OURS: ProducerState(0, 60, -1)})
    foreign = LogBatch(68, 2, 99, 0, 0, transactional=False, control=False, aborted=False)
    state = map_of(*records)
    found = walk(state, look, [foreign], 68).resolution
    assert found is not None
    assert (found.upstream, found.sequence, found.copied_end, found.unappended) == (301, 61, 50, True)
    # Once written down it is the same for the next reader of the map, though the log no longer shows it.
    (cut,) = settled_records(found, HISTORY, Author(5, 1))
    assert isinstance(cut, Intent)
    assert cut.previous_end == NO_ANCHOR
    state.apply(cut)
    again = walk(state, look, [foreign], 68).resolution
    assert again is not None
    assert (again.upstream, again.sequence, again.copied_end) == (301, 61, 50)


def test_a_log_without_more_than_the_map_knows_has_no_hole() -> None:
    """The leader's sequence number may belong to another append: only the log says which."""
    state = map_of(claim(0, 0, (100, 50)), mark(150, 50, leader=2), claim(50, 50, (200, 5)))
    look = Look(0, 50, start=0, leader_epoch=2, producers={OURS: ProducerState(0, 51, -1)})
    found = walk(state, look, [ours(0, 50, 0)], 0).resolution
    assert found is not None
    assert (found.passed, found.upstream) == (False, 150)


def test_a_batch_counts_as_left_where_the_map_names_its_last_record() -> None:
    """Foreign records have replaced records of the flow: an older batch of its own there is not the map's."""
    state = map_of(claim(0, 0, (100, 20)), Intent(Mode.REPAIR, 2, HISTORY, 20, 30, 20, 1, ((120, 20),)))
    # The log was lost from 10 on; another task's batches with the same numbers came to other offsets.
    log = [ours(0, 10, 0), ours(20, 5, 10)]
    found = resolve(state, LogLook(25, None, frozenset({OURS})), log, 0)
    assert isinstance(found, Resolution)
    assert (found.truncated_from, found.copied_end, found.upstream, found.sequence) == (50, 10, 110, 10)


def test_offsets_and_numbers_agree_by_chance_where_others_wrote() -> None:
    """Two records of the flow and two of others were lost, then two of others came."""
    state = map_of(claim(0, 0, (100, 9)), Intent(Mode.REPAIR, 2, HISTORY, 9, 11, 9, 1, ((109, 1),)))
    log = [ours(0, 8, 0), LogBatch(8, 2, 99, 0, 0, transactional=False, control=False, aborted=False)]
    look = Look(0, 10, leader_epoch=2, producers={OURS: ProducerState(0, 7, -1)})
    found = walk(state, look, log, 0).resolution
    assert found is not None
    assert (found.copied_end, found.upstream, found.sequence) == (8, 108, 8)


def test_a_pack_without_its_mark_gives_no_answer() -> None:
    pack = Pack(9, 0, 1, 50, SegmentMap.of([(100, 0, 50)]))
    answer = resolve(map_of(pack), LogLook(50, 50, frozenset({OURS})))
    assert isinstance(answer, Unavailable)
    assert "mark of the pack" in answer.reason


@pytest.mark.parametrize(("epoch", "error"), [(4, codes.LEADER_NOT_AVAILABLE), (5, 0)])
def test_a_leader_older_than_the_one_that_was_seen_is_not_believed(epoch: int, error: int) -> None:
    """The map may not say yet which leader a task has seen."""
    state = map_of(claim(0, 0, (100, 50)), mark(150, 50))
    look = Look(0, 30, start=0, leader_epoch=epoch, producers={OURS: ProducerState(0, 29, -1)})
    settled = walk(state, look, [ours(0, 30, 0)], 0, seen_epoch=5)
    assert (settled.error, settled.answer is None) == (error, bool(error))
