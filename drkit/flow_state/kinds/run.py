"""Records of a running flow: who runs it, with which producers, between which clusters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
import re
from typing import Any, ClassVar, Final, Self
from uuid import UUID

from drkit.flow_state.codec.body import Body, record, stored
from drkit.flow_state.codec.fields import (
    SHORT,
    Fields,
    Malformed,
    digits,
    flag,
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
from drkit.flow_state.codec.record import StateRecord
from drkit.kafka.transactions import ProducerIdentity

_TTL_MS: Final = 15_000
_DAY_MS: Final = 86_400_000
_RUN: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)


def _identity(value: Any) -> ProducerIdentity:
    return ProducerIdentity(*row(whole(), whole(0, SHORT))(value))


@record
class ControlRecord(StateRecord):
    """What the driver asks of its tasks: ``run`` under a newer plan, or ``stop``."""

    KEY: ClassVar[str] = "control"
    REQUIRED: ClassVar[bool] = False

    run_id: str = stored(name)
    plan: int = stored(whole(), missing=0)
    action: str = stored(name)


@record
class Process(Body):
    """A process, with what is needed to check on its machine whether it is alive."""

    host: str = stored(text(1024))
    pid: int = stored(whole())
    space: str = stored(text(1024), missing="")
    """Boot id and pid namespace, within which the pid is valid; empty: unknown."""
    born: int | None = stored(optional(whole()), missing=None)
    """Clock ticks from the boot to its start."""


@dataclass(frozen=True, slots=True)
class LeaseRecord(StateRecord):
    """The run that copies the flow, and when it last renewed its lease."""

    KEY: ClassVar[str] = "lease"
    REQUIRED: ClassVar[bool] = False

    run_id: str
    holder: Process
    renewed_ms: int
    ttl_ms: int
    """The lease expires after this time without a renewal."""
    spark_session: int | None = None
    """The session of Spark's processes on the holder's machine: its workers outlive it for a moment."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Body`."""
        return cls(
            fields.get("run_id", name),
            Process.read(fields),
            fields.get("renewed_ms", whole()),
            fields.get("ttl_ms", whole(0, _DAY_MS), _TTL_MS),
            fields.get("spark_session", optional(whole()), None),
        )

    def to_json(self) -> dict[str, Any]:
        """See :class:`Body`."""
        holder = self.holder.to_json()
        told = {"run_id": self.run_id, **holder, "renewed_ms": self.renewed_ms, "ttl_ms": self.ttl_ms}
        return told if self.spark_session is None else {**told, "spark_session": self.spark_session}

    def age_ms(self, now_ms: int) -> int:
        """Milliseconds since the last renewal, 0 when it is dated in the future."""
        return max(0, now_ms - self.renewed_ms)

    def is_fresh(self, now_ms: int) -> bool:
        """Whether it was renewed within its time."""
        return self.age_ms(now_ms) <= self.ttl_ms


@record
class StandbyRecord(StateRecord):
    """A process that waits for the lease; the name in the key is its run.

    It is the only record that a process without the lease writes, and only about itself.
    """

    KEY: ClassVar[str] = "standby/"
    REQUIRED: ClassVar[bool] = False

    process: Process = stored(Process.of)
    since_ms: int = stored(whole())
    renewed_ms: int = stored(whole())
    ttl_ms: int = stored(whole(0, _DAY_MS))
    """The standby is considered gone after this time without a renewal."""
    ready: bool = stored(flag)
    reason: str = stored(prose, default="")
    """Why it is not ready."""

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`."""
        if not _RUN.fullmatch(name):
            raise Malformed("the id of a run was expected")

    def age_ms(self, now_ms: int) -> int:
        """Milliseconds since the last renewal, 0 when it is dated in the future."""
        return max(0, now_ms - self.renewed_ms)


@record
class ProducerIdsRecord(StateRecord):
    """The current producer id of live mode, and all earlier ones."""

    KEY: ClassVar[str] = "producer-ids"

    current: ProducerIdentity = stored(_identity)
    ids: tuple[int, ...] = stored(tuple_of(whole()), key="all")


@record
class BulkProducerRecord(StateRecord):
    """The bucket that a producer id of bulk mode writes; the id is the name in the key.

    Each id has a key of its own: two tasks that find new ids at the same moment overwrite nothing.
    """

    KEY: ClassVar[str] = "producer-ids/bulk/"

    bucket: int = stored(whole(0, 2**31 - 1))

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`."""
        digits(name)


@record
class OffsetMapRecord(StateRecord):
    """The id of the offset map by which topics were copied."""

    KEY: ClassVar[str] = "offset-map"

    topic_id: UUID = stored(uuid)


@record
class ClustersRecord(StateRecord):
    """Ids of the clusters between which the flow runs; aliases differ from one configuration to another."""

    KEY: ClassVar[str] = "flow"

    source: str = stored(name)
    target: str = stored(name)


@record
class FormerSourcesRecord(StateRecord):
    """Ids of clusters that were the flow's source until another took their place: their exports stay."""

    KEY: ClassVar[str] = "former-sources"

    ids: tuple[str, ...] = stored(tuple_of(name))

    @classmethod
    def after(cls, known: FormerSourcesRecord | None, source: str) -> FormerSourcesRecord:
        """The record when another cluster takes the place of a source.

        :param known: the record of before
        """
        ids = known.ids if known is not None else ()
        return cls((*ids, source)) if source not in ids else cls(ids)


