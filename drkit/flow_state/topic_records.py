"""What a flow keeps of each topic: its generation, its role, its settings, its takeover. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self
from uuid import UUID

from drkit.flow_state.fields import (
    Fields,
    Malformed,
    digits,
    flag,
    mapping_of,
    name,
    optional,
    partition_of,
    prose,
    text,
    topic_name,
    uuid,
    whole,
)
from drkit.flow_state.record import Record, TopicRecord
from drkit.model import TopicPartition

_by_partition = mapping_of(digits, optional(whole()))


class Role(StrEnum):
    """What a failover made of a topic's copy. Without a role it is passive: the flow copies into it."""

    FROZEN = "frozen"
    """A failover is about to open the copy: the flow leaves it alone; an abort takes this back."""
    PROMOTED = "promoted"
    """Producers own the copy: nothing of drkit changes it any more."""


@dataclass(frozen=True, slots=True)
class GenerationRecord(TopicRecord):
    """A source topic and its copy. The ids tell both from later topics of the same names (KIP-516)."""

    KEY: ClassVar[str] = "topic/"

    target: str
    source_id: UUID
    target_id: UUID
    generation: int = 1
    source_cluster: str | None = None

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        return cls(
            fields.get("target", topic_name),
            fields.get("source_id", uuid),
            fields.get("target_id", uuid),
            fields.get("generation", whole(1), 1),
            fields.get("source_cluster", optional(name), None),
        )

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        cluster = {} if self.source_cluster is None else {"source_cluster": self.source_cluster}
        return {
            **cluster,
            "source_id": str(self.source_id),
            "target": self.target,
            "target_id": str(self.target_id),
            "generation": self.generation,
        }


@dataclass(frozen=True, slots=True)
class RoleRecord(TopicRecord):
    """The role of a topic's copy since a failover.

    Where it was promoted, `frontiers` has the first source offset of each partition that was not copied (None
    where nothing was), and `ends` the copy's end, after which producers of the new primary wrote.
    """

    KEY: ClassVar[str] = "role/"

    role: Role
    term: int
    run_id: str
    at_ms: int
    frontiers: Mapping[int, int | None] | None = None
    ends: Mapping[int, int | None] | None = None

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        return cls(
            fields.get("role", _role),
            fields.get("term", whole()),
            fields.get("run_id", name),
            fields.get("at_ms", whole()),
            fields.get("frontiers", _by_partition, None),
            fields.get("ends", _by_partition, None),
        )

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        body = {"role": str(self.role), "term": self.term, "run_id": self.run_id, "at_ms": self.at_ms}
        offsets = {"frontiers": self.frontiers, "ends": self.ends}
        found = {f: {str(p): o for p, o in some.items()} for f, some in offsets.items() if some is not None}
        return {**body, **found}

    @property
    def is_frozen(self) -> bool:
        """Whether a failover is about to open the copy."""
        return self.role is Role.FROZEN

    @property
    def is_promoted(self) -> bool:
        """Whether producers own the copy."""
        return self.role is Role.PROMOTED


@dataclass(frozen=True, slots=True)
class ConfigsRecord(TopicRecord):
    """The settings that the source topic had when they were compared last.

    The source may be gone when its settings are to return to a promoted topic.
    """

    KEY: ClassVar[str] = "configs/"

    settings: Mapping[str, str]

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        return cls(fields.get("set", mapping_of(name, prose)))

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        return {"set": dict(self.settings)}


@dataclass(frozen=True, slots=True)
class TakenOverPartition:
    """Where a partition was taken over from MirrorMaker 2."""

    mm2_offset: int | None
    """The last source offset that MM2 is sure to have copied; None: it has stored none."""
    resumed_at: int
    """Source offset at which drkit began."""
    target_end: int
    """Target offset at which drkit began."""
    found_behind: int
    """Records that MM2 copied after the offset that it stored."""
    committed: bool
    """MM2 left out what transactions aborted."""

    @classmethod
    def of(cls, raw: Any) -> Self:
        """Check JSON data. Raises Malformed."""
        fields = Fields(raw)
        return cls(
            fields.get("mm2_offset", optional(whole()), None),
            fields.get("resumed_at", whole()),
            fields.get("target_end", whole()),
            fields.get("found_behind", whole(), 0),
            fields.get("committed", flag, True),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "mm2_offset": self.mm2_offset, "resumed_at": self.resumed_at, "target_end": self.target_end,
            "found_behind": self.found_behind, "committed": self.committed,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class TakeoverRecord(TopicRecord):
    """From where a topic was taken over from MirrorMaker 2."""

    KEY: ClassVar[str] = "takeover/"

    source_id: UUID
    target_id: UUID
    partitions: Mapping[int, TakenOverPartition]

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        return cls(
            fields.get("source_id", uuid),
            fields.get("target_id", uuid),
            fields.get("partitions", mapping_of(digits, TakenOverPartition.of), {}),
        )

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        partitions = {str(number): p.to_json() for number, p in self.partitions.items()}
        return {"source_id": str(self.source_id), "target_id": str(self.target_id), "partitions": partitions}


@dataclass(frozen=True, slots=True)
class VerifiedRecord(Record):
    """Up to where a verification found a source partition and its copy equal."""

    KEY: ClassVar[str] = "verified/"
    REQUIRED: ClassVar[bool] = False

    source_id: UUID
    target_id: UUID
    source_offset: int
    target_offset: int
    at_ms: int

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        return cls(
            fields.get("source_id", uuid),
            fields.get("target_id", uuid),
            fields.get("source_offset", whole()),
            fields.get("target_offset", whole()),
            fields.get("at_ms", whole(), 0),
        )

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        return {
            "source_id": str(self.source_id), "target_id": str(self.target_id),
            "source_offset": self.source_offset, "target_offset": self.target_offset, "at_ms": self.at_ms,
        }  # fmt: skip

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`Record`."""
        partition_of(name)

    @staticmethod
    def name_of(partition: TopicPartition) -> str:
        """The name in the key for a source partition."""
        return f"{partition.topic}/{partition.partition}"


@dataclass(frozen=True, slots=True)
class EventRecord(Record):
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
    """What it tells besides; any JSON data."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
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
        """See :class:`Record`; an event of an ACL may have any name."""

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
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


def _role(value: Any) -> Role:
    try:
        return Role(text(32)(value))
    except ValueError:
        raise Malformed(f"one of {', '.join(Role)} was expected") from None
