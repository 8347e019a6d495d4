"""Whether a failover now is safe for a group in a partition, and where the group would continue. Pure.

The same table decides as in a checkpoint round (`drkit.offsets.group_guard`), on the current state of both
clusters. A group whose position is unknown or too old is never ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from drkit.model import TopicPartition
from drkit.offsets import Unavailable
from drkit.offsets.group_guard import Case, GuardVerdict, OffsetMark, StoredOffset, judge
from drkit.offsets.mm2_records import CheckpointSeen
from drkit.offsets.translation import Exact, PartitionPosition, Translation
from drkit.status.groups import GroupPartition, Readiness

_NEVER_MS: Final = 1 << 62
"""Age from which unchanged offsets are written again: never, as this module writes nothing."""
_MEANS: Final = {GuardVerdict.PROMOTED: Readiness.THERE, GuardVerdict.NOT_TOLD: Readiness.UNKNOWN}
"""Every other refusal needs a person."""


class FlowFacts(NamedTuple):
    """Facts that all groups of a flow share at one moment."""

    source: str
    """Alias of its source."""
    sync: bool
    """Whether offsets are committed on the target, besides checkpoints."""
    source_answers: bool
    promoted: frozenset[str]
    """Topics of the target that producers own."""
    now_ms: int
    stale: str
    not_stored: Mapping[tuple[str, str], str]
    """What the newest round could not store, by group and source partition, and why."""


class GroupFacts(NamedTuple):
    """The facts of both clusters about one group and partition."""

    group: str
    at: TopicPartition
    target: TopicPartition
    place: PartitionPosition | Unavailable
    on_source: StoredOffset | None
    """Committed offset on the source; None where it does not answer."""
    checkpoint: CheckpointSeen | None
    on_target: StoredOffset | None
    """Committed offset on the target."""
    target_state: str | None
    """Empty: the group does not exist; None: unknown."""
    worked: bool
    """Whether the group itself has committed on the target."""
    unread: str = ""
    """Why the group's committed offset is unknown although the source answers."""
    is_void: bool = False
    """Whether its offset on the target is from before a return, and no longer a position in the copy."""


def judged(flow: FlowFacts, facts: GroupFacts) -> GroupPartition:
    """Position and readiness of a group in one partition."""
    own_mark, checkpoint = _own_mark(flow, facts), facts.checkpoint
    on_source = facts.on_source or _last_known(own_mark, checkpoint)
    place = facts.place if isinstance(facts.place, PartitionPosition) else None
    stored = facts.on_target.offset if facts.on_target is not None else None
    written = max(own_mark.written_ms if own_mark else 0, checkpoint.at_ms if checkpoint else 0) or None
    at = (facts.at.topic, facts.target.topic, facts.at.partition)
    reason = "what the group has committed on the source is unknown"
    unknown = GroupPartition(*at, stored=stored, written_ms=written, reason=reason)
    if on_source is None:
        return unknown
    case = _case(flow, facts, on_source, place)
    held = own_mark.upstream if own_mark is not None else None
    if held is None and checkpoint is not None and not flow.sync:
        held = checkpoint.upstream
    state, reason = _readiness(flow, facts, case, held)
    if facts.unread or (flow.stale and state is not Readiness.THERE):
        state, reason = Readiness.UNKNOWN, facts.unread or flow.stale
    position = _position(case, own_mark, checkpoint)
    repeats = None
    if held is not None and facts.on_source is not None:
        repeats = max(0, on_source.offset - max(held, _corresponding(facts, place, own_mark)))
    left = None if place is None or position is None else max(0, place.end - position)
    return unknown._replace(
        committed=on_source.offset, position=position, repeats=repeats, left=left, state=state, reason=reason
    )


def _own_mark(flow: FlowFacts, facts: GroupFacts) -> OffsetMark | None:
    own = facts.on_target
    return own.mark if own is not None and own.is_from(flow.source) else None


