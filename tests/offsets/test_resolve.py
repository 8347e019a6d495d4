"""What the map claims, settled against a log: the answer must be the log's truth.

Random schedules of tasks, kills and leaders are walked by `tests/model`; here one map is settled at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.model import SourceOffset
from drkit.offset_map.bucket import MapBucket
from drkit.offsets import (
    History,
    Intent,
    MapKey,
    MapRecord,
    Mark,
    Pack,
    PartitionMap,
    Turn,
    Unavailable,
    encode_map_record,
)
from drkit.offsets.map_record import SEQUENCE_MODULUS, Mode
from drkit.offsets.resolve import Answer, Foreign, LogBatch, LogLook, NeedLog, Resolution, resolve
from drkit.offsets.takeup import Author, repairs_of

KEY = MapKey(UUID(int=1), UUID(int=2), 0)
OURS, FOREIGN, BULK = 77, 99, 55
HISTORY: Final = History(OURS, 0)
SEQUENCE_START: Final = SEQUENCE_MODULUS - 7
"""Every history wraps around."""


def after(records: int) -> int:
    """The sequence number after so many records."""
    return (SEQUENCE_START + records) % SEQUENCE_MODULUS


def live(
    nonce: int, place: int, *runs: tuple[int, int], epoch: int = 1, sequence: int | None = None
) -> Intent:
    """A claim; where nothing foreign is on the target, its sequence number is as far as its place."""
    first = after(place) if sequence is None else sequence
    return Intent(Mode.LIVE, nonce, HISTORY, first, place, place, epoch, runs)


def mark(nonce: int, upstream: int, downstream: int, epoch: int = 1) -> Mark:
    """A mark of live mode, on a target without foreign records."""
    return Mark(nonce, HISTORY, upstream, downstream, downstream, after(downstream), epoch, live=True)


def ours(base: int, records: int, sequence: int, history: History = HISTORY) -> LogBatch:
    """A batch of a live history in the target's log."""
    return LogBatch(base, records, *history, sequence, transactional=False, control=False, aborted=False)


def foreign(base: int, records: int) -> LogBatch:
    """A batch of another producer."""
    return ours(base, records, 0, History(FOREIGN, 0))


def look(end: int, next_sequence: int | None) -> LogLook:
    """What the partition's leader says."""
    return LogLook(end, next_sequence, frozenset({OURS}))


def settle(state: PartitionMap, asked: LogLook, log: Iterable[LogBatch] = ()) -> Answer:
    """An answer, with the log where it is needed."""
    answer = resolve(state, asked)
    for _ in range(2):
        if isinstance(answer, NeedLog):
            answer = resolve(state, asked, [b for b in log if b.end > answer.start])
    return answer


def settled(state: PartitionMap, asked: LogLook, log: Iterable[LogBatch] = ()) -> Resolution:
    """An exact answer."""
    answer = settle(state, asked, log)
    assert isinstance(answer, Resolution)
    return answer


def map_of(*records: MapRecord) -> PartitionMap:
    """What records of the map say, read from their bytes."""
    bucket = MapBucket(0, "map")
    for record in records:
        bucket.apply(*encode_map_record(KEY, record))
    assert not bucket.unreadable
    return bucket.of(KEY.source_id, KEY.target_id, KEY.partition)


# -- any layout, by numbers and by the log ------------------------------------------------------------


class Step(NamedTuple):
    """A batch of the flow, and what is before it."""

    hole: int
    """Source offsets that hold no committed record."""
    foreign: int
    """Records of others on the target."""
    records: int
    another_leader: bool


@dataclass
class Layout:
    """A source copied to a target, and the claims that a single task makes meanwhile."""

    truth: list[tuple[int, int]] = field(default_factory=list)
    log: list[LogBatch] = field(default_factory=list)
    claims: list[Intent] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    """One after each batch."""
    end: int = 0
    upstream: int = 0
    count: int = 0
    epoch: int = 1

    def take(self, step: Step) -> None:
        previous = self.marks[-1].copied_end if self.marks else 0
        if step.foreign:
            self.log.append(foreign(self.end, step.foreign))
            self.end += step.foreign
        self.upstream += step.hole
        self.epoch += step.another_leader
        if not self.claims or step.hole or step.foreign or step.another_leader:
            runs = ((self.upstream, step.records),)
            self.claims.append(
                Intent(
                    Mode.LIVE,
                    len(self.claims),
                    HISTORY,
                    after(self.count),
                    self.end,
                    previous,
                    self.epoch,
                    runs,
                )
            )
        self.log.append(ours(self.end, step.records, after(self.count)))
        self.truth += [(self.upstream + i, self.end + i) for i in range(step.records)]
        self.count += step.records
        self.end += step.records
        self.upstream += step.records
        self.marks.append(
            Mark(99, HISTORY, self.upstream, self.end, self.end, after(self.count), self.epoch, live=True)
        )

    def check(self, found: Resolution) -> None:
        assert (found.upstream, found.copied_end, found.downstream) == (self.upstream, self.end, self.end)
        assert (found.sequence, found.leader_epoch) == (after(self.count), self.epoch)
        for upstream in range(self.upstream + 2):
            expected = next((d for u, d in self.truth if u >= upstream), self.end)
            assert found.segments.translate(SourceOffset(upstream), self.end) == expected


