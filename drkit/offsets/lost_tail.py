"""A target that has lost its last records: where its log ends of what the map says is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from drkit.offsets.history import steps
from drkit.offsets.map_record import NO_HISTORY, SEQUENCE_MODULUS, History
from drkit.offsets.map_tail import MapTail
from drkit.offsets.partition_map import PartitionMap
from drkit.offsets.resolution import Foreign, LogBatch, LogLook, NeedLog, Resolution
from drkit.offsets.segments import OPEN

_WIDER: Final = 8
_FAR: Final = 100_000
"""How a log is searched backwards for the last record that is left: target offsets."""
_UNREACHED: Final = 1 << 29
"""Sequence numbers ahead of any that a history reaches meanwhile."""


class LogLeft(NamedTuple):
    """Where the log ends of what the map says is there."""

    end: int
    sequence: int | None
    """The next one of the tail's history at that offset; None: unknown."""


def lost_tail(  # noqa: PLR0911  as above
    state: PartitionMap, tail: MapTail, look: LogLook, log: Sequence[LogBatch] | None, log_from: int
) -> LogLeft | NeedLog | None:
    """Where the log ends of what the map says is there; None: nothing of it is missing."""
    behind = 0
    if tail.live and look.next_sequence is not None:
        behind = max(0, steps(tail.sequence, look.next_sequence))
    if not behind and look.end >= tail.downstream and not has_moved(tail, look):
        return None
    if tail.copied_end <= look.start:
        return None  # retention has removed all that was copied: nothing speaks against the map
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
        return None  # retention or the cleaner has removed that batch: nothing speaks against the map
    cut = _last_left(state, tail, look, log)
    if cut.end == 0 and log_from > look.start:
        return NeedLog(max(look.start, high - _WIDER * (high - log_from) - _FAR))
    cut = cut._replace(end=max(cut.end, look.start))
    return cut if cut.end < tail.copied_end else None


def _last_left(state: PartitionMap, tail: MapTail, look: LogLook, log: Sequence[LogBatch]) -> LogLeft:
    """The last batch in the log that the map knows; its end is 0 where none is there."""
    known = [b for b in log if b.end <= tail.copied_end and _is_copy(state, b, tail, look)]
    end = known[-1].end if known else 0
    own = [b for b in log if _in_history(b, tail.history)]
    before = [b for b in own if b.end <= end]
    if before:
        return LogLeft(end, (before[-1].sequence + before[-1].records) % SEQUENCE_MODULUS)
    # What was appended after it in the tail's history is not the map's, and its numbers say nothing of it.
    return LogLeft(end, None if own else look.next_sequence)


def _is_unbroken(state: PartitionMap, start: int, end: int) -> bool:
    """Whether the map names a record at each offset of a part of the log that reaches to its last one."""
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
    """Whether a batch ends with a record that the map names, by a writer that it may have."""
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
    # Where the log does not say it, nothing that is appended in the history may count any more.
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
