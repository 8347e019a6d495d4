"""What the map claims, settled against a log: the answer must be the log's truth.

Random schedules of tasks, kills and leaders are walked by `tests/model`; here one map is settled at a time.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from drkit.model import SourceOffset, TargetOffset
from drkit.offsets import (
    History,
    Intent,
    PartitionMap,
    Turn,
)
from drkit.offsets.map_record import Mode
from drkit.offsets.resolution import Foreign, LogBatch, NeedLog, Resolution
from drkit.offsets.resolve import resolve
from tests.support.offsets.settling import (
    BULK,
    FOREIGN,
    HISTORY,
    OURS,
    after,
    foreign,
    live,
    look,
    map_of,
    mark,
    ours,
    settle,
    settled,
)


def test_a_bulk_record_is_true_without_the_log_and_its_marker_is_no_foreign_record() -> None:
    state = map_of(Intent(Mode.BULK, 1, HISTORY, after(0), 0, 0, 1, ((10, 5), (20, 5))))
    marker = LogBatch(10, 1, BULK, 0, -1, transactional=True, control=True, aborted=False)
    asked = look(11, None)
    assert resolve(state, asked) == NeedLog(10)
    found = resolve(state, asked, [marker])
    assert isinstance(found, Resolution)
    assert (found.upstream, found.downstream, found.copied_end, found.foreign) == (25, 11, 10, [])
    assert (found.history, found.sequence, found.live) == (HISTORY, after(0), False)
    assert found.segments.triples() == [(10, 0, 5), (20, 5, 5)]


def test_foreign_records_are_named_and_are_not_counted_as_copies() -> None:
    state = map_of(live(1, 0, (10, 5)), mark(1, 15, 5))
    found = settled(state, look(9, after(7)), [ours(0, 5, after(0)), foreign(5, 2), ours(7, 2, after(5))])
    assert found.foreign == [Foreign(5, 2, FOREIGN)]
    assert found.segments.triples() == [(10, 0, 5), (15, 7, -1)]
    assert (found.upstream, found.copied_end, found.sequence) == (17, 9, after(7))


def test_a_target_that_lost_acknowledged_records_is_named() -> None:
    state = map_of(live(1, 0, (100, 50)), mark(1, 150, 50))
    found = settled(state, look(30, after(30)), [ours(0, 20, after(0)), ours(20, 10, after(20))])
    assert (found.truncated_from, found.upstream, found.copied_end, found.sequence) == (
        50,
        130,
        30,
        after(30),
    )
    assert found.segments.copied_end(found.copied_end) == 30


def test_a_target_that_lost_records_and_forgot_the_producer_is_settled_by_its_last_batch() -> None:
    records = live(1, 0, (100, 50)), mark(1, 150, 50)
    asked = look(30, None)
    assert resolve(map_of(*records), asked) == NeedLog(29)
    found = settled(map_of(*records), asked, [ours(0, 20, after(0)), ours(20, 10, after(20))])
    assert (found.truncated_from, found.upstream, found.sequence) == (50, 130, after(30))
    answer = settle(map_of(*records), asked, [ours(0, 20, after(0)), foreign(20, 10)])
    # What has grown since belongs to others; what is left before it is known by its sequence numbers.
    assert isinstance(answer, Resolution)
    assert (answer.upstream, answer.copied_end, len(answer.foreign)) == (120, 20, 1)


def test_a_target_that_lost_records_and_grew_again_is_not_taken_for_whole() -> None:
    """Its end is that of the map, but the leader's last sequence number is not."""
    state = map_of(live(1, 0, (100, 50)), mark(1, 150, 50))
    log = [ours(0, 30, after(0)), foreign(30, 20)]
    found = settled(state, look(50, after(30)), log)
    assert (found.truncated_from, found.upstream, found.copied_end) == (50, 130, 30)
    assert found.foreign == [Foreign(30, 20, FOREIGN)]


