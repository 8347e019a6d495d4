"""From what the map claims and what the target's log holds to exact segments and the next position.

The claims say which source record a sequence number carries, the log says at which target offset it is. So
the answer is exact whatever was appended between, and no source is needed for it. Where the two leave a
doubt there is no answer, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from drkit.offsets.history import HistoryClaims, Piece, steps
from drkit.offsets.map_record import NO_ANCHOR, NO_HISTORY, SEQUENCE_MODULUS, History
from drkit.offsets.map_tail import MapTail
from drkit.offsets.partition_map import PartitionMap
from drkit.offsets.resolution import Foreign, LogBatch, LogLook, NeedLog, Resolution
from drkit.offsets.segments import OPEN, SegmentMap, Unavailable

_WIDER: Final = 8
_FAR: Final = 100_000
"""How a log is searched backwards for the last record that is left: target offsets."""
_UNREACHED: Final = 1 << 29
"""Sequence numbers ahead of any that a history reaches meanwhile."""


class LogLeft(NamedTuple):
    """The end of the recorded part of a log that has lost records."""

    end: int
    sequence: int | None
    """The next sequence number of the tail's history at that offset, or None if unknown."""


def lost_tail(  # noqa: PLR0911  one answer for each kind of loss
    state: PartitionMap, tail: MapTail, look: LogLook, log: Sequence[LogBatch] | None, log_from: int
) -> LogLeft | NeedLog | None:
    """Return the end of the recorded part that is left in the log, or None if no record is missing."""
    behind = 0
    if tail.live and look.next_sequence is not None:
        behind = max(0, steps(tail.sequence, look.next_sequence))
    if not behind and look.end >= tail.downstream and not has_moved(tail, look):
        return None
    if tail.copied_end <= look.start:
        return None  # retention has removed all that was copied: the map may be right
    if look.end == 0:
        return LogLeft(0, None)
    if behind and tail.copied_end - behind == look.end and _is_unbroken(state, look.end, tail.copied_end):
        return LogLeft(look.end, look.next_sequence)  # as many offsets as sequence numbers are missing
    high = min(look.end, tail.copied_end - behind)
    if high <= 0:
        return NeedLog(0) if log is None else _last_left(state, tail, look, log)
    if log is None:
        return NeedLog(high - 1)
    if log_from == high - 1 and log and log[0].base > log_from:
        return None  # retention or the cleaner has removed that batch: the map may be right
    cut = _last_left(state, tail, look, log)
    if cut.end == 0 and log_from > look.start:
        return NeedLog(max(look.start, high - _WIDER * (high - log_from) - _FAR))
    cut = cut._replace(end=max(cut.end, look.start))
    return cut if cut.end < tail.copied_end else None


def _last_left(state: PartitionMap, tail: MapTail, look: LogLook, log: Sequence[LogBatch]) -> LogLeft:
    known = [b for b in log if b.end <= tail.copied_end and _is_copy(state, b, tail, look)]
    end = known[-1].end if known else 0
    own = [b for b in log if _in_history(b, tail.history)]
    before = [b for b in own if b.end <= end]
    if before:
        return LogLeft(end, (before[-1].sequence + before[-1].records) % SEQUENCE_MODULUS)
    # Batches after it in the tail's history are not in the map, so their numbers do not show the next one.
    return LogLeft(end, None if own else look.next_sequence)


def _is_unbroken(state: PartitionMap, start: int, end: int) -> bool:
    for _, down, length in reversed(state.segments.triples()):
        if length != OPEN and down + length < end:
            return False
        if down <= start:
            return True
        end = down
    return False


def _in_history(batch: LogBatch, history: History) -> bool:
    if batch.transactional or batch.control or batch.aborted:
        return False
    return history == (batch.producer_id, batch.producer_epoch)


def _is_known(batch: LogBatch, tail: MapTail, look: LogLook) -> bool:
    if batch.aborted or batch.control:
        return False
    if batch.transactional:
        return not look.bulk_ids or batch.producer_id in look.bulk_ids
    if tail.history not in {NO_HISTORY, History(batch.producer_id, batch.producer_epoch)}:
        return batch.producer_id in look.own_ids  # of an older history
    sequence = (batch.sequence + batch.records) % SEQUENCE_MODULUS
    before = steps(tail.sequence, sequence)
    if not tail.live:
        return batch.producer_id in look.own_ids and before >= 0
    # Foreign records, markers and transactions between it and the tail take offsets, and no sequence numbers.
    return 0 <= before <= tail.copied_end - batch.end


def _is_copy(state: PartitionMap, batch: LogBatch, tail: MapTail, look: LogLook) -> bool:
    record = state.segments.record_before(batch.end)
    if record is None or record[1] != batch.end - 1:
        return False
    if look.began_at is not None and record[0] < look.began_at:
        return not (batch.control or batch.aborted)
    return _is_known(batch, tail, look)


def has_moved(tail: MapTail, look: LogLook) -> bool:
    """Another leader leads than when the tail was seen: numbers alone prove nothing across that."""
    return tail.target_epoch >= 0 and not look.same_leader


