"""What the offset map says of one partition, record by record, and what of it is only claimed.

The answer depends on the newest record of each key and on their order alone, because Kafka's log cleaner
leaves no more: a record may be replaced only by one that says what it said (decision 0021).
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
    """A pack whose first parts were read, joined as they arrive: separate parts would be in memory twice."""

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
    """Confirmed segments, and the claims that no anchor has confirmed yet."""

    segments: SegmentMap = field(default_factory=SegmentMap)
    tail: MapTail | None = None
    pending: list[Intent] = field(default_factory=list)
    packing: Packing | None = None
    ended: set[History] = field(default_factory=set)
    """Histories that a turn has ended: what comes later from their writers is void."""
    turned: int = 0
    """Number of the reign that wrote the last turn; 0: none."""
    broken: str = ""
    """Why the map gives no exact answer for this partition; empty when it does."""

    def clear(self) -> None:
        """Forget everything: the map topic is read from its start."""
        self.segments, self.tail, self.pending, self.packing = SegmentMap(), None, [], None
        self.ended, self.turned, self.broken = set(), 0, ""

    @property
    def history(self) -> History | None:
        """The history that a task has to continue; None: nothing was ever claimed."""
        if self.tail is not None and self.tail.history != NO_HISTORY:
            return self.tail.history
        return self.pending[-1].history if self.pending else None

    def claims(self) -> list[Intent]:
        """The pending claims of the current history."""
        current = self.history
        return [p for p in self.pending if p.history == current]

    def apply(self, record: MapRecord) -> None:
        """Take the next record of the map topic, in log order."""
        match record:
            case Mark():
                self._mark(record)
            case Pack():
                self._pack(record)
            case Turn():
                self._turn(record)
            case Reign():
                pass
            case Intent(mode=Mode.LIVE):
                self._claim(record)
            case Intent(mode=Mode.BULK):
                self._bulk(record)
            case Intent():
                self._repair(record)

    def _claim(self, record: Intent) -> None:
        if record.history in self.ended:
            return
        if record.legacy:
            # Its writer saw the log end here: claims further on were not appended by then.
            self.pending = [p for p in self.pending if not is_overruled(p, record)]
        tail = self.tail
        known = tail is not None and tail.history in {record.history, NO_HISTORY}
        if tail is None or not known:
            self.pending.append(record)
        else:
            self.pending += after([record], tail)

    def _bulk(self, record: Intent) -> None:
        """Committed with its records. What was claimed before it and not appended never will be."""
        history, sequence = record.history, record.base_sequence
        if history == NO_HISTORY:
            history, sequence = self._history_at(record.previous_end)
        self._confirm(history, sequence, record.previous_end)
        self.pending.clear()
        self._append(record)
        down = record.downstream + record.count
        self.tail = MapTail(
            history, upstream_end(record), down, down, sequence, record.leader_epoch, live=False,
            target_epoch=record.target_epoch,
        )  # fmt: skip
        self.segments.close(down)

    def _history_at(self, end: int) -> tuple[History, int]:
        """In format 1 not the bulk record but the last claim before it says where the live history was."""
        before = [p for p in self.pending if p.downstream < end]
        if before:
            last = max(before, key=lambda p: p.downstream)
            return last.history, (last.base_sequence + end - last.downstream) % SEQUENCE_MODULUS
        return (self.tail.history, self.tail.sequence) if self.tail else (NO_HISTORY, 0)

    def _repair(self, record: Intent) -> None:
        """Found in the log: replaces what the map says of its offsets; what comes after them stays valid."""
        if record.history in self.ended:
            return
        down = record.downstream + record.count
        if record.previous_end != NO_ANCHOR:
            self._confirm(record.history, record.base_sequence, record.previous_end)
        if record.count and self.tail is not None:
            known = known_to(record, self.tail)
            if known >= record.count:
                return
            if known > 0:
                record = without_first(record, known, self.tail.copied_end)
        self._append(record)
        sequence = (record.base_sequence + record.count) % SEQUENCE_MODULUS
        self.tail = MapTail(
            record.history, upstream_end(record), down, down, sequence, record.leader_epoch, live=True,
            target_epoch=record.target_epoch,
        )  # fmt: skip
        self.pending = after(self.pending, self.tail)

    def _append(self, record: Intent) -> None:
        end = record.previous_end if record.previous_end != NO_ANCHOR else record.downstream
        for up, down, count in record.pieces():
            self.segments.append(up, down, previous_end=end)
            end = down + count

    def _mark(self, mark: Mark) -> None:
        history = mark.history if mark.history != NO_HISTORY else self._writer_of(mark)
        if history in self.ended or (self.tail is not None and mark.downstream < self.tail.downstream):
            return  # of a task that is behind: true, but less than what is known
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

    def _turn(self, turn: Turn) -> None:
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

    def _pack(self, part: Pack) -> None:
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
            packed.extend(self.segments, part.until)  # another task has continued meanwhile (format 1)
        else:
            # The mark in the batch of its last part, or a newer one, says where the partition continues.
            self.tail = None
        self.segments, self.broken = packed, ""
        self.pending = [p for p in self.pending if p.downstream + p.count > part.until]

    def _confirm(self, history: History, sequence: int, offset: int) -> bool:
        """Take over what the claims say of records before an anchor; returns whether there was any."""
        claims = [p for p in self.pending if p.history == history]
        floor = self._floor(history)
        begin = (steps(floor.sequence, sequence), floor.upstream) if floor is not None else None
        said = HistoryClaims.of(claims, sequence, begin)
        floor_end = self.tail.copied_end if self.tail is not None else 0
        found = stretches(said, sequence, offset, floor, floor_end)
        if isinstance(found, Broken):
            self.broken = found.reason
            return False
        for stretch in found:
            self._take(said, stretch)
        return bool(found)

    def _floor(self, history: History) -> Anchor | None:
        """Up to where the map is settled, when that is in the same history."""
        tail = self.tail
        if tail is None or tail.history != history or history == NO_HISTORY:
            return None
        return Anchor(tail.sequence, tail.upstream, tail.downstream)

    def _take(self, said: HistoryClaims, stretch: Stretch) -> None:
        pieces = said.pieces(stretch.low, stretch.high, stretch.downstream)
        if pieces is None:
            self.broken = f"no claim says what is at target offset {stretch.downstream}"
            return
        end = stretch.previous_end
        for piece in pieces:
            self.segments.append(piece.upstream, piece.downstream, previous_end=end)
            end = piece.downstream + piece.records
