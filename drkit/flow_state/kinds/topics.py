"""What a flow keeps of each topic: its generation, its role, its settings, its takeover. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self
from uuid import UUID

from drkit.counted import utc
from drkit.flow_state.codec.body import Body, record, stored
from drkit.flow_state.codec.fields import (
    Fields,
    digits,
    flag,
    mapping_of,
    member,
    name,
    optional,
    partition_of,
    prose,
    text,
    topic_name,
    uuid,
    whole,
)
from drkit.flow_state.codec.record import StateRecord, TopicRecord
from drkit.model import TopicPartition

_by_partition = mapping_of(digits, optional(whole()))


class Role(StrEnum):
    """What a failover made of a topic's copy. Without a role it is passive: the flow copies into it."""

    FROZEN = "frozen"
    """A failover is about to open the copy: the flow leaves it alone; an abort reverts this."""
    PROMOTED = "promoted"
    """Producers own the copy: drkit does not change it any more."""


@record
class GenerationRecord(TopicRecord):
    """A source topic and its copy. The ids tell both from later topics of the same names (KIP-516)."""

    KEY: ClassVar[str] = "topic/"

    target: str = stored(topic_name)
    source_id: UUID = stored(uuid)
    target_id: UUID = stored(uuid)
    generation: int = stored(whole(1), default=1)
    source_cluster: str | None = stored(optional(name), default=None)

    def to_json(self) -> dict[str, Any]:
        """See :class:`Body`."""
        cluster = {} if self.source_cluster is None else {"source_cluster": self.source_cluster}
        return {
            **cluster,
            "source_id": str(self.source_id),
            "target": self.target,
            "target_id": str(self.target_id),
            "generation": self.generation,
        }


@record
class RoleRecord(TopicRecord):
    """The role of a topic's copy since a failover.

    Where it was promoted, `frontiers` has the first source offset of each partition that was not copied (None
    where nothing was), and `ends` the copy's end, after which producers of the new primary wrote.
    """

    KEY: ClassVar[str] = "role/"

    role: Role = stored(member(Role))
    term: int = stored(whole())
    run_id: str = stored(name)
    at_ms: int = stored(whole())
    frontiers: Mapping[int, int | None] | None = stored(_by_partition, default=None, omit_none=True)
    ends: Mapping[int, int | None] | None = stored(_by_partition, default=None, omit_none=True)
    planned: bool | None = stored(optional(flag), default=None, omit_none=True)
    """Promoted by a switchover: the old primary's fence was proven, and everything there was copied."""
    clients_cut: str | None = stored(optional(prose), default=None, omit_none=True)
    """How clients are kept off the old primary besides drkit's fence, as a person said."""
    epochs: Mapping[int, int | None] | None = stored(_by_partition, default=None, omit_none=True)
    """The leader epoch of each partition of the copy when it was promoted; None: it had no leader."""

    @property
    def is_frozen(self) -> bool:
        """Whether a failover is about to open the copy."""
        return self.role is Role.FROZEN

    @property
    def is_promoted(self) -> bool:
        """Whether producers own the copy."""
        return self.role is Role.PROMOTED


@record
class DelayedSetting(Body):
    """A change on the source that lets the copy keep fewer records; it is not followed yet."""

    since_ms: int = stored(whole())
    """When it was first seen, by the replicator's clock."""
    before: str | None = stored(optional(prose))
    """The copy's value, or None where it is unknown."""
    after: str | None = stored(optional(prose))
    """The value to follow, or None for the default of the target's brokers."""

    def until_ms(self, delay_seconds: float) -> int:
        """Return the time at which it is followed."""
        return self.since_ms + int(delay_seconds * 1000)

    def in_words(self, setting: str, delay_seconds: float) -> str:
        """Describe the change, and when it is followed."""
        after = "the brokers' default" if self.after is None else self.after
        when = utc(self.until_ms(delay_seconds))
        return f"{setting} {self.before or 'unknown'} → {after}, followed at {when}"


@record
class ConfigsRecord(TopicRecord):
    """The settings of the source topic at the last comparison.

    The source may be gone when its settings are to return to a promoted topic.
    """

    KEY: ClassVar[str] = "configs/"

    settings: Mapping[str, str] = stored(mapping_of(name, prose), key="set")
    delayed: Mapping[str, DelayedSetting] | None = stored(
        optional(mapping_of(name, DelayedSetting.of)), default=None, omit_none=True
    )
    """Changes that the copy does not follow yet."""


@record
class TakenOverPartition(Body):
    """The offsets at which a partition was taken over from MirrorMaker 2."""

    mm2_offset: int | None = stored(optional(whole()), missing=None)
    """The last source offset that MM2 is sure to have copied; None: it has stored none."""
    resumed_at: int = stored(whole())
    """Source offset at which drkit began."""
    target_end: int = stored(whole())
    """Target offset at which drkit began."""
    found_behind: int = stored(whole(), missing=0)
    """Records that MM2 copied after the offset that it stored."""
    committed: bool = stored(flag, missing=True)
    """MM2 left out records of aborted transactions."""


@record
class TakeoverRecord(TopicRecord):
    """The offsets at which a topic's partitions were taken over from MirrorMaker 2."""

    KEY: ClassVar[str] = "takeover/"

    source_id: UUID = stored(uuid)
    target_id: UUID = stored(uuid)
    partitions: Mapping[int, TakenOverPartition] = stored(
        mapping_of(digits, TakenOverPartition.of), missing={}
    )


@record
class VerifiedRecord(StateRecord):
    """The offsets up to which a verification found a source partition and its copy equal."""

    KEY: ClassVar[str] = "verified/"
    REQUIRED: ClassVar[bool] = False

    source_id: UUID = stored(uuid)
    target_id: UUID = stored(uuid)
    source_offset: int = stored(whole())
    target_offset: int = stored(whole())
    at_ms: int = stored(whole(), missing=0)

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`."""
        partition_of(name)

    @staticmethod
    def name_of(partition: TopicPartition) -> str:
        """The name in the key for a source partition."""
        return f"{partition.topic}/{partition.partition}"


@dataclass(frozen=True, slots=True)
class EventRecord(StateRecord):
    """The newest event of a kind in a topic or partition, for `drkit status`."""

    KEY: ClassVar[str] = "event/"
    REQUIRED: ClassVar[bool] = False

    kind: str
    topic: str
    """A topic, the resource of an ACL, or empty."""
    partition: int
    """−1: the whole topic."""
    at_ms: int
    fields: Mapping[str, Any]
    """Further fields; any JSON data."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Body`."""
        own = {"kind", "topic", "partition", "at_ms"}
        return cls(
            fields.get("kind", name),
            fields.get("topic", text()),
            fields.get("partition", whole(-1, 2**31 - 1), -1),
            fields.get("at_ms", whole()),
            {k: v for k, v in fields.raw.items() if k not in own},
        )

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`; an event of an ACL may have any name."""

    def to_json(self) -> dict[str, Any]:
        """See :class:`Body`."""
        own = {"kind": self.kind, "topic": self.topic, "partition": self.partition, "at_ms": self.at_ms}
        return {**own, **self.fields}

    @property
    def name(self) -> str:
        """The name in its key."""
        return self.name_of(self.kind, self.topic, self.partition)

    @staticmethod
    def name_of(kind: str, topic: str, partition: int = -1) -> str:
        """The name in the key of such an event."""
        return f"{kind}/{topic}/{partition}"