def test_an_equal_distance_does_not_prove_that_the_end_is_the_flows() -> None:
    """Two foreign records lay before the lost ones, and two others have grown where those were."""
    before = replace(mark(1, 113, 15), sequence=after(13))
    behind = replace(live(2, 12, (110, 50), sequence=after(10)), previous_end=10)
    state = map_of(live(1, 0, (100, 10)), behind, before)
    found = settled(state, look(6, after(4)), [ours(0, 4, after(0)), foreign(4, 2)])
    assert (found.truncated_from, found.upstream, found.copied_end) == (15, 104, 4)
    assert found.foreign == [Foreign(4, 2, FOREIGN)]


def test_what_the_cleaner_removed_on_the_target_was_there() -> None:
    """Of 50 records after the mark two batches are left, one of them after foreign records."""
    state = map_of(live(1, 0, (100, 50)), mark(1, 110, 10))
    log = [ours(20, 5, after(20)), foreign(30, 4), ours(44, 10, after(40))]
    found = settled(state, look(54, after(50)), log)
    assert (found.truncated_from, found.upstream, found.copied_end, found.sequence) == (
        None,
        150,
        54,
        after(50),
    )
    assert [found.segments.translate(SourceOffset(u), TargetOffset(54)) for u in (120, 140)] == [20, 44]
    assert [(r.upstream, r.records) for r in found.repairs] == [(120, 5), (125, 5), (130, 10), (140, 10)]


@pytest.mark.parametrize("next_sequence", [after(30), None])
def test_what_is_left_of_a_lost_tail_keeps_its_sequence_number(next_sequence: int | None) -> None:
    """Foreign records take offsets and no numbers: the next loss is looked for by the number at the cut."""
    foreign_between = Intent(Mode.REPAIR, 2, HISTORY, after(30), 40, 30, 1, ((130, 10),))
    state = map_of(live(1, 0, (100, 30)), foreign_between)
    log = [ours(0, 20, after(0)), ours(20, 10, after(20))]
    found = settled(state, look(30, next_sequence), log)
    assert (found.upstream, found.copied_end, found.anchored) == (130, 30, True)
    assert found.sequence == after(30)


@pytest.mark.parametrize("next_sequence", [after(0), None])
def test_nothing_copied_yet_says_so(next_sequence: int | None) -> None:
    found = settled(PartitionMap(), look(3, next_sequence))
    assert (found.upstream, found.first_foreign, found.downstream) == (None, True, 3)


def test_after_a_turn_the_old_history_counts_no_more() -> None:
    """What its writers claimed further on is void, whenever it reached the map."""
    new = History(OURS, 1)
    turn = Turn(
        nonce=2, reign=2, ended=HISTORY, ended_sequence=after(5), history=new, upstream=15, downstream=6,
        copied_end=5, leader_epoch=1, target_epoch=-1,
    )  # fmt: skip
    claim = Intent(Mode.LIVE, 3, new, 0, 6, 5, 1, ((20, 4),))
    late = live(9, 5, (15, 8))
    before = map_of(live(1, 0, (10, 5)), late, turn, claim)
    behind = map_of(live(1, 0, (10, 5)), turn, claim, late)
    for state in (before, behind):
        found = settled(state, look(10, 4))
        assert found.segments.triples() == [(10, 0, 5), (20, 6, -1)]
        assert (found.history, found.upstream, found.sequence) == (new, 24, 4)


def test_after_a_turn_a_late_mark_and_a_late_repair_of_the_old_history_are_void() -> None:
    new = History(OURS, 1)
    turn = Turn(
        nonce=2, reign=2, ended=HISTORY, ended_sequence=after(5), history=new, upstream=15, downstream=6,
        copied_end=5, leader_epoch=1, target_epoch=-1,
    )  # fmt: skip
    repair = Intent(Mode.REPAIR, 9, HISTORY, after(5), 6, 5, 1, ((15, 4),))
    for late in (mark(9, 19, 10), repair, live(9, 6, (15, 4))):
        state = map_of(live(1, 0, (10, 5)), turn, late)
        assert (state.history, state.pending) == (new, [])
        assert settled(state, look(6, None)).upstream == 15