steps = st.builds(Step, st.integers(0, 2), st.integers(0, 2), st.integers(1, 5), st.booleans())
layouts = st.lists(steps, min_size=1, max_size=10)


def layout_of(shape: list[Step]) -> Layout:
    layout = Layout()
    for step in shape:
        layout.take(step)
    return layout


@given(layouts, st.integers(-1, 9))
def test_numbers_and_log_give_the_same_exact_answer(shape: list[Step], marked: int) -> None:
    layout = layout_of(shape)
    marked = min(marked, len(shape) - 1)
    written: list[MapRecord] = [*layout.claims]
    if marked >= 0:
        written.append(layout.marks[marked])
    for sequence in (after(layout.count), None):  # the leader knows the producer, or has forgotten it
        layout.check(settled(map_of(*written), look(layout.end, sequence), layout.log))


@given(layouts, st.integers(-1, 9))
def test_what_the_log_confirmed_is_written_down_and_needs_no_log_again(
    shape: list[Step], marked: int
) -> None:
    layout = layout_of(shape)
    marked = min(marked, len(shape) - 1)
    written: list[MapRecord] = [*layout.claims, *([layout.marks[marked]] if marked >= 0 else [])]
    found = settled(map_of(*written), look(layout.end, None), layout.log)
    repairs = repairs_of(found, HISTORY, Author(5, 1))
    layout.check(settled(map_of(*written, *repairs), look(layout.end, after(layout.count))))


# -- packs ------------------------------------------------------------------------------------------------


def packs_of(found: Resolution, part_size: int) -> list[Pack]:
    pieces = [found.segments.part(i, i + part_size) for i in range(0, len(found.segments), part_size)]
    return [Pack(8, i, len(pieces), found.downstream, piece) for i, piece in enumerate(pieces)]


@given(layouts, layouts, st.integers(1, 3))
def test_a_pack_says_what_the_intents_said_and_they_can_go(
    shape: list[Step], later: list[Step], part_size: int
) -> None:
    layout = layout_of(shape)
    asked, newest = look(layout.end, after(layout.count)), layout.marks[-1]
    intents: list[MapRecord] = [*layout.claims, newest]
    packs: list[MapRecord] = [*packs_of(settled(map_of(*intents), asked), part_size)]
    layout.check(settled(map_of(*intents, *packs[:-1]), asked))  # a crash in the middle of packing
    layout.check(settled(map_of(*intents, *packs, newest), asked))
    layout.check(settled(map_of(*packs, newest), asked))  # the intents are compacted away
    known = len(layout.claims)
    for step in later:
        layout.take(step)
    asked = look(layout.end, after(layout.count))
    layout.check(settled(map_of(*packs, newest, *layout.claims[known:]), asked, layout.log))


# -- scenarios --------------------------------------------------------------------------------------------


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


def test_records_of_others_are_named_and_hold_no_place_of_ours() -> None:
    state = map_of(live(1, 0, (10, 5)), mark(1, 15, 5))
    found = settled(state, look(9, after(7)), [ours(0, 5, after(0)), foreign(5, 2), ours(7, 2, after(5))])
    assert found.foreign == [Foreign(5, 2, FOREIGN)]
    assert found.segments.triples() == [(10, 0, 5), (15, 7, -1)]
    assert (found.upstream, found.copied_end, found.sequence) == (17, 9, after(7))


def test_a_target_that_lost_acknowledged_records_is_named() -> None:
    state = map_of(live(1, 0, (100, 50)), mark(1, 150, 50))
    found = settled(state, look(30, after(30)))
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
    assert isinstance(answer, Unavailable)
    assert "lost records" in answer.reason


def test_a_target_that_lost_records_and_grew_again_is_not_taken_for_whole() -> None:
    """Its end is that of the map, but the leader's last sequence number is not."""
    state = map_of(live(1, 0, (100, 50)), mark(1, 150, 50))
    log = [ours(0, 30, after(0)), foreign(30, 20)]
    found = settled(state, look(50, after(30)), log)
    assert (found.truncated_from, found.upstream, found.copied_end) == (50, 130, 30)
    assert found.foreign == [Foreign(30, 20, FOREIGN)]


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