def truncated(
    state: PartitionMap, tail: MapTail, left: LogLeft, look: LogLook, log: Sequence[LogBatch] | None
) -> Resolution:
    """The partition without what the log has lost; cuts the map's segments there."""
    state.segments.cut(left.end)
    upstream = state.segments.frontier(left.end)
    # If the log does not show it, no later append in the history may count.
    anchored = left.sequence is not None
    sequence = left.sequence if left.sequence is not None else (tail.sequence + _UNREACHED) % SEQUENCE_MODULUS
    end = state.segments.copied_end(left.end)
    out = Resolution(
        segments=state.segments,
        history=state.history,
        upstream=upstream,
        downstream=look.end,
        copied_end=end,
        sequence=sequence,
        leader_epoch=tail.leader_epoch,
        truncated_from=tail.downstream,
    )
    out.repair_from, out.live, out.anchored = end, tail.live, anchored
    state.segments.close(end)
    out.foreign = [
        Foreign(b.base, b.records, b.producer_id, b.transactional)
        for b in log or ()
        if b.base >= left.end and not b.control and not b.aborted
    ]
    return out


Answer = Resolution | NeedLog | Unavailable


def resolve(  # noqa: PLR0911  one answer for each way to settle it
    state: PartitionMap, look: LogLook, log: Sequence[LogBatch] | None = None, log_from: int = 0
) -> Answer:
    """Settle what the map claims against the target.

    :param log: headers of the target's log from the offset of a previous :class:`NeedLog` to the end
    :param log_from: that offset
    """
    if state.broken:
        return Unavailable(state.broken)
    tail = state.tail
    if tail is None and not state.pending:
        if len(state.segments):
            return Unavailable("the offset map is being packed: the mark of the pack is not read yet")
        return _untouched(look)
    if tail is not None and (lost := lost_tail(state, tail, look, log, log_from)) is not None:
        return lost if isinstance(lost, NeedLog) else truncated(state, tail, lost, look, log)
    settled = tail is not None and look.end == tail.downstream and not has_moved(tail, look)
    if settled and tail is not None and not state.claims():
        return _resolution(state, [], look.end, tail.sequence)
    if log is None and _proven_by_numbers(state, look):
        return _by_numbers(state, look)
    if log is None:
        starts = [_start(tail, look)] if tail else [p.downstream for p in state.claims()] or [look.end]
        return NeedLog(min([*starts, look.end]))
    return _by_log(state, look, log, log_from)


def _untouched(look: LogLook) -> Resolution:
    found = Resolution(
        segments=SegmentMap(),
        history=None,
        upstream=None,
        downstream=look.end,
        copied_end=0,
        sequence=look.next_sequence or 0,
        leader_epoch=-1,
    )
    found.first_foreign = look.end > 0
    return found


def _proven_by_numbers(state: PartitionMap, look: LogLook) -> bool:
    """As many offsets as sequence numbers: between the two points of the log is nothing else."""
    tail = state.tail
    if look.next_sequence is None:
        return False
    if tail is None:
        first = min(state.claims(), key=lambda c: c.downstream, default=None)
        if first is None:
            return False
        return steps(look.next_sequence, first.base_sequence) == look.end - first.downstream > 0
    ahead = steps(look.next_sequence, tail.sequence)
    if not tail.live and not any(c.base_sequence == tail.sequence for c in state.claims()):
        return False
    return ahead == look.end - tail.downstream >= 0


def _by_numbers(state: PartitionMap, look: LogLook) -> Answer:
    assert look.next_sequence is not None  # noqa: S101  the numbers are known
    tail, said = state.tail, _said(state)
    low, down = 0, tail.downstream if tail else min(c.downstream for c in state.claims())
    pieces = said.pieces(low, low + look.end - down, down)
    if pieces is None:
        return Unavailable(f"no claim says what is at target offset {down}")
    out = _resolution(state, pieces, look.end, look.next_sequence)
    if tail is not None and tail.copied_end < tail.downstream:
        # After foreign records only the mark says where the next record is, and it will be replaced.
        claimed = any(
            c.base_sequence == tail.sequence and c.downstream == tail.downstream for c in state.claims()
        )
        out.repairs = [] if claimed else pieces
    return out


def _said(state: PartitionMap) -> HistoryClaims:
    tail, claims = state.tail, state.claims()
    if tail is not None:
        begin = (0, tail.upstream) if tail.live else None
        return HistoryClaims.of(claims, tail.sequence, begin)
    first = min(claims, key=lambda c: c.downstream)
    return HistoryClaims.of(claims, first.base_sequence)


class _Holes:
    """Target offsets that no batch of the log holds: retention or the cleaner removed what was there."""

    def __init__(self, start: int) -> None:
        self._end, self._runs = start, list[tuple[int, int]]()

    def next(self, batch: LogBatch) -> None:
        """Take the next batch of the log."""
        if batch.base > self._end:
            self._runs.append((self._end, batch.base))
        self._end = max(self._end, batch.end)

    def close(self) -> None:
        """Forget those before a batch of the flow."""
        self._runs = []

    def places(self, records: int) -> list[tuple[int, int]] | None:
        """Offsets and counts where `records` records may have been, as late as possible; None: too many."""
        out: list[tuple[int, int]] = []
        for low, high in reversed(self._runs):
            count = min(records, high - low)
            if count:
                out.append((high - count, count))
            records -= count
        return None if records else out[::-1]


