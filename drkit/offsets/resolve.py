"""Resolves the map's claims against the target's log: exact segments and the next position.

The claims map sequence numbers to source records, the log maps them to target offsets. So the answer is exact
whatever was appended in between, and needs no source. If the two leave a doubt, the result is the reason
instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from drkit.offsets.history import HistoryClaims, Piece, steps
from drkit.offsets.map_record import NO_ANCHOR, NO_HISTORY, SEQUENCE_MODULUS, History
from drkit.offsets.map_tail import MapTail
from drkit.offsets.partition_map import PartitionMap
from drkit.offsets.resolution import Foreign, LogBatch, LogLook, NeedLog, Resolution
from drkit.offsets.segments import OPEN, Unavailable

_WIDER: Final = 8
_FAR: Final = 100_000
"""Target offsets per step of a backwards search for the last remaining record."""
_UNREACHED: Final = 1 << 29
"""Distance in sequence numbers that no history can reach meanwhile."""


class LogLeft(NamedTuple):
    """The end of the recorded part of a log that has lost records."""

    end: int
    sequence: int | None
    """The next sequence number of the tail's history at that offset, or None if unknown."""


def lost_tail(  # noqa: PLR0911  one result per kind of loss
    state: PartitionMap, tail: MapTail, look: LogLook, log: Sequence[LogBatch] | None, log_from: int
) -> LogLeft | NeedLog | None:
    """Return the end of the recorded part that is left in the log, or None if no record is missing."""
    behind = 0
    if tail.live and look.next_sequence is not None:
        behind = max(0, steps(tail.sequence, look.next_sequence))
    if not behind and look.end >= tail.downstream and not has_moved(tail, look):
        return None
    if tail.copied_end <= look.start:
        return None  # retention has deleted all copied records: the map may be right
    if look.end == 0:
        return LogLeft(0, None)
    if behind and tail.copied_end - behind == look.end and _is_unbroken(state, look.end, tail.copied_end):
        return LogLeft(look.end, look.next_sequence)  # equally many offsets and sequence numbers are missing
    high = min(look.end, tail.copied_end - behind)
    if high <= 0:
        return NeedLog(0) if log is None else _last_left(state, tail, look, log)
    if log is None:
        return NeedLog(high - 1)
    if log_from == high - 1 and log and log[0].base > log_from:
        return None  # retention or the log cleaner has deleted that batch: the map may be right
    cut = _last_left(state, tail, look, log)
    if cut.end == 0 and log_from > look.start:
        return NeedLog(max(look.start, high - _WIDER * (high - log_from) - _FAR))
    cut = cut._replace(end=max(cut.end, look.start))
    return cut if cut.end < tail.copied_end else None


def _last_left(state: PartitionMap, tail: MapTail, look: LogLook, log: Sequence[LogBatch]) -> LogLeft:
    copies = [b for b in log if b.end <= tail.copied_end and _is_copy(state, b, tail, look)]
    end = copies[-1].end if copies else 0
    own = [b for b in log if _in_history(b, tail.history)]
    earlier = [b for b in own if b.end <= end]
    if earlier:
        return LogLeft(end, (earlier[-1].sequence + earlier[-1].records) % SEQUENCE_MODULUS)
    # Later batches of the tail's history are not in the map, so their sequence numbers prove nothing.
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
    # Foreign records, markers and transactions in between take offsets, but no sequence numbers.
    return 0 <= before <= tail.copied_end - batch.end


def _is_copy(state: PartitionMap, batch: LogBatch, tail: MapTail, look: LogLook) -> bool:
    record = state.segments.record_before(batch.end)
    if record is None or record[1] != batch.end - 1:
        return False
    if look.began_at is not None and record[0] < look.began_at:
        return not (batch.control or batch.aborted)
    return _is_known(batch, tail, look)


def has_moved(tail: MapTail, look: LogLook) -> bool:
    """Return whether the leader has changed since the tail was seen: offsets alone then prove nothing."""
    return tail.target_epoch >= 0 and not look.same_leader