@record
class SpeedRecord(StateRecord):
    """The fastest epoch lately in which the flow was behind all the time: what it is able to copy."""

    KEY: ClassVar[str] = "speed"
    REQUIRED: ClassVar[bool] = False

    at_ms: int = stored(whole())
    bytes: int = stored(whole())
    seconds: float = stored(seconds)
    """Seconds in which records arrived on the target."""

    @property
    def bytes_per_second(self) -> float:
        """Bytes of all tasks together, per second."""
        return self.bytes / self.seconds if self.seconds > 0 else 0.0


@record
class SkipsRecord(StateRecord):
    """Producer ids on the source that all tasks leave out: an opposite flow wrote with them."""

    KEY: ClassVar[str] = "skips"

    ids: tuple[int, ...] = stored(tuple_of(whole()))
    writes_for_ms: int = stored(whole(), missing=0)
    """How long a task of the flow may write after its last sign of life."""


@record
class NotSynchronised(Body):
    """Groups that the flow's filter accepts and that are not consumer groups."""

    total: int = stored(whole())
    shown: Mapping[str, str] = stored(mapping_of(text(), text()))
    """The first ones by name, each with its protocol type."""


_counts: Final = mapping_of(text(), whole())
_codes: Final = mapping_of(text(), whole(-SHORT - 1, SHORT))
"""Kafka's error codes; a client's own ones, such as for no answer, are negative."""
_position: Final = row(text(), text(), text(), prose)


def _refused(value: Any) -> tuple[tuple[str, str, str, str], ...]:
    return tuple((g, at, verdict, why) for g, at, verdict, why in tuple_of(_position)(value))


@record
class ControlKeyRecord(StateRecord):
    """All records of this flow have a MAC of the control key: one without was written by others."""

    KEY: ClassVar[str] = "control-key"
    REQUIRED: ClassVar[bool] = False

    at_ms: int = stored(whole())
    fingerprint: str = stored(name)
    """Of the key that signed then."""


@record
class CheckpointsRecord(StateRecord):
    """The last checkpoint round in short."""

    KEY: ClassVar[str] = "checkpoints"
    REQUIRED: ClassVar[bool] = False

    at_ms: int = stored(whole())
    ok_ms: int = stored(whole(), default=0)
    """When a round last read every group that drkit may read; 0: never."""
    groups: int = stored(whole(), default=0)
    looked_at: int = stored(whole(), default=0)
    positions: int = stored(whole(), default=0)
    emitted: int = stored(whole(), default=0)
    verdicts: Mapping[str, int] | None = stored(_counts, default=None)
    """None: no round has ended yet."""
    refused: tuple[tuple[str, str, str, str], ...] = stored(_refused, default=())
    """Group, partition, verdict and reason of some positions that were not written."""
    unread: Mapping[str, int] | None = stored(_codes, default=None)
    """Groups whose offsets the source did not return, and the error code."""
    not_synchronised: NotSynchronised | None = stored(NotSynchronised.of, default=None, omit_none=True)
    """None: written by a release that did not look for them."""
    seconds: float | None = stored(optional(seconds), default=None)
    error: str = stored(prose, default="")
    """Why the round failed, for all groups or for some; empty: it did not."""

    def age_seconds(self, now_ms: int) -> float | None:
        """Seconds since a round last ended well; None: none ever did."""
        return max(0, now_ms - self.ok_ms) / 1000 if self.ok_ms else None

    def to_json(self) -> dict[str, Any]:
        """See :class:`Body`; before the first round has ended there is only the time."""
        if self.verdicts is None:
            return {"at_ms": self.at_ms}
        return Body.to_json(replace(self, unread=self.unread or {}))
