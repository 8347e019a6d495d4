"""Waits until consumers on a fenced source reach its end, so that a switchover repeats nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drkit.clock import Seconds
from drkit.counted import counted
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.machine import StepName
from drkit.failover.groups.offsets import Positions, committed_on_source
from drkit.failover.loss.positions import scope_positions
from drkit.kafka.groups.asking import Answered
from drkit.kafka.groups.requests import GroupDescription, Groups
from drkit.kafka.raw import RawCluster, RawError
from drkit.offsets.translation import Exact, PartitionPosition

_PAUSE_SECONDS: Final = 0.3
STUCK_SECONDS: Final = 15.0
"""A group without a commit for this time is not awaited: three times Kafka's `auto.commit.interval.ms`.

An application that writes its results into a fenced topic cannot commit any more.
"""


class Moving:
    """Tracks which groups still approach the end offsets."""

    def __init__(self, clock: Seconds) -> None:
        self._clock = clock
        self._since: dict[str, tuple[int, float]] = {}

    def of(self, left: Mapping[str, int]) -> list[str]:
        """Return the groups in `left` whose distance changed within `STUCK_SECONDS`."""
        now = self._clock()
        before = self._since
        self._since = {g: (n, now) for g, n in left.items()}
        self._since |= {g: known for g, known in before.items() if left.get(g) == known[0]}
        return [group for group, (_, since) in self._since.items() if now < since + STUCK_SECONDS]


def wait_for_groups(context: Context, deadline: float) -> dict[str, str]:
    """Wait until groups are at the fenced end, without members, or stuck; return the others and their lag."""
    moving = Moving(context.clock)
    while True:
        source = context.source()
        if source is None:
            return {}
        try:
            left, members = _behind(context, source)
        except RawError as error:
            context.lose_source(error)
            continue
        moves = moving.of(left)
        if not moves or context.clock() > deadline:
            return {
                group: f"{counted(number, 'record')} before the fenced end,"
                f" {counted(members[group], 'member')}"
                for group, number in left.items()
            }
        context.tell(StepProgress(StepName.DRAIN, f"{len(moves)} groups still read", {"first": min(moves)}))
        context.pause(_PAUSE_SECONDS)


def _behind(context: Context, source: RawCluster) -> tuple[dict[str, int], dict[str, int]]:
    places = scope_positions(context, source, final=True)
    # All groups: a group that began to commit after SNAPSHOT moves too.
    committed: Positions = context.run(committed_on_source, source, context.flow, context.known)
    left: dict[str, int] = {}
    for group, partitions in committed.items():
        for at, stored in partitions.items():
            place = places.get(at)
            if not isinstance(place, PartitionPosition):
                continue
            found = place.forward(stored.offset)
            if isinstance(found, Exact) and found.offset < place.copied_end:
                left[group] = left.get(group, 0) + place.copied_end - found.offset
    described: dict[str, Answered[GroupDescription]] = context.run(Groups(source).describe, left)
    members = {g: len(a.value.members) for g, a in described.items() if a.value is not None}
    return {group: number for group, number in left.items() if members.get(group)}, members