def truncated(
    state: PartitionMap, tail: MapTail, left: LogLeft, look: LogLook, log: Sequence[LogBatch] | None
) -> Resolution:
    """Cut the map's segments at the loss, and return the partition without the lost records."""
    state.segments.cut(left.end)
    upstream = state.segments.frontier(left.end)
    # If the sequence is unknown, no later append of the history may count.
    anchored = left.sequence is not None
    sequence = left.sequence if left.sequence is not None else (tail.sequence + _UNREACHED) % SEQUENCE_MODULUS
    end = state.segments.copied_end(left.end)
    resolution = Resolution(
        segments=state.segments,
        history=state.history,
        upstream=upstream,
        downstream=look.end,
        copied_end=end,
        sequence=sequence,
        leader_epoch=tail.leader_epoch,
        truncated_from=tail.downstream,
    )
    resolution.repair_from, resolution.live, resolution.anchored = end, tail.live, anchored
    state.segments.close(end)
    resolution.foreign = [
        Foreign(b.base, b.records, b.producer_id, b.transactional)
        for b in log or ()
        if b.base >= left.end and not b.control and not b.aborted
    ]
    return resolution


Answer = Resolution | NeedLog | Unavailable


def resolve(  # noqa: PLR0911  one result per way to settle it
    state: PartitionMap, look: LogLook, log: Sequence[LogBatch] | None = None, log_from: int = 0
) -> Answer:
    """Settle the map's claims against the target.

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
    resolution = Resolution.of_nothing(look.end, 0, look.next_sequence or 0)
    resolution.first_foreign = look.end > 0
    return resolution


def _proven_by_numbers(state: PartitionMap, look: LogLook) -> bool:
    """Return whether offsets and sequence numbers advance equally: nothing else was appended in between."""
    tail = state.tail
    if look.next_sequence is None:
        return False
    if tail is None:
        first_claim = min(state.claims(), key=lambda c: c.downstream, default=None)
        if first_claim is None:
            return False
        return steps(look.next_sequence, first_claim.base_sequence) == look.end - first_claim.downstream > 0
    ahead = steps(look.next_sequence, tail.sequence)
    if not tail.live and not any(c.base_sequence == tail.sequence for c in state.claims()):
        return False
    return ahead == look.end - tail.downstream >= 0


def _by_numbers(state: PartitionMap, look: LogLook) -> Answer:
    assert look.next_sequence is not None  # noqa: S101  the numbers are known
    tail, claims = state.tail, _history_claims(state)
    low, first_offset = 0, tail.downstream if tail else min(c.downstream for c in state.claims())
    pieces = claims.pieces(low, low + look.end - first_offset, first_offset)
    if pieces is None:
        return Unavailable(f"no claim says what is at target offset {first_offset}")
    resolution = _resolution(state, pieces, look.end, look.next_sequence)
    if tail is not None and tail.copied_end < tail.downstream:
        # After foreign records only the mark has the next position, and it will be replaced.
        is_claimed = any(
            c.base_sequence == tail.sequence and c.downstream == tail.downstream for c in state.claims()
        )
        resolution.repairs = [] if is_claimed else pieces
    return resolution


def _history_claims(state: PartitionMap) -> HistoryClaims:
    tail, claims = state.tail, state.claims()
    if tail is not None:
        begin = (0, tail.upstream) if tail.live else None
        return HistoryClaims.of(claims, tail.sequence, begin)
    first = min(claims, key=lambda c: c.downstream)
    return HistoryClaims.of(claims, first.base_sequence)


class _Holes:
    """Target offsets without a batch in the log: deleted by retention or by the log cleaner."""

    def __init__(self, start: int) -> None:
        self._end, self._runs = start, list[tuple[int, int]]()

    def next(self, batch: LogBatch) -> None:
        """Add the next batch of the log."""
        if batch.base > self._end:
            self._runs.append((self._end, batch.base))
        self._end = max(self._end, batch.end)

    def close(self) -> None:
        """Forget the holes before a batch of the flow."""
        self._runs = []

    def places(self, records: int) -> list[tuple[int, int]] | None:
        """Return the latest (offset, count) ranges that can have held `records` records, or None."""
        ranges: list[tuple[int, int]] = []
        for low, high in reversed(self._runs):
            count = min(records, high - low)
            if count:
                ranges.append((high - count, count))
            records -= count
        return None if records else ranges[::-1]


def _removed(claims: HistoryClaims, low: int, high: int, holes: _Holes) -> list[Piece] | None:
    """Return the records of positions whose batches were deleted, or None if they were lost or never there.

    Only the order of their offsets is exact, which suffices: consumers read the records after them.
    """
    ranges = holes.places(high - low)
    out: list[Piece] = []
    for down, count in ranges or ():
        batch_pieces = claims.pieces(low, low + count, down)
        if batch_pieces is None:
            return None
        out += batch_pieces
        low += count
    return out if ranges is not None else None


def _by_log(state: PartitionMap, look: LogLook, log: Sequence[LogBatch], log_from: int) -> Answer:
    """Return the confirmed and the foreign records of the log, and the sequence after the last batch."""
    tail, claims, history = state.tail, _history_claims(state), state.history
    pieces, foreign = list[Piece](), list[Foreign]()
    # Without a tail the copy begins at the first claim, from which the log was read.
    start, expected, lost, skipped = _start(tail, look) if tail else log_from, 0, False, False
    starts_later, holes = look.end > start and _begins_later(log, start), _Holes(max(start, log_from))
    for batch in log:
        if batch.end <= start:
            continue
        holes.next(batch)
        if batch.control or batch.aborted:
            continue
        position = steps(batch.sequence, claims.since)
        confirmed = None
        if not batch.transactional and _of_history(batch, history, look) and position >= expected:
            # Sequence numbers in a log are consecutive unless it has lost its tail, or retention has
            # deleted batches before the first one.
            begins = starts_later and not pieces
            skipped = skipped or (position > expected and begins)
            removed = [] if begins else _removed(claims, expected, position, holes)
            lost = lost or removed is None
            confirmed = claims.pieces(position, position + batch.records, batch.base) if not lost else None
        if confirmed is None:
            foreign.append(Foreign(batch.base, batch.records, batch.producer_id, batch.transactional))
            continue
        expected = position + batch.records
        pieces += [*(removed or ()), *confirmed]
        holes.close()
    sequence = (claims.since + expected) % SEQUENCE_MODULUS
    resolution = _resolution(state, pieces, look.end, sequence)
    resolution.foreign, resolution.repairs = foreign, pieces
    if skipped:
        resolution.repair_from = NO_ANCHOR
    if lost:
        resolution.truncated_from = look.end
    elif starts_later and not pieces:
        _pass_removed(resolution, state, claims, look)
    return resolution


def _begins_later(log: Sequence[LogBatch], start: int) -> bool:
    """Return whether retention has deleted the first batches; a lost tail leaves no such hole."""
    return not log or log[0].base > start


def _pass_removed(resolution: Resolution, state: PartitionMap, claims: HistoryClaims, look: LogLook) -> None:
    """Move past records that retention deleted after the tail: their offsets no longer matter."""
    ahead = steps(look.next_sequence, claims.since) if look.next_sequence is not None else 0
    last_pieces = claims.pieces(ahead - 1, ahead, 0) if ahead > 0 else None
    if not last_pieces or look.next_sequence is None:
        return
    resolution.upstream, resolution.sequence = last_pieces[-1].upstream + 1, look.next_sequence
    epoch = claims.leader_epoch(ahead - 1)
    resolution.leader_epoch = resolution.leader_epoch if epoch is None else epoch
    resolution.live, resolution.anchored, resolution.passed = True, False, True
    resolution.unappended = _unappended(state, resolution.sequence)


def _start(tail: MapTail, look: LogLook) -> int:
    # Only foreign records and markers are in between, and a new leader may have lost them.
    return tail.copied_end if has_moved(tail, look) or look.end < tail.downstream else tail.downstream


def _of_history(batch: LogBatch, history: History | None, look: LogLook) -> bool:
    if history is None or history == NO_HISTORY:
        return batch.producer_id in look.own_ids
    return history == (batch.producer_id, batch.producer_epoch)


def _resolution(state: PartitionMap, pieces: list[Piece], end: int, sequence: int) -> Resolution:
    tail = state.tail
    tail_end = tail.copied_end if tail else min((c.previous_end for c in state.claims()), default=0)
    previous, claims = tail_end, _history_claims(state)
    for piece in pieces:
        state.segments.append(piece.upstream, piece.downstream, previous_end=previous)
        previous = piece.downstream + piece.records
    if end > previous:
        state.segments.close(previous)
    upstream = pieces[-1].upstream + pieces[-1].records if pieces else tail.upstream if tail else None
    epoch = claims.leader_epoch(steps(sequence, claims.since) - 1) if pieces else None
    if epoch is None:
        epoch = tail.leader_epoch if tail else -1
    resolution = Resolution(
        segments=state.segments,
        history=state.history,
        upstream=upstream,
        downstream=end,
        copied_end=previous,
        sequence=sequence,
        leader_epoch=epoch,
        repair_from=tail_end,
    )
    resolution.live = bool(pieces) or (tail is not None and tail.live)
    resolution.unappended = _unappended(state, sequence)
    return resolution


def _unappended(state: PartitionMap, sequence: int) -> bool:
    return any(steps(c.base_sequence, sequence) + c.count > 0 for c in state.claims())