def _corresponding(facts: GroupFacts, place: PartitionPosition | None, own_mark: OffsetMark | None) -> int:
    """The source offset of the group's position on the target, by the map; −1 where it is not exact.

    The mark of an idle group is not written again, and has the source offset of the time before the source
    was emptied in a return, whose records have larger offsets since.
    """
    if own_mark is None or place is None or facts.is_void or own_mark.downstream < place.start:
        return -1
    found = place.backward(own_mark.downstream)
    return found.offset if isinstance(found, Exact) and found.reached and not found.skipped else -1


def _last_known(own_mark: OffsetMark | None, checkpoint: CheckpointSeen | None) -> StoredOffset | None:
    if checkpoint is not None and (own_mark is None or checkpoint.at_ms >= own_mark.written_ms):
        return StoredOffset(checkpoint.upstream)
    known = own_mark.upstream if own_mark is not None else None
    return StoredOffset(known) if known is not None else None


def _position(case: Case, own_mark: OffsetMark | None, checkpoint: CheckpointSeen | None) -> int | None:
    if isinstance(case.position, Exact):
        return case.position.offset
    return own_mark.downstream if own_mark else checkpoint.downstream if checkpoint else None


def _case(
    flow: FlowFacts, facts: GroupFacts, on_source: StoredOffset, place: PartitionPosition | None
) -> Case:
    found: Translation
    found = facts.place if isinstance(facts.place, Unavailable) else facts.place.forward(on_source.offset)
    return Case(
        source=flow.source,
        on_source=on_source,
        position=found,
        state=facts.target_state,
        on_target=facts.on_target,
        worked=facts.worked,
        start=place.start if place else 0,
        end=place.end if place else -1,
        promoted=facts.target.topic in flow.promoted,
        now_ms=flow.now_ms,
        refresh_ms=_NEVER_MS,
        is_void=facts.is_void,
    )


def _readiness(flow: FlowFacts, facts: GroupFacts, case: Case, held: int | None) -> tuple[Readiness, str]:
    verdict = judge(case)
    if verdict is GuardVerdict.ECHO:
        return Readiness.THERE, verdict.value
    if verdict is GuardVerdict.NO_POSITION:
        return _without_position(facts, case, held)
    if verdict is GuardVerdict.WRITE:
        return _unwritten(flow, facts, case, held)
    return _refused(verdict, case) or (Readiness.READY, "")


def _refused(verdict: GuardVerdict, case: Case) -> tuple[Readiness, str] | None:
    if not verdict.is_refusal:
        return None
    state = f" ({case.state})" if verdict is GuardVerdict.LIVE else ""
    return _MEANS.get(verdict, Readiness.REFUSED), verdict.value + state


def _at_hold(case: Case, checkpoint: CheckpointSeen | None, upstream: int) -> Case:
    own_mark = case.own_mark
    downstream = own_mark.downstream if own_mark else checkpoint.downstream if checkpoint else -1
    return case._replace(on_source=StoredOffset(upstream), position=Exact(downstream))


def _without_position(facts: GroupFacts, case: Case, held: int | None) -> tuple[Readiness, str]:
    why = case.position.reason if isinstance(case.position, Unavailable) else ""
    if not isinstance(facts.place, PartitionPosition):
        return Readiness.REFUSED, why
    if facts.place.waits_for(case.on_source.offset):
        # An active group is always ahead of the copy: it keeps its previous position.
        if held is None or held > case.on_source.offset:
            return Readiness.WAITING, why
        # A refusal of the current position would also apply to the newer one.
        return _refused(judge(_at_hold(case, facts.checkpoint, held)), case) or (Readiness.READY, "")
    return (Readiness.WAITING if facts.place.frontier is None else Readiness.REFUSED), why


def _unwritten(flow: FlowFacts, facts: GroupFacts, case: Case, held: int | None) -> tuple[Readiness, str]:
    if why := flow.not_stored.get((facts.group, str(facts.at))):
        return Readiness.REFUSED, f"{GuardVerdict.NOT_STORED.value}: {why}"
    if held is not None and case.on_source.offset >= held:
        return Readiness.READY, ""
    what = "not written yet" if held is None else "the group went back, not written yet"
    if flow.source_answers:
        return Readiness.WAITING, what
    return Readiness.REFUSED, "its position is known, and was not written before the source was lost"
