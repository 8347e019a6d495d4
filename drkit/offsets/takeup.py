"""Decides how a task continues a settled partition: in its history, or in a new one after a fence.

All writers of a history must agree on the source record of each sequence number (decision 0021). A history
is contested when an earlier writer may still append something else. The new writer ends such a history
first: a marker with a newer producer epoch makes the partition's leader refuse every append of the old
epoch, and a turn in the map says where the old history ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drkit.offsets.history import Piece
from drkit.offsets.map_record import NO_ANCHOR, SEQUENCE_MODULUS, History, Intent, MapRecord, Mark, Mode, Turn
from drkit.offsets.resolution import Resolution

FROZEN_EPOCH: Final = (1 << 15) - 1
"""The producer epoch with which FREEZE fences drkit's writers: no task ever writes with it."""


@dataclass(frozen=True, slots=True)
class LeaderMemory:
    """State of the flow's live producer id on the target partition's leader."""

    epoch: int | None
    """None if the leader does not know the producer id."""
    untouched: bool = False
    """True if nothing was appended in that epoch, which only a marker has set."""


@dataclass(frozen=True, slots=True)
class Go:
    """Append in the current history."""

    history: History


@dataclass(frozen=True, slots=True)
class TurnTo:
    """Write a turn, then append in the new history: the old one is closed for appends."""

    history: History


@dataclass(frozen=True, slots=True)
class Fence:
    """Write a marker with this epoch, then settle the partition once more."""

    producer_id: int
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Frozen:
    """A failover has fenced the flow here: it appends nothing more."""

    epoch: int


Move = Go | TurnTo | Fence | Frozen


def next_move(  # noqa: PLR0911  one move for each case
    resolution: Resolution,
    lease: History,
    leader: LeaderMemory,
    fresh: LeaderMemory,
    *,
    contested: bool,
    deviation: str,
) -> Move:
    """Return the next move of a task for a settled partition.

    :param lease: the flow's live producer id, with its first epoch
    :param leader: leader's state of the history's producer id, or of the lease's if nothing was appended
    :param fresh: leader's state of the lease's producer id
    :param contested: appends of this history may still be in flight, of another task or of this one
    :param deviation: why this task may append other records than the in-flight ones, or empty
    """
    current = resolution.history or lease
    if fresh.epoch is not None and fresh.epoch >= FROZEN_EPOCH:
        return Frozen(fresh.epoch)
    if current.producer_id != lease.producer_id:
        # After an aborted failover the flow has another producer id, and its old one is usually fenced.
        refused = leader.epoch is not None and leader.epoch > current.epoch
        if (contested or resolution.unappended) and not refused:
            return _fence(current, current.epoch, "the flow writes with another producer id")
        return TurnTo(lease)
    newest = max(current.epoch, -1 if leader.epoch is None else leader.epoch)
    if newest > current.epoch:
        if leader.untouched:
            return TurnTo(History(current.producer_id, newest))
        return _fence(current, newest, "appends that are not the flow's were made in its name")
    if resolution.history is None and leader.epoch is not None and not leader.untouched:
        return _fence(current, newest, "the target has records of an earlier topic of this name")
    if leader.epoch is not None and leader.epoch < current.epoch:
        return _fence(current, newest, "the target has lost the marker of the last fence")
    if resolution.truncated_from is not None:
        return _fence(current, newest, "the target has lost acknowledged records")
    if deviation and (contested or resolution.unappended):
        return _fence(current, newest, deviation)
    return Go(current)


def _fence(current: History, newest: int, reason: str) -> Move:
    if newest + 1 >= FROZEN_EPOCH:
        return Frozen(newest)
    return Fence(current.producer_id, newest + 1, reason)


@dataclass(frozen=True, slots=True)
class Author:
    """The writer of map records."""

    nonce: int
    """Unique per record: no record replaces one with more content."""
    reign: int
    target_epoch: int = -1
    """Leader epoch of the target partition when it was settled."""


def settled_records(resolution: Resolution, history: History, author: Author) -> list[MapRecord]:
    """Return the records that only this read of the log confirms; to be durable before any append."""
    if resolution.passed and resolution.upstream is not None:
        return cut_records(resolution, history, resolution.upstream, author)
    records: list[MapRecord] = list(repairs_of(resolution, history, author))
    if resolution.foreign and resolution.upstream is not None:
        # Records after this flow's last one were read already: the mark saves reading them again.
        records.append(mark_of(resolution, history, author))
    return records


def cut_records(resolution: Resolution, history: History, upstream: int, author: Author) -> list[MapRecord]:
    """Return the repairs, and a cut at the last record of the target's log: later claims are void."""
    previous_end = resolution.copied_end if resolution.anchored else NO_ANCHOR
    cut = Intent(
        mode=Mode.REPAIR,
        nonce=author.nonce + 1,
        history=history,
        base_sequence=resolution.sequence,
        downstream=resolution.copied_end,
        previous_end=previous_end,
        leader_epoch=resolution.leader_epoch,
        runs=((upstream, 0),),
        target_epoch=author.target_epoch,
    )
    return [*repairs_of(resolution, history, author), cut]


def turn_records(
    resolution: Resolution, to: TurnTo, upstream: int, leader_epoch: int, author: Author
) -> list[MapRecord]:
    """Return the records that end the old history and begin the new one.

    :param upstream: source offset where copying continues
    :param leader_epoch: of the source at the record before it, −1 if unknown
    """
    ended = resolution.history or History(to.history.producer_id, to.history.epoch - 1)
    turn = Turn(
        nonce=author.nonce,
        reign=author.reign,
        ended=ended,
        ended_sequence=resolution.sequence if resolution.anchored else NO_ANCHOR,
        history=to.history,
        upstream=upstream,
        downstream=resolution.downstream,
        copied_end=resolution.copied_end,
        leader_epoch=leader_epoch,
        target_epoch=author.target_epoch,
    )
    return [*repairs_of(resolution, ended, author), turn]


def mark_of(resolution: Resolution, history: History, author: Author) -> Mark:
    """Return a mark of the settled position."""
    return Mark(
        nonce=author.nonce,
        history=history,
        upstream=resolution.upstream or 0,
        downstream=resolution.downstream,
        copied_end=resolution.copied_end,
        sequence=resolution.sequence,
        leader_epoch=resolution.leader_epoch,
        target_epoch=author.target_epoch,
        live=resolution.live,
    )


def repairs_of(resolution: Resolution, history: History, author: Author) -> list[Intent]:
    """Return the confirmed pieces as records, one for pieces that are adjacent on the target."""
    total = sum(piece.records for piece in resolution.repairs)
    sequence = (resolution.sequence - total) % SEQUENCE_MODULUS
    previous, repairs = resolution.repair_from, []
    for group in _adjoining(resolution.repairs):
        downstream = group[0].downstream
        runs = tuple((p.upstream, p.records) for p in group)
        repairs.append(
            Intent(
                mode=Mode.REPAIR,
                nonce=author.nonce,
                history=history,
                base_sequence=sequence,
                downstream=downstream,
                previous_end=previous,
                leader_epoch=resolution.leader_epoch,
                runs=runs,
                target_epoch=author.target_epoch,
            )
        )
        count = sum(p.records for p in group)
        sequence = (sequence + count) % SEQUENCE_MODULUS
        previous = downstream + count
    return repairs


def _adjoining(pieces: list[Piece]) -> list[list[Piece]]:
    groups: list[list[Piece]] = []
    for piece in pieces:
        if groups and groups[-1][-1].downstream + groups[-1][-1].records == piece.downstream:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups
