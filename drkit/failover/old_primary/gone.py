"""Records that were not copied and that the old primary has no more: an export has them, or nothing. Pure.

Its retention runs whenever no return holds it, and a disk may fail. What was exported of the same failover
is on record, export by export; it is not forgotten because the old primary has lost it meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from drkit.counted import counted, first_of
from drkit.failover.loss.findings import DivergenceState, PartitionDivergence
from drkit.flow_state.records import SavedTailRecord, UnreplayedRecord

Spans = Sequence[tuple[int, int]]
_OTHERS: Final = frozenset({DivergenceState.REGROWN, DivergenceState.RECREATED})
"""Classes of partitions whose records need not be those that an export has of the same offsets."""


class Saved(NamedTuple):
    """What one export has of one topic of the old primary."""

    topic: str
    run: str
    """Of the export."""
    record: SavedTailRecord

    @property
    def name(self) -> str:
        """The record's name in the state, and that of what is decided about it."""
        return UnreplayedRecord.name_of(self.topic, self.run)

    @property
    def records(self) -> int:
        """How many records it has."""
        return sum(self.record.records.values())


class Gone(NamedTuple):
    """What the old primary has no more of one topic."""

    topic: str
    exported: tuple[Saved, ...]
    """Exports with records that it has no more, and about which nothing is decided."""
    records: int
    """How many records these have that it has no more."""
    lost: Mapping[int, Spans]
    """By partition: offsets that are gone, and in no export."""
    removed: int
    """All offsets that its retention has removed."""

    @property
    def offsets_lost(self) -> int:
        """How many offsets are gone for ever, at most so many records."""
        return sum(end - first for spans in self.lost.values() for first, end in spans)

    @property
    def lost_in_words(self) -> str:
        """The offsets that are gone for ever, by partition."""
        spans = ((p, span) for p, some in sorted(self.lost.items()) for span in some)
        return first_of(f"{self.topic}-{p} from {first} to {end - 1}" for p, (first, end) in spans)

    @property
    def in_words(self) -> str:
        """What is gone and where it is, for people."""
        said = []
        if self.exported:
            places = first_of(s.record.manifest for s in self.exported)
            said.append(f"{counted(self.records, 'record', 'is')} in an export alone ({places})")
        if self.lost:
            some = counted(self.offsets_lost, "offset", "is")
            said.append(f"{some} gone, and in no export ({self.lost_in_words})")
        if not said:
            some = counted(self.removed, "offset", "is")
            said.append(f"{some} gone, and in an export about which it was decided")
        return "; ".join(said)


def gone(
    topic: str, topic_id: str, term: int, tails: Iterable[PartitionDivergence], saved: Iterable[Saved],
    decided: Collection[str],
) -> Gone | None:  # fmt: skip
    """What the old primary has no more of one topic; None: nothing.

    :param topic_id: that of now, there
    :param term: of the failover that promoted it
    :param tails: its partitions that diverge
    :param saved: all exports of it
    :param decided: names of those about which it was decided
    """
    now = {t.partition: t for t in tails}
    mine = [s for s in saved if s.record.term == term]
    settled = [s for s in mine if s.name in decided]
    needed: list[Saved] = []
    for each in sorted(
        (s for s in mine if s.name not in decided), key=lambda s: (-s.records, s.record.at_ms)
    ):
        if _lacking(each, topic_id, now) and not any(
            other.record.has_all_of(each.record) for other in (*settled, *needed)
        ):
            needed.append(each)
    same = [s.record for s in mine if str(s.record.topic_id) == topic_id]
    lost = {p: left for p, t in sorted(now.items()) if (left := _lost(t, same))}
    removed = sum(t.removed for t in now.values())
    if not (needed or removed):
        return None
    lacking = {p for each in needed for p in each.record.records}
    records = sum(max(_lacking(each, topic_id, now).get(p, 0) for each in needed) for p in lacking)
    return Gone(topic, tuple(needed), records, lost, removed)


def _lacking(each: Saved, topic_id: str, now: Mapping[int, PartitionDivergence]) -> dict[int, int]:
    """By partition, how many records an export has that the old primary has no more."""
    record, found = each.record, {}
    is_same = str(record.topic_id) == topic_id
    for p, records in record.records.items():
        there = _there(now[p], record.spans[p], records) if is_same and p in now else 0
        if records > there:
            found[p] = records - there
    return found


def _there(tail: PartitionDivergence, span: tuple[int, ...], records: int) -> int:
    """How many of the records of an export the old primary still has, at least."""
    present, end = _present(tail), tail.end
    if tail.found in _OTHERS and ((present, end), tail.records) != (tuple(span), records):
        return 0
    if present <= span[0] or end is None:
        return tail.records
    # Others may have been written behind those that were exported.
    return max(0, tail.records - max(0, end - span[1]))


def _present(tail: PartitionDivergence) -> int:
    """The first offset of the tail that is still there."""
    return tail.lost_from + tail.emptied + tail.removed


def _lost(tail: PartitionDivergence, saved: Iterable[SavedTailRecord]) -> list[tuple[int, int]]:
    """Offsets of a partition that retention has removed, and that no export has."""
    end = _present(tail)
    spans = (record.spans[tail.partition] for record in saved if tail.partition in record.spans)
    return list(uncovered((end - tail.removed, end), spans))


def uncovered(span: tuple[int, int], by: Iterable[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """The parts of a range that no other one covers; all half open."""
    at, last = span
    for first, end in sorted(map(tuple, by)):
        if first > at and at < last:
            yield at, min(first, last)
        at = max(at, end)
    if at < last:
        yield at, last
