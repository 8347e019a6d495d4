"""What a running flow keeps of itself: who runs it, with which producers, between which clusters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Self
from uuid import UUID

from drkit.flow_state.fields import (
    SHORT,
    Fields,
    digits,
    mapping_of,
    name,
    optional,
    prose,
    row,
    seconds,
    text,
    tuple_of,
    uuid,
    whole,
)
from drkit.flow_state.record import Record
from drkit.kafka.transactions import ProducerIdentity

_TTL_MS: Final = 15_000
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class ControlRecord(Record):
    """What the driver asks of its tasks: ``run`` under a newer plan, or ``stop``."""

    KEY: ClassVar[str] = "control"
    REQUIRED: ClassVar[bool] = False

    run_id: str
    plan: int
    action: str

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        return cls(fields.get("run_id", name), fields.get("plan", whole(), 0), fields.get("action", name))

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        return {"run_id": self.run_id, "plan": self.plan, "action": self.action}


@dataclass(frozen=True, slots=True)
class Process:
    """A process, known well enough to see on its machine whether it lives."""

    host: str
    pid: int
    space: str
    """Boot id and pid namespace, within which the pid means something; empty: not known."""
    born: int | None
    """Clock ticks from the boot to its start."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """The process in these fields. Raises Malformed."""
        born = fields.get("born", optional(whole()), None)
        return cls(
            fields.get("host", text(1024)),
            fields.get("pid", whole()),
            fields.get("space", text(1024), ""),
            born,
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {"host": self.host, "pid": self.pid, "space": self.space, "born": self.born}


@dataclass(frozen=True, slots=True)
class LeaseRecord(Record):
    """Which run copies the flow, and when it said so last."""

    KEY: ClassVar[str] = "lease"
    REQUIRED: ClassVar[bool] = False

    run_id: str
    holder: Process
    renewed_ms: int
    ttl_ms: int
    """Without a renewal for so long it is over."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        return cls(
            fields.get("run_id", name),
            Process.read(fields),
            fields.get("renewed_ms", whole()),
            fields.get("ttl_ms", whole(0, _DAY_MS), _TTL_MS),
        )

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        holder = self.holder.to_json()
        return {"run_id": self.run_id, **holder, "renewed_ms": self.renewed_ms, "ttl_ms": self.ttl_ms}

    def age_ms(self, now_ms: int) -> int:
        """Milliseconds since the last renewal, 0 when it is dated in the future."""
        return max(0, now_ms - self.renewed_ms)

    def is_fresh(self, now_ms: int) -> bool:
        """Whether it was renewed within its time."""
        return self.age_ms(now_ms) <= self.ttl_ms


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord(Record):
    """The producer id of live mode, and all that ever were."""

    KEY: ClassVar[str] = "producer-ids"

    current: ProducerIdentity
    ids: tuple[int, ...]

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        current = ProducerIdentity(*fields.get("current", row(whole(), whole(0, SHORT))))
        return cls(current, fields.get("all", tuple_of(whole())))

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        return {"current": list(self.current), "all": list(self.ids)}


@dataclass(frozen=True, slots=True)
class BulkProducerRecord(Record):
    """The bucket that a producer id of bulk mode writes; the id is the name in the key.

    Each id has a key of its own: two tasks that find new ids at the same moment overwrite nothing.
    """

    KEY: ClassVar[str] = "producer-ids/bulk/"

    bucket: int

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        return cls(fields.get("bucket", whole(0, 2**31 - 1)))

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`Record`."""
        digits(name)

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        return {"bucket": self.bucket}


@dataclass(frozen=True, slots=True)
class OffsetMapRecord(Record):
    """The id of the offset map by which topics were copied."""

    KEY: ClassVar[str] = "offset-map"

    topic_id: UUID

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        return cls(fields.get("topic_id", uuid))

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        return {"topic_id": str(self.topic_id)}


@dataclass(frozen=True, slots=True)
class ClustersRecord(Record):
    """Ids of the clusters between which the flow runs; aliases differ from one configuration to another."""

    KEY: ClassVar[str] = "flow"

    source: str
    target: str

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        return cls(fields.get("source", name), fields.get("target", name))

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        return {"source": self.source, "target": self.target}


@dataclass(frozen=True, slots=True)
class SkipsRecord(Record):
    """Producer ids on the source that all tasks leave out: an opposite flow wrote with them."""

    KEY: ClassVar[str] = "skips"

    ids: tuple[int, ...]
    writes_for_ms: int
    """A task of the flow may write for so long after it was last heard of."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        return cls(fields.get("ids", tuple_of(whole())), fields.get("writes_for_ms", whole(), 0))

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        return {"ids": list(self.ids), "writes_for_ms": self.writes_for_ms}


class NotSynchronised(NamedTuple):
    """Groups that the flow's filter accepts and that are not consumer groups."""

    total: int
    shown: Mapping[str, str]
    """The first ones by name, each with its protocol type."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """The groups in these fields. Raises Malformed."""
        return cls(fields.get("total", whole()), fields.get("shown", mapping_of(text(), text())))

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {"total": self.total, "shown": dict(self.shown)}


@dataclass(frozen=True, slots=True)
class CheckpointsRecord(Record):
    """The last checkpoint round in short."""

    KEY: ClassVar[str] = "checkpoints"
    REQUIRED: ClassVar[bool] = False

    at_ms: int
    ok_ms: int = 0
    """When a round ended well last; 0: never."""
    groups: int = 0
    looked_at: int = 0
    positions: int = 0
    emitted: int = 0
    verdicts: Mapping[str, int] | None = None
    """None: no round has ended yet."""
    refused: tuple[tuple[str, str, str, str], ...] = ()
    """Group, partition, verdict and reason of some positions that were not written."""
    unread: Mapping[str, int] | None = None
    not_synchronised: NotSynchronised | None = None
    """None: written by a release that did not look for them."""
    seconds: float | None = None
    error: str = ""
    """Why the round broke off; empty: it did not."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Record`."""
        counts = mapping_of(text(), whole())
        refused = fields.get("refused", tuple_of(row(text(), text(), text(), prose)), ())
        return cls(
            fields.get("at_ms", whole()), fields.get("ok_ms", whole(), 0), fields.get("groups", whole(), 0),
            fields.get("looked_at", whole(), 0), fields.get("positions", whole(), 0),
            fields.get("emitted", whole(), 0), fields.get("verdicts", counts, None),
            tuple((g, at, verdict, why) for g, at, verdict, why in refused),
            fields.get("unread", counts, None),
            fields.get("not_synchronised", lambda raw: NotSynchronised.read(Fields(raw)), None),
            fields.get("seconds", optional(seconds), None),
            fields.get("error", prose, ""),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """See :class:`Record`."""
        if self.verdicts is None:
            return {"at_ms": self.at_ms}
        others = self.not_synchronised
        return {
            "at_ms": self.at_ms, "ok_ms": self.ok_ms, "groups": self.groups, "looked_at": self.looked_at,
            "positions": self.positions, "emitted": self.emitted, "verdicts": dict(self.verdicts),
            "refused": [list(line) for line in self.refused], "unread": dict(self.unread or {}),
            **({} if others is None else {"not_synchronised": others.to_json()}),
            "seconds": self.seconds, "error": self.error,
        }  # fmt: skip
