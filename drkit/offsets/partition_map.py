"""What the offset map says of one partition, record by record, and what of it is only claimed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import accumulate

from drkit.offsets.map_record import SEQUENCE_MODULUS, Intent, MapRecord, Mark, Mode, Pack
from drkit.offsets.segments import SegmentMap


@dataclass(frozen=True, slots=True)
class Tail:
    """The point up to which the map is true without a look at the target's log."""

    upstream: int
    downstream: int
    copied_end: int
    """Target offset behind the last record of this flow, at or before `downstream`."""
    sequence: int
    leader_epoch: int
    live: bool
    """The last segment was appended in live mode and goes on while nothing is said."""


@dataclass(slots=True)
class Packing:
    """A pack whose first parts are there, joined as they come: kept apart, all would be there twice."""

    nonce: int
    taken: int = 0
    segments: SegmentMap = field(default_factory=SegmentMap)

    def follows(self, part: Pack) -> bool:
        """Whether the part is the next of this pack."""
        return (part.nonce, part.part) == (self.nonce, self.taken)

    def take(self, part: Pack) -> None:
        """Take the next part."""
        self.segments.join(part.segments)
        self.taken += 1


@dataclass(slots=True)
class PartitionMap:
    """Confirmed segments, and the intents behind them that the target's log must confirm."""

    segments: SegmentMap = field(default_factory=SegmentMap)
    tail: Tail | None = None
    pending: list[Intent] = field(default_factory=list)
    packing: Packing | None = None

    def clear(self) -> None:
        """Forget everything: the map topic is read anew."""
        self.segments, self.tail, self.pending, self.packing = SegmentMap(), None, [], None

    def apply(self, record: MapRecord) -> None:
        """Take the next record of the map topic, in log order."""
        if isinstance(record, Mark):
            self._mark(record)
        elif isinstance(record, Pack):
            self._pack(record)
        elif record.mode is Mode.LIVE:
            self._claim(record)
        elif record.mode is Mode.BULK:
            self._bulk(record)
        else:
            self._repair(record)

    def _claim(self, record: Intent) -> None:
        """A task is about to append this. What of it lies below the tail is known already."""
        if self.tail is None:
            self.pending.append(record)
        elif self.tail.live:
            self.pending += _behind([record], self.tail)
        elif record.downstream >= self.tail.downstream:
            self.pending.append(record)

    def _bulk(self, record: Intent) -> None:
        """Committed with its records: live claims before it stand for nothing any more."""
        self.pending.clear()
        self._append(record)
        down = record.downstream + record.count
        sequence = self.tail.sequence if self.tail else 0
        self.tail = Tail(_upstream_end(record), down, down, sequence, record.leader_epoch, live=False)
        self.segments.close(down)

    def _repair(self, record: Intent) -> None:
        """Found in the log: what was known before about its place is void; what lies behind is not.

        Of two tasks that run at once one may write down what the other has long passed.
        """
        down = record.downstream + record.count
        if record.count and self.tail is not None:
            known = self.tail.downstream - record.downstream
            if known >= record.count:
                return
            if known > 0:
                record = without_first(record, known, self.tail.copied_end)
        self._append(record)
        sequence = (record.base_sequence + record.count) % SEQUENCE_MODULUS
        self.tail = Tail(_upstream_end(record), down, down, sequence, record.leader_epoch, live=True)
        self.pending = _behind(self.pending, self.tail)

    def _append(self, record: Intent) -> None:
        end = record.previous_end
        for up, down, count in record.pieces():
            self.segments.append(up, down, previous_end=end)
            end = down + count

    def _mark(self, mark: Mark) -> None:
        if self.tail is not None and mark.downstream < self.tail.downstream:
            return  # of a task that is behind: true, but less than what is known
        live = self.tail is not None and self.tail.live
        for intent in sorted(self.pending, key=lambda p: p.downstream):
            if intent.nonce == mark.nonce and intent.downstream < mark.downstream:
                self._append(first_of(intent, sequence_distance(mark.sequence, intent.base_sequence)))
                live = True
        if mark.copied_end < mark.downstream:
            self.segments.close(mark.copied_end)
        self.tail = Tail(
            mark.upstream, mark.downstream, mark.copied_end, mark.sequence, mark.leader_epoch, live
        )
        self.pending = (
            _behind(self.pending, self.tail)
            if live
            else [p for p in self.pending if p.downstream >= mark.downstream]
        )

    def _pack(self, part: Pack) -> None:
        """Take over the segments of a pack once all its parts are there, in order."""
        if part.part == 0:
            self.packing = Packing(part.nonce)
        if self.packing is None or not self.packing.follows(part):
            self.packing = None
            return
        self.packing.take(part)
        if self.packing.taken < part.parts:
            return
        packed = self.packing.segments
        if self.tail is not None and self.tail.downstream > part.until:
            packed.extend(self.segments, part.until)  # another task has gone on meanwhile
        self.segments = packed
        # Those that begin before it are cut by the mark that follows the last part.
        self.pending = [p for p in self.pending if p.downstream + p.count > part.until]
        self.packing = None


def _upstream_end(record: Intent) -> int:
    upstream, count = record.runs[-1]
    return upstream + count


def sequence_distance(sequence: int, base: int) -> int:
    """How many sequence numbers lie from `base` up to `sequence`."""
    return (sequence - base) % SEQUENCE_MODULUS


def _behind(claims: Iterable[Intent], tail: Tail) -> list[Intent]:
    """What claims still say behind the tail: whoever wrote them, he may have appended that part.

    A claim ties sequence numbers to source offsets, and those records are the same for every task; so it
    stays true for the rest when the start was appended by another, and when the writer stopped in between.
    """
    found = []
    for claim in claims:
        known = sequence_distance(tail.sequence, claim.base_sequence)
        if known == 0 or known >= SEQUENCE_MODULUS // 2:
            found.append(claim)
        elif known < claim.count and not (claim.chunks and _cuts_a_chunk(claim, known)):
            rest = without_first(claim, known, tail.copied_end)
            found.append(replace(rest, downstream=tail.downstream))
    return found


def _cuts_a_chunk(claim: Intent, records: int) -> bool:
    """Whether a claim of exact batches would be cut inside one: that batch was never appended."""
    return records not in accumulate(count for count, _ in claim.chunks)


def first_of(record: Intent, count: int) -> Intent:
    """The first `count` records of an intent, at least one; all of it when it has no more."""
    runs: list[tuple[int, int]] = []
    for upstream, n in record.runs:
        if count <= 0:
            break
        runs.append((upstream, min(n, count)))
        count -= n
    return replace(record, runs=tuple(runs))


def without_first(record: Intent, known: int, previous_end: int) -> Intent:
    """An intent without its first `known` records, of which it has more."""
    runs: list[tuple[int, int]] = []
    skip = known
    for upstream, n in record.runs:
        if skip < n:
            runs.append((upstream + skip, n - skip))
        skip = max(0, skip - n)
    chunks, at = [], 0
    for count, crc in record.chunks:
        if at >= known:
            chunks.append((count, crc))
        at += count
    return replace(
        record,
        base_sequence=(record.base_sequence + known) % SEQUENCE_MODULUS,
        downstream=record.downstream + known,
        previous_end=previous_end,
        chunks=tuple(chunks),
        runs=tuple(runs),
    )
