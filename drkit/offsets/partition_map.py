"""What the offset map says of one partition, record by record, and what of it is only claimed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
class PartitionMap:
    """Confirmed segments, and the intents behind them that the target's log must confirm."""

    segments: SegmentMap = field(default_factory=SegmentMap)
    tail: Tail | None = None
    pending: list[Intent] = field(default_factory=list)
    packing: list[Pack] = field(default_factory=list)

    def clear(self) -> None:
        """Forget everything: the map topic is read anew."""
        self.segments, self.tail, self.pending, self.packing = SegmentMap(), None, [], []

    def apply(self, record: MapRecord) -> None:
        """Take the next record of the map topic, in log order."""
        if isinstance(record, Mark):
            self._mark(record)
        elif isinstance(record, Pack):
            self._pack(record)
        elif record.mode is Mode.LIVE:
            # An intent written behind a mark that already passed its place is a zombie's.
            if self.tail is None or record.downstream >= self.tail.downstream:
                self.pending.append(record)
        elif record.mode is Mode.BULK:
            self._bulk(record)
        else:
            self._repair(record)

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
                record = _without_first(record, known, self.tail.copied_end)
        self.pending = [p for p in self.pending if p.downstream >= down]
        self._append(record)
        sequence = (record.base_sequence + record.count) % SEQUENCE_MODULUS
        self.tail = Tail(_upstream_end(record), down, down, sequence, record.leader_epoch, live=True)

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
                self._append(intent)
                live = True
        # Rivals below the mark are refuted; those at or behind it stay claims.
        self.pending = [p for p in self.pending if p.downstream >= mark.downstream]
        if mark.copied_end < mark.downstream:
            self.segments.close(mark.copied_end)
        self.tail = Tail(
            mark.upstream, mark.downstream, mark.copied_end, mark.sequence, mark.leader_epoch, live
        )

    def _pack(self, part: Pack) -> None:
        """Take over the segments of a pack once all its parts are there, in order."""
        if part.part != len(self.packing) or (self.packing and self.packing[0].nonce != part.nonce):
            self.packing = []
        if part.part == len(self.packing):
            self.packing.append(part)
        if len(self.packing) < part.parts:
            return
        packed = SegmentMap.of(s for p in self.packing for s in p.segments)
        if self.tail is not None and self.tail.downstream > part.until:
            packed.extend(self.segments, part.until)  # another task has gone on meanwhile
        self.segments = packed
        self.pending = [p for p in self.pending if p.downstream >= part.until]
        self.packing = []


def _upstream_end(record: Intent) -> int:
    upstream, count = record.runs[-1]
    return upstream + count


def _without_first(record: Intent, known: int, previous_end: int) -> Intent:
    """A repair, which has one run, without its first records."""
    upstream, count = record.runs[0]
    return replace(
        record,
        base_sequence=(record.base_sequence + known) % SEQUENCE_MODULUS,
        downstream=record.downstream + known,
        previous_end=previous_end,
        runs=((upstream + known, count - known),),
    )
