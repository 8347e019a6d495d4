"""State of one partition in the offset map, built record by record: confirmed segments and pending claims.

The state depends only on the newest record of each key and on their order, because Kafka's log cleaner keeps
no more: a record may be replaced only by one that includes its content (decision 0021).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from drkit.offsets.history import Anchor, Broken, HistoryClaims, Stretch, steps, stretches
from drkit.offsets.map_record import (
    NO_ANCHOR,
    NO_HISTORY,
    SEQUENCE_MODULUS,
    History,
    Intent,
    MapRecord,
    Mark,
    Mode,
    Pack,
    Reign,
    Turn,
)
from drkit.offsets.map_tail import MapTail, after, is_overruled, known_to, upstream_end, without_first
from drkit.offsets.segments import SegmentMap


@dataclass(slots=True)
class Packing:
    """A pack whose first parts were read. Parts are joined on arrival, so memory holds them only once."""

    nonce: int
    taken: int = 0
    segments: SegmentMap = field(default_factory=SegmentMap)

    def follows(self, part: Pack) -> bool:
        """Return whether the part is the next one of this pack."""
        return (part.nonce, part.part) == (self.nonce, self.taken)

    def take(self, part: Pack) -> None:
        """Take the next part."""
        self.segments.join(part.segments)
        self.taken += 1


@dataclass(slots=True)
class PartitionMap:
    """Confirmed segments, and the claims that no anchor has confirmed yet."""

    segments: SegmentMap = field(default_factory=SegmentMap)
    tail: MapTail | None = None
    pending: list[Intent] = field(default_factory=list)
    packing: Packing | None = None
    ended: set[History] = field(default_factory=set)
    """Histories that a turn has ended: later records of their writers are ignored."""
    turned: int = 0
    """Number of the reign that wrote the last turn; 0: none."""
    broken: str = ""
    """Reason why the map gives no exact answer for this partition, or empty."""

    def clear(self) -> None:
        """Forget everything: the map topic is read from its start."""
        self.segments, self.tail, self.pending, self.packing = SegmentMap(), None, [], None
        self.ended, self.turned, self.broken = set(), 0, ""

    @property
    def history(self) -> History | None:
        """Return the history that a task must continue, or None if nothing was ever claimed."""
        if self.tail is not None and self.tail.history != NO_HISTORY:
            return self.tail.history
        return self.pending[-1].history if self.pending else None

    def claims(self) -> list[Intent]:
        """The pending claims of the current history."""
        current = self.history
        return [p for p in self.pending if p.history == current]

    def apply(self, record: MapRecord) -> None:
        """Apply the next record of the map topic, in log order."""
        match record:
            case Mark():
                self._apply_mark(record)
            case Pack():
                self._apply_pack(record)
            case Turn():
                self._apply_turn(record)
            case Reign():
                pass
            case Intent(mode=Mode.LIVE):
                self._apply_claim(record)
            case Intent(mode=Mode.BULK):
                self._apply_bulk(record)
            case Intent():
                self._apply_repair(record)

    def _apply_claim(self, record: Intent) -> None:
        if record.history in self.ended:
            return
        if record.legacy:
            # Its writer saw the log end here: later claims were not appended by then.
            self.pending = [p for p in self.pending if not is_overruled(p, record)]
        tail = self.tail
        known = tail is not None and tail.history in {record.history, NO_HISTORY}
        if tail is None or not known:
            self.pending.append(record)
        else:
            self.pending += after([record], tail)

    def _apply_bulk(self, record: Intent) -> None:
        """Apply a record that was committed with its data: earlier claims without an append are void."""
        history, sequence = record.history, record.base_sequence
        if history == NO_HISTORY:
            history, sequence = self._history_at(record.previous_end)
        self._confirm(history, sequence, record.previous_end)
        self.pending.clear()
        self._append(record)
        bulk_end = record.downstream + record.count
        self.tail = MapTail(
            history, upstream_end(record), bulk_end, bulk_end, sequence, record.leader_epoch, live=False,
            target_epoch=record.target_epoch,
        )  # fmt: skip
        self.segments.close(bulk_end)

    def _history_at(self, end: int) -> tuple[History, int]:
        """Return history and sequence before a bulk record of format 1, which only the last claim has."""
        earlier = [p for p in self.pending if p.downstream < end]
        if earlier:
            last = max(earlier, key=lambda p: p.downstream)
            return last.history, (last.base_sequence + end - last.downstream) % SEQUENCE_MODULUS
        return (self.tail.history, self.tail.sequence) if self.tail else (NO_HISTORY, 0)

    def _apply_repair(self, record: Intent) -> None:
        """Apply a range found in the log: it replaces the map at its offsets; later claims stay valid."""
        if record.history in self.ended:
            return
        end = record.downstream + record.count
        if record.previous_end != NO_ANCHOR:
            self._confirm(record.history, record.base_sequence, record.previous_end)
        if record.count and self.tail is not None:
            known_records = known_to(record, self.tail)
            if known_records >= record.count:
                return
            if known_records > 0:
                record = without_first(record, known_records, self.tail.copied_end)
        self._append(record)
        sequence = (record.base_sequence + record.count) % SEQUENCE_MODULUS
        self.tail = MapTail(
            record.history, upstream_end(record), end, end, sequence, record.leader_epoch, live=True,
            target_epoch=record.target_epoch,
        )  # fmt: skip
        self.pending = after(self.pending, self.tail)

    def _append(self, record: Intent) -> None:
        end = record.previous_end if record.previous_end != NO_ANCHOR else record.downstream
        for up, down, count in record.pieces():
            self.segments.append(up, down, previous_end=end)
            end = down + count

    def _apply_mark(self, mark: Mark) -> None:
        history = mark.history if mark.history != NO_HISTORY else self._writer_of(mark)
        if history in self.ended or (self.tail is not None and mark.downstream < self.tail.downstream):
            return  # of a slower task: correct, but older than the current tail
        found = self._confirm(history, mark.sequence, mark.copied_end)
        live = mark.live
        if live is None:
            live = found or (self.tail.live if self.tail is not None else self.segments.delta() is not None)
        if mark.copied_end < mark.downstream:
            self.segments.close(mark.copied_end)
        self.tail = MapTail(
            history=history,
            upstream=mark.upstream,
            downstream=mark.downstream,
            copied_end=mark.copied_end,
            sequence=mark.sequence,
            leader_epoch=mark.leader_epoch,
            live=live,
            target_epoch=mark.target_epoch,
        )
        self.pending = after(self.pending, self.tail)

    def _writer_of(self, mark: Mark) -> History:
        """The history of a mark of format 1: that of its writer's claims, else the current one."""
        own = [p for p in self.pending if p.nonce == mark.nonce]
        return own[-1].history if own else (self.history or NO_HISTORY)

    def _apply_turn(self, turn: Turn) -> None:
        if turn.history in self.ended:
            return
        if turn.ended_sequence != NO_ANCHOR:
            self._confirm(turn.ended, turn.ended_sequence, turn.copied_end)
        self.ended.add(turn.ended)
        self.segments.cut(turn.copied_end)
        self.segments.close(turn.copied_end)
        self.tail = MapTail(
            turn.history, turn.upstream, turn.downstream, turn.copied_end, 0, turn.leader_epoch, live=True,
            target_epoch=turn.target_epoch,
        )  # fmt: skip
        self.turned = turn.reign
        self.pending = [p for p in self.pending if p.history == turn.history]

    def _apply_pack(self, part: Pack) -> None:
        if part.part == 0:
            self.packing = Packing(part.nonce)
        if self.packing is None or not self.packing.follows(part):
            self.packing = None
            return
        self.packing.take(part)
        if self.packing.taken < part.parts:
            return
        packed, self.packing = self.packing.segments, None
        if self.tail is not None and self.tail.downstream > part.until:
            packed.extend(self.segments, part.until)  # another task has appended meanwhile (format 1)
        else:
            # The position follows in the mark of the same batch, or in a newer one.
            self.tail = None
        self.segments, self.broken = packed, ""
        self.pending = [p for p in self.pending if p.downstream + p.count > part.until]

    def _confirm(self, history: History, sequence: int, offset: int) -> bool:
        """Confirm claimed records before an anchor; return whether there were any."""
        claims = [p for p in self.pending if p.history == history]
        floor = self._settled_anchor(history)
        begin = (steps(floor.sequence, sequence), floor.upstream) if floor is not None else None
        said = HistoryClaims.of(claims, sequence, begin)
        floor_end = self.tail.copied_end if self.tail is not None else 0
        found = stretches(said, sequence, offset, floor, floor_end)
        if isinstance(found, Broken):
            self.broken = found.reason
            return False
        for stretch in found:
            self._append_stretch(said, stretch)
        return bool(found)

    def _settled_anchor(self, history: History) -> Anchor | None:
        """Return the tail as an anchor if it is in the same history, else None."""
        tail = self.tail
        if tail is None or tail.history != history or history == NO_HISTORY:
            return None
        return Anchor(tail.sequence, tail.upstream, tail.downstream)

    def _append_stretch(self, claims: HistoryClaims, stretch: Stretch) -> None:
        pieces = claims.pieces(stretch.low, stretch.high, stretch.downstream)
        if pieces is None:
            self.broken = f"no claim says what is at target offset {stretch.downstream}"
            return
        end = stretch.previous_end
        for piece in pieces:
            self.segments.append(piece.upstream, piece.downstream, previous_end=end)
            end = piece.downstream + piece.records
