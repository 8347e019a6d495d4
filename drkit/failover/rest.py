"""Waits until consumers on a fenced source can move no further: then a switchover repeats nothing."""

from __future__ import annotations

from typing import Final

from drkit.failover.context import Context, Progress
from drkit.failover.group_look import Positions, committed_on_source
from drkit.failover.machine import StepName
from drkit.failover.standing import standing
from drkit.kafka.group_asking import Answered
from drkit.kafka.groups import Described, Groups
from drkit.kafka.raw import RawCluster, RawError
from drkit.offsets.translation import Exact, Place

_PAUSE_SECONDS: Final = 0.3


def wait_for_groups(context: Context, deadline: float) -> dict[str, str]:
    """Wait until every group of the scope is at the fenced end, or has no members.

    :param deadline: as of the context's clock
    :returns: groups that still move when the time is over, and how far they are behind
    """
    while True:
        source = context.source()
        if source is None:
            return {}
        try:
            behind = _behind(context, source)
        except RawError as error:
            context.lose_source(error)
            continue
        if not behind or context.clock() > deadline:
            return behind
        context.tell(Progress(StepName.DRAIN, f"{len(behind)} groups still read", {"first": min(behind)}))
        context.pause(_PAUSE_SECONDS)


def _behind(context: Context, source: RawCluster) -> dict[str, str]:
    places = standing(context, source, final=True)
    # All groups: one that began to commit since SNAPSHOT moves too.
    committed: Positions = context.run(committed_on_source, source, context.flow, context.known)
    left: dict[str, int] = {}
    for group, partitions in committed.items():
        for at, stored in partitions.items():
            place = places.get(at)
            if not isinstance(place, Place):
                continue
            found = place.forward(stored.offset)
            if isinstance(found, Exact) and found.offset < place.copied_end:
                left[group] = left.get(group, 0) + place.copied_end - found.offset
    described: dict[str, Answered[Described]] = context.run(Groups(source).describe, left)
    members = {g: len(a.value.members) for g, a in described.items() if a.value is not None}
    return {
        group: f"{number:,} records behind the fenced end, {members[group]} members"
        for group, number in left.items()
        if members.get(group)
    }
