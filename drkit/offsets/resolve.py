"""From what the map claims and what the target's log holds to exact segments and the next position.

In live mode the sequence number ties the two together: an intent says which source offset a sequence
number stands for, the log says at which target offset that number stands. So the answer is exact
whatever was appended between, and no source is needed for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from drkit.offsets.map_record import SEQUENCE_MODULUS, Intent
from drkit.offsets.partition_map import PartitionMap, Tail, sequence_distance
from drkit.offsets.segments import SegmentMap


class LogBatch(NamedTuple):
    """What the header of one batch in the target's log says."""

    base: int
    records: int
    """Offsets it takes (last offset delta + 1)."""
    producer_id: int
    sequence: int
    crc: int
    transactional: bool
    control: bool
    aborted: bool


class Foreign(NamedTuple):
    """A batch on the target that this flow did not write."""

    base: int
    records: int
    producer_id: int


class Piece(NamedTuple):
    """A run of copied records found in the log."""

    upstream: int
    downstream: int
    records: int


class NeedLog(NamedTuple):
    """The claims cannot be settled without the target's batch headers from `start` on."""

    start: int


@dataclass(slots=True)
class Resolution:
    """Where a partition stands."""

    segments: SegmentMap
    upstream: int | None
    """Next source offset to copy; None: nothing was ever copied."""
    downstream: int
    """The target's end: where the next record will stand."""
    copied_end: int
    """Target offset behind the last record of this flow."""
    sequence: int
    leader_epoch: int
    """Of the source at the last record copied, or a later one. With an older one the source would say that
    its history ended there, and all behind it would be copied again (KIP-320)."""
    repairs: list[Piece] = field(default_factory=list)
    """Confirmed only by this look at the log: to be written down before the next append."""
    foreign: list[Foreign] = field(default_factory=list)
    truncated_from: int | None = None
    """The target once reached to here but ends earlier now."""
    repair_from: int = 0
    """Target offset behind the last record before the first repair."""
    first_foreign: bool = False
    """The target held records before the first copied one."""


def resolve(
    state: PartitionMap,
    *,
    end: int,
    next_sequence: int | None,
    own_ids: frozenset[int],
    log: Sequence[LogBatch] | None = None,
) -> Resolution | NeedLog:
    """Settle what the map claims against the target.

    :param end: the target partition's end offset
    :param next_sequence: last sequence of the flow's producer id + 1, as the leader tells it
        (DescribeProducers, KIP-664); None when the broker has forgotten it
    :param log: headers of the target's log from the offset of a previous :class:`NeedLog` to `end`
    """
    tail = state.tail
    if tail is None and not state.pending:
        return Resolution(SegmentMap(), None, end, end, next_sequence or 0, -1, first_foreign=end > 0)
    if tail is not None and end < tail.downstream:
        return _truncated(state, tail, end, next_sequence)
    # Two intents of one writer may have reached the map in either order.
    claims = sorted((p for p in state.pending if p.downstream < end), key=lambda p: p.downstream)
    if log is None and _consistent(tail, claims, end, next_sequence):
        pieces = _claimed_pieces(tail, claims, end)
        epoch = claims[-1].leader_epoch if claims else _epoch_of(tail)
        return _resolution(state, pieces, end, next_sequence, claims, epoch)
    if log is None:
        starts = [tail.downstream] if tail else [p.downstream for p in claims] or [end]
        return NeedLog(min(starts))
    pieces, foreign, sequence, epoch = _walk(tail, claims, log, own_ids)
    # The log and the leader's memory were seen one after the other: what the log shows fits its end.
    out = _resolution(state, pieces, end, next_sequence if sequence is None else sequence, claims, epoch)
    out.foreign = foreign
    if foreign and not out.repairs:
        out.repairs = pieces
    return out


def _consistent(tail: Tail | None, claims: list[Intent], end: int, next_sequence: int | None) -> bool:
    """True when numbers alone prove that only one writer appended, without a break."""
    if tail is not None and not claims and end == tail.downstream:
        return not tail.live or next_sequence in {None, tail.sequence}
    if next_sequence is None or len({c.nonce for c in claims}) > 1:
        return False
    points = [(c.downstream, c.base_sequence) for c in claims]
    if tail is not None:
        if not tail.live and (not claims or claims[0].downstream != tail.downstream):
            return False
        if tail.live:
            points.insert(0, (tail.downstream, tail.sequence))
    points.append((end, next_sequence))
    return all(
        down2 >= down and sequence_distance(sequence2, sequence) == down2 - down
        for (down, sequence), (down2, sequence2) in pairwise(points)
    )


def _claimed_pieces(tail: Tail | None, claims: list[Intent], end: int) -> list[Piece]:
    pieces: list[Piece] = []
    if tail is not None and tail.live:
        stop = claims[0].downstream if claims else end
        if stop > tail.downstream:
            pieces.append(Piece(tail.upstream, tail.downstream, stop - tail.downstream))
    for i, claim in enumerate(claims):
        stop = claims[i + 1].downstream if i + 1 < len(claims) else end
        pieces += _pieces_of(claim, 0, stop - claim.downstream, claim.downstream)
    return pieces


