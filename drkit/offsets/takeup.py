"""How a task continues a settled partition: in its history, or in a new one after a fence.

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
    """What the target partition's leader remembers of the flow's live producer id."""

    epoch: int | None
    """None: it knows no such producer."""
    untouched: bool = False
    """Nothing was appended in that epoch: it comes from a marker alone."""


@dataclass(frozen=True, slots=True)
class Go:
    """Append in the current history."""

    history: History


@dataclass(frozen=True, slots=True)
class TurnTo:
    """Nothing more can be appended in the old history: write a turn, then append in the new one."""

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
    found: Resolution,
    lease: History,
    leader: LeaderMemory,
    fresh: LeaderMemory,
    *,
    contested: bool,
    deviation: str,
) -> Move:
    """What a task may do with a settled partition.

    :param lease: the flow's live producer id, with its first epoch
    :param leader: what is remembered of the history's producer id; of the lease's where nothing was appended
    :param fresh: what is remembered of the lease's
    :param contested: appends of this history may still be in flight, of another task or of this one
    :param deviation: why this task may append other records than those would; empty when it will not
    """
    current = found.history or lease
    if fresh.epoch is not None and fresh.epoch >= FROZEN_EPOCH:
        return Frozen(fresh.epoch)
    if current.producer_id != lease.producer_id:
        # After an aborted failover the flow has another id, and its old one is mostly fenced.
        refused = leader.epoch is not None and leader.epoch > current.epoch
        if (contested or found.unappended) and not refused:
            return _fence(current, current.epoch, "the flow writes with another producer id")
        return TurnTo(lease)
    newest = max(current.epoch, -1 if leader.epoch is None else leader.epoch)
    if newest > current.epoch:
        if leader.untouched:
            return TurnTo(History(current.producer_id, newest))
        return _fence(current, newest, "appends that are not the flow's were made in its name")
    if found.history is None and leader.epoch is not None and not leader.untouched:
        return _fence(current, newest, "the target has records of an earlier topic of this name")
    if leader.epoch is not None and leader.epoch < current.epoch:
        return _fence(current, newest, "the target has lost the marker of the last fence")
    if found.truncated_from is not None:
        return _fence(current, newest, "the target has lost acknowledged records")
    if deviation and (contested or found.unappended):
        return _fence(current, newest, deviation)
    return Go(current)


def _fence(current: History, newest: int, reason: str) -> Move:
    if newest + 1 >= FROZEN_EPOCH:
        return Frozen(newest)
    return Fence(current.producer_id, newest + 1, reason)


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes to the map."""

    nonce: int
    """New each time: a record never replaces one that says more."""
    reign: int
    target_epoch: int = -1
    """Leader epoch of the target partition when it was settled."""


def settled_records(found: Resolution, history: History, author: Author) -> list[MapRecord]:
    """The records that only this look at the log confirmed; they must be durable before any append."""
    if found.passed and found.upstream is not None:
        return cut_records(found, history, found.upstream, author)
    out: list[MapRecord] = list(repairs_of(found, history, author))
    if found.foreign and found.upstream is not None:
        # What follows this flow's last record was already read: the mark saves reading it again.
        out.append(mark_of(found, history, author))
    return out


def cut_records(found: Resolution, history: History, upstream: int, author: Author) -> list[MapRecord]:
    """The repairs, and a cut at the last record that the target's log holds or held; no claim says more."""
    previous_end = found.copied_end if found.anchored else NO_ANCHOR
    cut = Intent(
        mode=Mode.REPAIR,
        nonce=author.nonce + 1,
        history=history,
        base_sequence=found.sequence,
        downstream=found.copied_end,
        previous_end=previous_end,
        leader_epoch=found.leader_epoch,
        runs=((upstream, 0),),
        target_epoch=author.target_epoch,
    )
    return [*repairs_of(found, history, author), cut]


def turn_records(
    found: Resolution, to: TurnTo, upstream: int, leader_epoch: int, author: Author
) -> list[MapRecord]:
    """The end of the old history and the beginning of the new one.

    :param upstream: source offset where copying continues
    :param leader_epoch: of the source at the record before it, −1 if unknown
    """
    ended = found.history or History(to.history.producer_id, to.history.epoch - 1)
    turn = Turn(
        nonce=author.nonce,
        reign=author.reign,
        ended=ended,
        ended_sequence=found.sequence if found.anchored else NO_ANCHOR,
        history=to.history,
        upstream=upstream,
        downstream=found.downstream,
        copied_end=found.copied_end,
        leader_epoch=leader_epoch,
        target_epoch=author.target_epoch,
    )
    return [*repairs_of(found, ended, author), turn]


def mark_of(found: Resolution, history: History, author: Author) -> Mark:
    """A mark of what was settled."""
    return Mark(
        nonce=author.nonce,
        history=history,
        upstream=found.upstream or 0,
        downstream=found.downstream,
        copied_end=found.copied_end,
        sequence=found.sequence,
        leader_epoch=found.leader_epoch,
        target_epoch=author.target_epoch,
        live=found.live,
    )


def repairs_of(found: Resolution, history: History, author: Author) -> list[Intent]:
    """The pieces that the log confirmed, one record for those that follow each other on the target."""
    total = sum(piece.records for piece in found.repairs)
    sequence = (found.sequence - total) % SEQUENCE_MODULUS
    previous, out = found.repair_from, []
    for group in _adjoining(found.repairs):
        down = group[0].downstream
        runs = tuple((p.upstream, p.records) for p in group)
        out.append(
            Intent(
                mode=Mode.REPAIR,
                nonce=author.nonce,
                history=history,
                base_sequence=sequence,
                downstream=down,
                previous_end=previous,
                leader_epoch=found.leader_epoch,
                runs=runs,
                target_epoch=author.target_epoch,
            )
        )
        count = sum(p.records for p in group)
        sequence = (sequence + count) % SEQUENCE_MODULUS
        previous = down + count
    return out


def _adjoining(pieces: list[Piece]) -> list[list[Piece]]:
    groups: list[list[Piece]] = []
    for piece in pieces:
        if groups and groups[-1][-1].downstream + groups[-1][-1].records == piece.downstream:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups
