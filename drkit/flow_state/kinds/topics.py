"""What a flow keeps of each topic: its generation, its role, its settings, its takeover. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import Field

from drkit.counted import utc
from drkit.flow_state.codec.fields import (
    Count,
    Digits,
    Flag,
    Given,
    Map,
    Name,
    Object,
    Omitted,
    Prose,
    TopicId,
    TopicName,
    listed,
    row,
    whole,
)
from drkit.flow_state.codec.record import Body, PartitionRecord, StateRecord, TopicRecord, state_record
from drkit.topology.topic_configs import Retention

_WRITTEN: Final = ("source_cluster", "source_id", "target", "target_id", "generation")
"""The fields of a generation, in their order in its record."""
_OF_EVENTS: Final = frozenset({"kind", "topic", "partition", "at_ms"})
_ByPartition = Map[Digits, Count | None]
_LIMITS: Final = Annotated[tuple[Count | None, Count | None], listed(2)]


class Role(StrEnum):
    """What a failover made of a topic's copy. Without a role it is passive: the flow copies into it."""

    FROZEN = "frozen"
    """A failover is about to open the copy: the flow leaves it alone; an abort reverts this."""
    PROMOTED = "promoted"
    """Producers own the copy: drkit does not change it any more."""


@state_record("topic/")
class GenerationRecord(TopicRecord):
    """A source topic and its copy. The ids tell both from later topics of the same names (KIP-516)."""

    target: TopicName
    source_id: TopicId
    target_id: TopicId
    generation: Annotated[int, whole(1)] = 1
    source_cluster: Omitted[Name] = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields in the order of the first release."""
        found = Body.to_json(self)
        return {key: found[key] for key in _WRITTEN if key in found}


@state_record("role/")
class RoleRecord(TopicRecord):
    """The role of a topic's copy since a failover.

    Where it was promoted, `frontiers` has the first source offset of each partition that was not copied (None
    where nothing was), and `ends` the copy's end, after which producers of the new primary wrote.
    """

    role: Role
    term: Count
    run_id: Name
    at_ms: Count
    frontiers: Given[_ByPartition] = None
    ends: Given[_ByPartition] = None
    planned: Omitted[Flag] = None
    """Promoted by a switchover: the old primary's fence was proven, and everything there was copied."""
    clients_cut: Omitted[Prose] = None
    """How clients are kept off the old primary besides drkit's fence, as a person said."""
    epochs: Given[_ByPartition] = None
    """The leader epoch of each partition of the copy when it was promoted; None: it had no leader."""

    @property
    def is_frozen(self) -> bool:
        """Whether a failover is about to open the copy."""
        return self.role is Role.FROZEN

    @property
    def is_promoted(self) -> bool:
        """Whether producers own the copy."""
        return self.role is Role.PROMOTED


@dataclass(frozen=True, slots=True)
class DelayedSetting(Body):
    """A change on the source that lets the copy keep fewer records; it is not followed yet."""

    since_ms: Count
    """When it was first seen, by the replicator's clock."""
    before: Prose | None
    """The copy's value, or None where it is unknown."""
    after: Prose | None
    """The value to follow, or None for the default of the target's brokers."""

    def until_ms(self, delay_seconds: float) -> int:
        """Return the time at which it is followed."""
        return self.since_ms + int(delay_seconds * 1000)

    def in_words(self, setting: str, delay_seconds: float) -> str:
        """Describe the change, and when it is followed."""
        after = "the brokers' default" if self.after is None else self.after
        when = utc(self.until_ms(delay_seconds))
        return f"{setting} {self.before or 'unknown'} → {after}, followed at {when}"


@state_record("configs/")
class ConfigsRecord(TopicRecord):
    """The settings of the source topic at the last comparison.

    The source may be gone when its settings are to return to a promoted topic.
    """

    settings: Annotated[Map[Name, Prose], Field(alias="set")]
    delayed: Omitted[Map[Name, DelayedSetting]] = None
    """Changes that the copy does not follow yet."""
    retention: Omitted[Annotated[Retention, row(_LIMITS, Retention)]] = None
    """What the source topic keeps by its settings, set or inherited."""
    is_compacted_alone: Omitted[Flag] = None
    """The copy was compacted, and the source topic was not."""


@dataclass(frozen=True, slots=True)
class TakenOverPartition(Body):
    """The offsets at which a partition was taken over from MirrorMaker 2."""

    mm2_offset: Annotated[Count | None, Field(default=None)]
    """The last source offset that MM2 is sure to have copied; None: it has stored none."""
    resumed_at: Count
    """Source offset at which drkit began."""
    target_end: Count
    """Target offset at which drkit began."""
    found_behind: Count = 0
    """Records that MM2 copied after the offset that it stored."""
    committed: Flag = True
    """MM2 left out records of aborted transactions."""


@state_record("takeover/")
class TakeoverRecord(TopicRecord):
    """The offsets at which a topic's partitions were taken over from MirrorMaker 2."""

    source_id: TopicId
    target_id: TopicId
    partitions: Map[Digits, TakenOverPartition] = field(default_factory=dict)


@state_record("verified/", required=False)
class VerifiedRecord(PartitionRecord):
    """The offsets up to which a verification found a source partition and its copy equal."""

    source_id: TopicId
    target_id: TopicId
    source_offset: Count
    target_offset: Count
    at_ms: Count = 0
    turn: Omitted[Name] = None
    """The failback since which the flow copies the topic, or None: a later one may have emptied a side."""

    def is_of(self, other: VerifiedRecord) -> bool:
        """Return whether both are about the same topics since the same failback."""
        ids = self.source_id, self.target_id, self.turn
        return ids == (other.source_id, other.target_id, other.turn)


@state_record("event/", required=False)
class EventRecord(StateRecord):
    """The newest event of a kind in a topic or partition, for `drkit status`."""

    kind: Name
    topic: Prose
    """A topic, the resource of an ACL, or empty."""
    partition: Annotated[int, whole(-1, 2**31 - 1), Field(default=-1)]
    """−1: the whole topic."""
    at_ms: Count
    fields: Object
    """Further fields; any JSON data."""

    @classmethod
    def of(cls, raw: Any) -> Self:
        """Return the event; what its class does not have is kept as it is."""
        if isinstance(raw, dict):
            raw = {**raw, "fields": {k: v for k, v in raw.items() if k not in _OF_EVENTS}}
        return super(EventRecord, cls).of(raw)  # noqa: UP008  a class with slots replaces the first one

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`; an event of an ACL may have any name."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields, and the further ones beside them."""
        found = Body.to_json(self)
        more = found.pop("fields")
        return {**found, **more}

    @property
    def name(self) -> str:
        """The name in its key."""
        return self.name_of(self.kind, self.topic, self.partition)

    @staticmethod
    def name_of(kind: str, topic: str, partition: int = -1) -> str:
        """The name in the key of such an event."""
        return f"{kind}/{topic}/{partition}"