def _pieces_of(claim: Intent, index: int, count: int, downstream: int) -> list[Piece]:
    """The runs of `count` records of a claim from its record `index` on, standing at `downstream`."""
    pieces: list[Piece] = []
    at = 0
    last = len(claim.runs) - 1
    for i, (up, n) in enumerate(claim.runs):
        run_end = at + n if i < last else index + count
        lo, hi = max(at, index), min(run_end, index + count)
        if hi > lo:
            pieces.append(Piece(up + lo - at, downstream + lo - index, hi - lo))
        at += n
    return pieces


def _walk(
    tail: Tail | None, claims: list[Intent], log: Sequence[LogBatch], own_ids: frozenset[int]
) -> tuple[list[Piece], list[Foreign], int | None, int]:
    """What the log confirms, what is not ours, and of our last batch the sequence behind it and its epoch.

    The epoch is that of the claim which tells what stands there: of a task that died others may lie further
    on, with the epoch of records that were never appended.
    """
    pieces: list[Piece] = []
    foreign: list[Foreign] = []
    sequence = tail.sequence if tail is not None and tail.live else None
    start = tail.downstream if tail else 0
    epoch = _epoch_of(tail)
    nonce: int | None = None
    for batch in log:
        if batch.base + batch.records <= start or batch.control or batch.aborted:
            continue
        if batch.transactional or batch.producer_id not in own_ids:
            foreign.append(Foreign(batch.base, batch.records, batch.producer_id))
            continue
        sequence = (batch.sequence + batch.records) % SEQUENCE_MODULUS
        claim = _governing(batch, claims, nonce, tail)
        if claim is not None:
            nonce, epoch = claim.nonce, claim.leader_epoch
            index = sequence_distance(batch.sequence, claim.base_sequence)
            pieces += _pieces_of(claim, index, batch.records, batch.base)
        elif tail is not None and tail.live:
            epoch = tail.leader_epoch
            index = sequence_distance(batch.sequence, tail.sequence)
            pieces.append(Piece(tail.upstream + index, batch.base, batch.records))
        else:
            foreign.append(Foreign(batch.base, batch.records, batch.producer_id))
    return pieces, foreign, sequence, epoch


def _epoch_of(tail: Tail | None) -> int:
    """The leader epoch of the last confirmed record; −1 when it is unknown."""
    return tail.leader_epoch if tail is not None else -1


def _governing(batch: LogBatch, claims: list[Intent], nonce: int | None, tail: Tail | None) -> Intent | None:
    """The claim that tells what stands in a batch of ours; None: what the tail says goes on.

    What claims list is true whoever appended it, so the one that lists this batch is right, or else the one
    whose list ends last: its writer went on without a new claim, which means without a new distance. Of a
    compacted source two tasks may have seen different records; there the fingerprint decides.
    """
    best: tuple[tuple[bool, int, bool], Intent] | None = None
    for claim in claims:
        index = sequence_distance(batch.sequence, claim.base_sequence)
        if index >= SEQUENCE_MODULUS // 2:
            continue  # it begins behind this batch
        listed = claim.count - index
        proven = _fingerprint(claim, index) == (batch.records, batch.crc)
        if claim.chunks and listed > 0 and not proven:
            continue  # other records than these
        rank = proven, min(listed, batch.records), claim.nonce == nonce
        if best is None or rank >= best[0]:
            best = rank, claim
    if best is None:
        return None
    if tail is not None and tail.live and -sequence_distance(batch.sequence, tail.sequence) > best[0][1]:
        return None
    return best[1]


def _fingerprint(claim: Intent, index: int) -> tuple[int, int] | None:
    at = 0
    for count, crc in claim.chunks:
        if at == index:
            return count, crc
        at += count
    return None


def _resolution(
    state: PartitionMap,
    pieces: list[Piece],
    end: int,
    next_sequence: int | None,
    claims: list[Intent],
    epoch: int,
) -> Resolution:
    tail = state.tail
    previous = tail.copied_end if tail else 0
    for piece in pieces:
        state.segments.append(piece.upstream, piece.downstream, previous_end=previous)
        previous = piece.downstream + piece.records
    if end > previous:
        state.segments.close(previous)
    copied_end = previous
    if pieces:
        upstream: int | None = pieces[-1].upstream + pieces[-1].records
    else:
        upstream = tail.upstream if tail else None
    sequence = next_sequence
    if sequence is None:
        sequence = ((tail.sequence if tail else 0) + sum(p.records for p in pieces)) % SEQUENCE_MODULUS
    repairs = pieces if claims else []
    before = tail.copied_end if tail else 0
    return Resolution(state.segments, upstream, end, copied_end, sequence, epoch, repairs, repair_from=before)


def _truncated(state: PartitionMap, tail: Tail, end: int, next_sequence: int | None) -> Resolution:
    lost = tail.downstream - end
    state.segments.cut(end)
    upstream = state.segments.frontier(end)
    if next_sequence is None:
        next_sequence = (tail.sequence - lost) % SEQUENCE_MODULUS
    out = Resolution(state.segments, upstream, end, end, next_sequence, -1, truncated_from=tail.downstream)
    out.repairs = [Piece(upstream, end, 0)] if upstream is not None else []
    out.repair_from = end
    return out
