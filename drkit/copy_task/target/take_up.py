"""How a task continues a settled partition: decided here, carried out by the resolver. No I/O."""

from __future__ import annotations

from typing import Final, NamedTuple

from drkit.copy_task.core.partition import PartitionCopy
from drkit.offset_map.look import Look
from drkit.offsets import History, MapRecord, PartitionMap, Reign
from drkit.offsets.resolution import Resolution
from drkit.offsets.takeup import (
    Author,
    Go,
    LeaderMemory,
    Move,
    TurnTo,
    cut_records,
    next_move,
    settled_records,
    turn_records,
)

_COMPACTED: Final = "the source is compacted: it may hold fewer records than when another task read it"
_REWOUND: Final = "the source has lost records that were copied"
_GAP: Final = "the source has removed records before they were copied"


class TakeUp(NamedTuple):
    """A settled partition and its next move."""

    p: PartitionCopy
    found: Resolution
    look: Look
    move: Move
    upstream: int | None
    """Source offset where copying continues; None: where the source begins is unknown."""
    leader_epoch: int
    """Of the source at the record before it, −1 if unknown."""

    def records(self, author: Author) -> list[MapRecord]:
        """Return the map records that must be durable before the partition may begin."""
        match self.move:
            case TurnTo() if self.upstream is not None:
                return turn_records(self.found, self.move, self.upstream, self.leader_epoch, author)
            case Go() if self.found.history is not None:
                return settled_records(self.found, self.found.history, author)
        return []

    def records_behind_fence(self, author: Author) -> list[MapRecord]:
        """Return the map records that must be durable once the fence is replicated.

        A former leader seems to have lost records, but it cannot replicate a marker.
        """
        if self.found.truncated_from is None or self.upstream is None or self.found.history is None:
            return []
        return cut_records(self.found, self.found.history, self.upstream, author)

    @property
    def may_begin(self) -> bool:
        """Return whether the partition can begin: it needs no fence, and the source offset is known."""
        return isinstance(self.move, Go | TurnTo) and self.upstream is not None

    def begin(self) -> None:
        """Let the partition continue; its records are durable."""
        p, resolution, move = self.p, self.found, self.move
        if not isinstance(move, Go | TurnTo) or self.upstream is None:
            return
        turned = isinstance(move, TurnTo)
        if turned:
            p.lost = False
        at_end = resolution.copied_end == resolution.downstream and not turned
        p.begin(
            upstream=self.upstream,
            downstream=resolution.downstream,
            copied_end=resolution.copied_end,
            sequence=0 if turned else resolution.sequence,
            delta=resolution.segments.delta() if at_end else None,
            leader_epoch=self.leader_epoch,
            history=move.history,
            inherited=p.inherited and not turned,
            target_epoch=self.look.leader_epoch,
            live=resolution.live or turned,
            alone=self.look.producer_epoch(move.history.producer_id) != move.history.epoch,
        )


def take_up(
    p: PartitionCopy,
    state: PartitionMap,
    found: Resolution,
    look: Look,
    *,
    reign: Reign,
    lease: History,
    start: int | None,
) -> TakeUp:
    """Return the next move for a settled partition.

    :param state: what the map says of it
    :param reign: the task's own
    :param lease: the flow's live producer id with its first epoch
    :param start: first source offset, asked where nothing was copied yet
    """
    p.target_epoch = look.leader_epoch
    # Claims without appended records bind this task too: it must append the same records.
    p.inherited = found.unappended or _is_inherited(state, found, reign)
    current = (found.history or lease).producer_id
    leader = LeaderMemory(look.producer_epoch(current), look.untouched(current))
    fresh = LeaderMemory(look.producer_epoch(lease.producer_id), look.untouched(lease.producer_id))
    move = next_move(found, lease, leader, fresh, contested=p.contested, deviation=_deviation(p))
    upstream, epoch = found.upstream if found.upstream is not None else start, found.leader_epoch
    if p.rewind_to is not None:
        # Fetching with the epoch of the lost tail would return the same diverging epoch every time.
        history_end, end_epoch, asked_epoch = p.rewind_to
        if asked_epoch < 0 or found.leader_epoch <= asked_epoch:  # else the target has a newer history
            upstream, epoch = history_end if upstream is None else min(upstream, history_end), end_epoch
    if upstream is not None and upstream < p.skip_to:
        upstream, epoch = p.skip_to, -1
    return TakeUp(p, found, look, move, upstream, epoch)


def _is_inherited(state: PartitionMap, resolution: Resolution, reign: Reign) -> bool:
    """Return whether an earlier task may still append: it did not end cleanly since the last turn."""
    # Without live records or claims no append can be in flight: the first one needs a claim.
    works = bool(state.pending) or (state.tail is not None and state.tail.live) or bool(resolution.repairs)
    return works and reign.unclean > 0 and reign.unclean >= state.turned


def _deviation(p: PartitionCopy) -> str:
    if p.deviation:
        return p.deviation
    if p.rewind_to is not None:
        return _REWOUND
    if p.skip_to >= 0:
        return _GAP
    return _COMPACTED if p.lease.compacted else ""
