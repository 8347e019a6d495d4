"""The state of each consumer group at one moment: the model of its part of `drkit status`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from drkit.checkpoints.other_groups import OtherGroup
from drkit.counted import total

STALE_SECONDS: Final = 30.0
STALE_ROUNDS: Final = 4
"""Checkpoints are stale when no round succeeded for longer than both of these."""


class Readiness(StrEnum):
    """Whether a group can continue at its position in a partition of the target."""

    READY = "ready"
    WAITING = "waiting"
    """Not ready yet; the next rounds or the copy provide the position."""
    REFUSED = "not ready"
    UNKNOWN = "unknown"
    THERE = "on the target"
    """No position is needed: the group, or the topic's producers, are already active there."""


class GroupPartition(NamedTuple):
    """A group's position in one partition. None: unknown."""

    topic: str
    target_topic: str
    partition: int
    committed: int | None = None
    """The newest offset that the group is known to have committed on the source."""
    position: int | None = None
    """Where it continues on the target."""
    stored: int | None = None
    """Its committed offset on the target now."""
    repeats: int | None = None
    """Source offsets that it would reprocess after a failover now; None where the source does not answer."""
    left: int | None = None
    """Target offsets from its position to the end."""
    written_ms: int | None = None
    """When its position was last written, as checkpoint or as offset; it is written when it changes."""
    state: Readiness = Readiness.UNKNOWN
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A consumer group, and its positions on the target."""

    group: str
    state: str = ""
    """On the source, as Kafka names it: Stable, Empty and so on; empty where unknown."""
    protocol: str = ""
    """``classic``, or ``consumer`` as of KIP-848."""
    target_state: str = ""
    partitions: tuple[GroupPartition, ...] = ()
    not_copied: tuple[str, ...] = ()
    """Topics in which it has offsets and which the flow does not copy."""

    @property
    def wanted(self) -> list[GroupPartition]:
        """The partitions in which the group needs a position."""
        return [p for p in self.partitions if p.state is not Readiness.THERE]

    @property
    def ready_partitions(self) -> int:
        """Number of wanted partitions in which the group is ready."""
        return sum(p.state is Readiness.READY for p in self.partitions)

    @property
    def ready(self) -> bool:
        """Return whether the group is ready in all wanted partitions."""
        return self.ready_partitions == len(self.wanted)

    @property
    def faulty(self) -> bool:
        """Return whether the group has a problem that does not pass by itself."""
        return any(p.state in {Readiness.REFUSED, Readiness.UNKNOWN} for p in self.partitions)

    @property
    def repeats(self) -> int | None:
        """Offsets to reprocess over all partitions; None where one is unknown."""
        return total(p.repeats for p in self.wanted)

    @property
    def left(self) -> int | None:
        """Offsets remaining over all partitions; None where one is unknown."""
        return total(p.left for p in self.wanted)

    @property
    def reason(self) -> str:
        """Why it is not ready, the worst reason first, with the first partition that it concerns."""
        for state in (Readiness.REFUSED, Readiness.UNKNOWN, Readiness.WAITING):
            found = [p for p in self.partitions if p.state is state]
            if found:
                first = found[0]
                same = len(found) == len(self.partitions) and all(p.reason == first.reason for p in found)
                return first.reason if same else f"{first.topic}-{first.partition}: {first.reason}"
        if self.not_copied:
            return f"also reads {', '.join(self.not_copied[:3])}, not copied"
        return "" if self.wanted else "works on the target"

    def as_dict(self, *, details: bool = True) -> dict[str, Any]:
        """As plain data; the partitions only with `details`."""
        told: dict[str, Any] = {
            "group": self.group, "state": self.state, "protocol": self.protocol,
            "target_state": self.target_state, "ready": self.ready, "faulty": self.faulty,
            "partitions_ready": self.ready_partitions, "partitions_total": len(self.wanted),
            "repeats": self.repeats, "left": self.left, "reason": self.reason,
            "not_copied": list(self.not_copied),
        }  # fmt: skip
        return told | ({"partitions": [p._asdict() for p in self.partitions]} if details else {})


@dataclass(frozen=True, slots=True)
class Rounds:
    """State of a flow's checkpoint rounds, from the flow's state on the target."""

    age_seconds: float | None
    """Since the last round that succeeded; None: never."""
    limit_seconds: float
    """Older than this is stale."""
    source_gone_seconds: float = 0.0
    """Since the source was last seen; not counted in the age, as no round can succeed without the source."""
    error: str = ""
    """Why the newest round failed."""
    seconds: float | None = None
    """Duration of the newest round."""
    verdicts: Mapping[str, int] = field(default_factory=dict)
    """Number of positions by their verdict in the newest round."""

    @property
    def stale(self) -> str:
        """Why positions may be old; empty while they are not."""
        why = f": {self.error}" if self.error else ""
        if self.age_seconds is None:
            return f"no checkpoint round has succeeded yet{why}"
        age = max(0.0, self.age_seconds - self.source_gone_seconds)
        if age <= self.limit_seconds:
            return ""
        when = " when the source was seen last" if self.source_gone_seconds else ""
        are = "were" if self.source_gone_seconds else "are"
        return f"the last checkpoints {are} {age:.0f} s old{when}, more than {self.limit_seconds:g} s{why}"


@dataclass(frozen=True, slots=True)
class GroupsSeen:
    """Result of one look at the groups of a flow."""

    at_ms: int
    rounds: Rounds
    groups: tuple[GroupStatus, ...] = ()
    error: str = ""
    """Why the groups are unknown; then this result lists none, even if groups exist."""
    without_positions: int = 0
    """Groups of the source that have no committed offset in a copied topic."""
    unreadable: int = 0
    """Records of the checkpoint topic that are not checkpoints."""
    others: tuple[OtherGroup, ...] = ()
    """Groups that the flow's filter accepts and that are not consumer groups; without the source, those that
    the newest checkpoint round named."""
    others_total: int = 0
    """Their total number: without the source not all are known by name."""

    @property
    def ready(self) -> int:
        """Number of groups that are ready, or need no position."""
        return sum(g.ready for g in self.groups)

    def as_dict(self) -> dict[str, Any]:
        """All but the groups themselves, as plain data."""
        rounds = self.rounds
        return {
            "at_ms": self.at_ms, "error": self.error, "age_seconds": rounds.age_seconds,
            "limit_seconds": rounds.limit_seconds, "source_gone_seconds": rounds.source_gone_seconds,
            "stale": rounds.stale, "round_error": rounds.error,
            "round_seconds": rounds.seconds, "verdicts": dict(rounds.verdicts),
            "groups": len(self.groups), "groups_ready": self.ready,
            "groups_without_positions": self.without_positions, "unreadable_records": self.unreadable,
            "not_synchronised": [o.as_dict() for o in self.others],
            "not_synchronised_total": self.others_total,
        }  # fmt: skip


def worst_first(groups: Iterable[GroupStatus]) -> list[GroupStatus]:
    """Groups that need a person, then those that wait, then the others; each by name."""
    return sorted(groups, key=lambda g: (not g.faulty, g.ready, g.group))


def group_faults(seen: GroupsSeen) -> list[tuple[str, str]]:
    """Code and text of each fault of the groups."""
    if seen.error:
        return [("groups_unknown", f"positions of groups are unknown: {seen.error}")]
    if not seen.groups:
        return []
    if seen.rounds.stale:
        return [("checkpoints_stale", seen.rounds.stale)]
    faulty = [g for g in worst_first(seen.groups) if g.faulty]
    if not faulty:
        return []
    text = f"{len(faulty)} of {len(seen.groups)} groups, first {faulty[0].group}: {faulty[0].reason}"
    return [("groups_not_ready", text)]
