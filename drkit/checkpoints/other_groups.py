"""Groups of the source that a flow's filter accepts and that are not synchronised, and why. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from drkit.flow_state.records import CheckpointsRecord, NotSynchronised
from drkit.kafka.groups.requests import ListedGroup

CONSUMERS: Final = frozenset({"", "consumer"})
"""Protocol types of groups that are looked after: consumers, and offsets stored without a member."""
LEFT_OUT: Final = "left out"
"""Replaces the protocol type of a consumer group that the flow's filter leaves out."""
SHOWN: Final = 50
"""Named one by one; all are counted."""
_REASONS: Final = {
    "share": "share group (KIP-932): brokers track its records one by one, so it has no committed offsets "
    "as a consumer group has; not synchronised",
    "streams": "streams group (KIP-1071): groups of this protocol are not synchronised",
    LEFT_OUT: "it reads copied topics, and groups or groups_exclude of the flow leave it out",
    "connect": "group of Kafka Connect workers: it has no committed offsets; not synchronised",
}


class OtherGroup(NamedTuple):
    """A group that is not a consumer group."""

    group: str
    kind: str
    """Its protocol type: ``share``, ``streams``, ``connect`` and so on; or :data:`LEFT_OUT`."""

    @property
    def reason(self) -> str:
        """Why it is not synchronised."""
        return _REASONS.get(self.kind, f"protocol type '{self.kind}': not a consumer group; not synchronised")

    def as_dict(self) -> dict[str, Any]:
        """The group as plain data."""
        return {"group": self.group, "kind": self.kind, "reason": self.reason}


def is_consumer(listed: ListedGroup) -> bool:
    """Return whether a group has committed offsets as consumers have."""
    return listed.protocol in CONSUMERS


def other_groups(listed: Mapping[str, ListedGroup], accepts: Callable[[str], bool]) -> tuple[OtherGroup, ...]:
    """Those of the listed groups that a filter accepts and that are not consumer groups, by name."""
    return tuple(
        OtherGroup(g, x.protocol) for g, x in sorted(listed.items()) if not is_consumer(x) and accepts(g)
    )


def left_out(
    listed: Mapping[str, ListedGroup], reads: Callable[[str], bool], accepts: Callable[[str], bool]
) -> tuple[OtherGroup, ...]:
    """Groups that the filter does not accept and that read copied topics, by name.

    :param reads: whether a group has committed offsets in a copied topic
    """
    return tuple(
        OtherGroup(g, LEFT_OUT if is_consumer(x) else x.protocol)
        for g, x in sorted(listed.items())
        if not accepts(g) and reads(g)
    )


def to_state(others: Sequence[OtherGroup]) -> NotSynchronised:
    """As the summary of a checkpoint round keeps them: all counted, the first :data:`SHOWN` by name."""
    return NotSynchronised(len(others), {o.group: o.kind for o in others[:SHOWN]})


def from_state(summary: CheckpointsRecord | None) -> tuple[tuple[OtherGroup, ...], int]:
    """The groups named by the summary of a checkpoint round, and how many there were in all."""
    kept = summary.not_synchronised if summary is not None else None
    if kept is None:
        return (), 0
    return tuple(OtherGroup(group, kind) for group, kind in kept.shown.items()), kept.total