def _removed(said: HistoryClaims, low: int, high: int, holes: _Holes) -> list[Piece] | None:
    """The records at positions that no batch holds any more; None: they were never there, or were lost.

    Only the order of their offsets is exact, which is enough: a consumer reads what follows them.
    """
    places = holes.places(high - low)
    out: list[Piece] = []
    for down, count in places or ():
        found = said.pieces(low, low + count, down)
        if found is None:
            return None
        out += found
        low += count
    return out if places is not None else None


def _by_log(state: PartitionMap, look: LogLook, log: Sequence[LogBatch], log_from: int) -> Answer:
    """What the log confirms, what this flow did not write, and the sequence after the flow's last batch."""
    tail, said, history = state.tail, _said(state), state.history
    pieces, foreign = list[Piece](), list[Foreign]()
    # Without a tail nothing before the first claim is of this copy, and the log was read from there.
    start, expected, lost, skipped = _start(tail, look) if tail else log_from, 0, False, False
    hole, holes = look.end > start and _begins_later(log, start), _Holes(max(start, log_from))
    for batch in log:
        if batch.end <= start:
            continue
        holes.next(batch)
        if batch.control or batch.aborted:
            continue
        at = steps(batch.sequence, said.since)
        found = None
        if not batch.transactional and _of_history(batch, history, look) and at >= expected:
            # Sequence numbers follow each other in a log, but where it has lost the last ones.
            # Or retention has removed some before the first that is left.
            begins = hole and not pieces
            skipped = skipped or (at > expected and begins)
            removed = [] if begins else _removed(said, expected, at, holes)
            lost = lost or removed is None
            found = said.pieces(at, at + batch.records, batch.base) if not lost else None
        if found is None:
            foreign.append(Foreign(batch.base, batch.records, batch.producer_id, batch.transactional))
            continue
        expected = at + batch.records
        pieces += [*(removed or ()), *found]
        holes.close()
    sequence = (said.since + expected) % SEQUENCE_MODULUS
    out = _resolution(state, pieces, look.end, sequence)
    out.foreign, out.repairs = foreign, pieces
    if skipped:
        out.repair_from = NO_ANCHOR
    if lost:
        out.truncated_from = look.end
    elif hole and not pieces:
        _pass_removed(out, state, said, look)
    return out


def _begins_later(log: Sequence[LogBatch], start: int) -> bool:
    """Retention has removed the first batches; what was lost with a tail leaves no such hole."""
    return not log or log[0].base > start


def _pass_removed(out: Resolution, state: PartitionMap, said: HistoryClaims, look: LogLook) -> None:
    """Retention has removed all that was appended since the tail: where it was does not matter any more."""
    ahead = steps(look.next_sequence, said.since) if look.next_sequence is not None else 0
    last = said.pieces(ahead - 1, ahead, 0) if ahead > 0 else None
    if not last or look.next_sequence is None:
        return
    out.upstream, out.sequence = last[-1].upstream + 1, look.next_sequence
    epoch = said.leader_epoch(ahead - 1)
    out.leader_epoch = out.leader_epoch if epoch is None else epoch
    out.live, out.anchored, out.passed = True, False, True
    out.unappended = _unappended(state, out.sequence)


def _start(tail: MapTail, look: LogLook) -> int:
    # Only foreign records and markers lie between the two, and another leader may have lost them.
    return tail.copied_end if has_moved(tail, look) or look.end < tail.downstream else tail.downstream


def _of_history(batch: LogBatch, history: History | None, look: LogLook) -> bool:
    if history is None or history == NO_HISTORY:
        return batch.producer_id in look.own_ids
    return history == (batch.producer_id, batch.producer_epoch)


def _resolution(state: PartitionMap, pieces: list[Piece], end: int, sequence: int) -> Resolution:
    tail = state.tail
    before = tail.copied_end if tail else min((c.previous_end for c in state.claims()), default=0)
    previous, said = before, _said(state)
    for piece in pieces:
        state.segments.append(piece.upstream, piece.downstream, previous_end=previous)
        previous = piece.downstream + piece.records
    if end > previous:
        state.segments.close(previous)
    upstream = pieces[-1].upstream + pieces[-1].records if pieces else tail.upstream if tail else None
    epoch = said.leader_epoch(steps(sequence, said.since) - 1) if pieces else None
    if epoch is None:
        epoch = tail.leader_epoch if tail else -1
    out = Resolution(
        segments=state.segments,
        history=state.history,
        upstream=upstream,
        downstream=end,
        copied_end=previous,
        sequence=sequence,
        leader_epoch=epoch,
        repair_from=before,
    )
    out.live = bool(pieces) or (tail is not None and tail.live)
    out.unappended = _unappended(state, sequence)
    return out


def _unappended(state: PartitionMap, sequence: int) -> bool:
    return any(steps(c.base_sequence, sequence) + c.count > 0 for c in state.claims())
