"""All fences of a flow's source, as ``drkit fence show`` shows them. Pure."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from drkit.flow_state.records import PendingFence, PendingLift

TAKEN_AWAY: Final = "taken away"


class TopicFence(NamedTuple):
    """The fence of one topic of the source."""

    topic: str
    fence: str
    """``acl``, ``max.message.bytes``, both, ``owed`` for a pending fence, ``taken away`` for one that is on
    record and not there, or empty: drkit knows of none."""
    takes_writes: str
    """The canary's latest result: ``no``, ``yes`` with the partitions, or why it is unknown."""
    promoted: bool
    """Whether the new primary owns the topic."""


class Fences(NamedTuple):
    """All fences of a flow's source."""

    flow: str
    cluster: str
    topics: tuple[TopicFence, ...]
    pending_fence: PendingFence | None
    lift: PendingLift | None
    """Fences to lift at the first contact with the cluster."""
    unanswered: str
    """Why the cluster did not answer; empty: it did."""

    def to_json(self) -> dict[str, Any]:
        """Return the fences as plain JSON data."""
        pending = None if self.pending_fence is None else self.pending_fence.to_json()
        lift = None if self.lift is None else self.lift.to_json()
        return {
            "flow": self.flow, "cluster": self.cluster, "unanswered": self.unanswered, "owed": pending,
            "lift_pending": lift, "topics": [t._asdict() for t in self.topics],
        }  # fmt: skip
