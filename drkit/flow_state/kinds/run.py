"""Records of a running flow: who runs it, with which producers, what it saw of the source last. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass, replace
import re
from typing import Annotated, Any, Final, NamedTuple, Self

from pydantic import Field, PlainSerializer, TypeAdapter

from drkit.flow_state.codec.fields import (
    SHORT,
    Count,
    Digits,
    Flag,
    Given,
    Int32,
    Malformed,
    Many,
    Map,
    Name,
    Omitted,
    Prose,
    Seconds,
    Short,
    ShortText,
    Timestamp,
    TopicId,
    TopicName,
    checked,
    digits,
    listed,
    row,
    whole,
)
from drkit.flow_state.codec.record import Body, StateRecord, state_record
from drkit.kafka.transactions import ProducerIdentity
from drkit.model import TopicPartition

_TTL_MS: Final = 15_000
_DAY_MS: Final = 86_400_000
Lifetime = Annotated[int, whole(0, _DAY_MS)]
_RUN: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)


@state_record("control", required=False)
class ControlRecord(StateRecord):
    """What the driver asks of its tasks: ``run`` under a newer plan, or ``stop``."""

    run_id: Name
    plan: Annotated[Count, Field(default=0)]
    action: Name


@dataclass(frozen=True, slots=True)
class Process(Body):
    """A process, with what is needed to check on its machine whether it is alive."""

    host: ShortText
    pid: Count
    space: ShortText = ""
    """Boot id and pid namespace, within which the pid is valid; empty: unknown."""
    born: Count | None = None
    """Clock ticks from the boot to its start."""


_NO_PROCESS: Final = Process("", 0)


@state_record("lease", required=False)
class LeaseRecord(StateRecord):
    """The run that copies the flow, and when it last renewed its lease."""

    run_id: Name
    holder: Process
    renewed_ms: Count
    ttl_ms: Lifetime = _TTL_MS
    """The lease expires after this time without a renewal."""
    spark_session: Omitted[Count] = None
    """The session of Spark's processes on the holder's machine: its workers outlive it for a moment."""

    @classmethod
    def of(cls, raw: Any) -> Self:
        """Return the record; the fields of its holder are among its own."""
        fields = {**raw, "holder": _NO_PROCESS} if isinstance(raw, dict) else raw
        found = super(LeaseRecord, cls).of(fields)  # noqa: UP008  a class with slots replaces the first one
        return replace(found, holder=Process.of(raw))

    def to_json(self) -> dict[str, Any]:
        """Return the fields, those of the holder among them."""
        found = Body.to_json(self)
        return {"run_id": found.pop("run_id"), **found.pop("holder"), **found}

    def age_ms(self, now_ms: int) -> int:
        """Milliseconds since the last renewal, 0 when it is dated in the future."""
        return max(0, now_ms - self.renewed_ms)

    def is_fresh(self, now_ms: int) -> bool:
        """Whether it was renewed within its time."""
        return self.age_ms(now_ms) <= self.ttl_ms


@state_record("configuration", required=False)
class ConfigurationRecord(StateRecord):
    """The configuration of the flow's last replicator, which is kept when its lease ends."""

    parts: Map[Name, Name]
    """Part → fingerprint."""

    def differences(self, own: Mapping[str, str]) -> tuple[str, ...]:
        """Return the parts of another configuration that are not the same."""
        return tuple(part for part, value in own.items() if self.parts.get(part, value) != value)


@state_record("standby/", required=False)
class StandbyRecord(StateRecord):
    """A process that waits for the lease; the name in the key is its run.

    It is the only record that a process without the lease writes, and only about itself.
    """

    process: Process
    since_ms: Count
    renewed_ms: Count
    ttl_ms: Lifetime
    """The standby is considered gone after this time without a renewal."""
    ready: Flag
    reason: Prose = ""
    """Why it is not ready."""

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`."""
        if not _RUN.fullmatch(name):
            raise Malformed("the id of a run was expected")

    def age_ms(self, now_ms: int) -> int:
        """Milliseconds since the last renewal, 0 when it is dated in the future."""
        return max(0, now_ms - self.renewed_ms)


@state_record("producer-ids")
class ProducerIdsRecord(StateRecord):
    """The current producer id of live mode, and all earlier ones."""

    current: Annotated[ProducerIdentity, row(Annotated[tuple[Count, Short], listed(2)], ProducerIdentity)]
    ids: Annotated[Many[Count], Field(alias="all")]


@state_record("producer-ids/bulk/")
class BulkProducerRecord(StateRecord):
    """The bucket that a producer id of bulk mode writes; the id is the name in the key.

    Each id has a key of its own: two tasks that find new ids at the same moment overwrite nothing.
    """

    bucket: Int32

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`."""
        digits(name)


@state_record("offset-map")
class OffsetMapRecord(StateRecord):
    """The id of the offset map by which topics were copied."""

    topic_id: TopicId


@state_record("flow")
class ClustersRecord(StateRecord):
    """Ids of the clusters between which the flow runs; aliases differ from one configuration to another."""

    source: Name
    target: Name


@state_record("former-sources")
class FormerSourcesRecord(StateRecord):
    """Ids of clusters that were the flow's source until another took their place: their exports stay."""

    ids: Many[Name]

    @classmethod
    def after(cls, known: FormerSourcesRecord | None, source: str) -> FormerSourcesRecord:
        """The record when another cluster takes the place of a source.

        :param known: the record of before
        """
        ids = known.ids if known is not None else ()
        return cls((*ids, source)) if source not in ids else cls(ids)


@state_record("speed", required=False)
class SpeedRecord(StateRecord):
    """The fastest epoch lately in which the flow was behind all the time: what it is able to copy."""

    at_ms: Count
    bytes: Count
    seconds: Seconds
    """Seconds in which records arrived on the target."""

    @property
    def bytes_per_second(self) -> float:
        """Bytes of all tasks together, per second."""
        return self.bytes / self.seconds if self.seconds > 0 else 0.0


@state_record("skips")
class SkipsRecord(StateRecord):
    """Producer ids on the source that all tasks leave out: an opposite flow wrote with them."""

    ids: Many[Count]
    writes_for_ms: Count = 0
    """How long a task of the flow may write after its last sign of life."""


@dataclass(frozen=True, slots=True)
class NotSynchronised(Body):
    """Groups that the flow's filter accepts and that are not consumer groups."""

    total: Count
    shown: Map[Prose, Prose]
    """The first ones by name, each with its protocol type."""


@state_record("control-key", required=False)
class ControlKeyRecord(StateRecord):
    """All records of this flow have a MAC of the control key: one without was written by others."""

    at_ms: Count
    fingerprint: Name
    """Of the key that signed then."""


@state_record("checkpoints", required=False)
class CheckpointsRecord(StateRecord):
    """The last checkpoint round in short."""

    at_ms: Count
    ok_ms: Count = 0
    """When a round last read every group that drkit may read; 0: never."""
    groups: Count = 0
    looked_at: Count = 0
    positions: Count = 0
    emitted: Count = 0
    verdicts: Given[Map[Prose, Count]] = None
    """None: no round has ended yet."""
    refused: Many[Annotated[tuple[Prose, Prose, Prose, Prose], listed(4)]] = ()
    """Group, partition, verdict and reason of some positions that were not written."""
    unread: Given[Map[Prose, Annotated[int, whole(-SHORT - 1, SHORT)]]] = None
    """Groups whose offsets the source did not return, and the error code: Kafka's, or a client's own one,
    such as for no answer, which is negative."""
    not_synchronised: Given[NotSynchronised] = None
    """None: written by a release that did not look for them."""
    seconds: Seconds | None = None
    error: Prose = ""
    """Why the round failed, for all groups or for some; empty: it did not."""

    def age_seconds(self, now_ms: int) -> float | None:
        """Seconds since a round last ended well; None: none ever did."""
        return max(0, now_ms - self.ok_ms) / 1000 if self.ok_ms else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields; before the first round has ended there is only the time."""
        if self.verdicts is None:
            return {"at_ms": self.at_ms}
        return Body.to_json(replace(self, unread=self.unread or {}))


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Records between the last stable offset and the high watermark: not copied until a transaction ends."""

    records: int
    """Upper bound."""
    acknowledged: int = 0
    """Of `records`: those not known to belong to an undecided transaction; their producers got an
    acknowledgement."""
    oldest_ms: int | None = None
    """Timestamp of the oldest acknowledged record; None without one, or when unknown."""
    bytes: int | None = 0
    """Size of the batches, or None if unknown."""


NOTHING_HELD: Final = HeldBack(0)
_HELD: Final = Annotated[tuple[Count, Count, Timestamp | None, Count | None], listed(4)]


class Ends(NamedTuple):
    """Begin and end of a partition."""

    start: Count
    end: Count
    """Last stable offset."""
    high_watermark: Annotated[int | None, whole()] = None
    """At least `end`, or None if unknown, or noted by a release that did not ask."""
    held: Annotated[HeldBack | None, row(_HELD, HeldBack)] = None
    """Records between the two, or None if they were not read."""
    copied: Annotated[int | None, whole()] = None
    """First offset that was certainly not on the target when the ends were noted, or None if not noted."""
    missing_ms: Annotated[int | None, whole()] = None
    """Timestamp of the oldest record that a failover would have lost, 0 if unknown, or None without one."""

    def to_json(self) -> list[Any]:
        """Return the values up to the last one that is known."""
        known = self[: max(2, *(1 + i for i, value in enumerate(self) if value is not None))]
        return [list(astuple(value)) if isinstance(value, HeldBack) else value for value in known]

    def dropped(self, frontier: int) -> int:
        """Return how many offsets were copied when these ends were noted, and are not on the target now."""
        return max(0, (self.copied or 0) - frontier)

    @property
    def held_offsets(self) -> int:
        """Offsets between the last stable offset and the high watermark."""
        return max(0, (self.high_watermark or 0) - self.end)

    def held_from(self, frontier: int | None) -> HeldBack:
        """Return the records that an open transaction holds back and the target does not have.

        :param frontier: first offset that is not copied, or None if unknown
        """
        most = self.held_offsets
        if frontier is not None and frontier > self.end:  # what was held back then has been copied since
            most = max(0, (self.high_watermark or 0) - frontier)
        if not most:
            return NOTHING_HELD
        held = self.held or HeldBack(most, most, None, None)
        return replace(held, records=min(held.records, most), acknowledged=min(held.acknowledged, most))


_topics: Final = TypeAdapter[Any](Map[TopicName, Map[Digits, Annotated[Ends, listed(2, 6)]]])


def _read(value: Any) -> dict[TopicPartition, Ends]:
    topics = _topics.validate_python(value)
    return {TopicPartition(t, p): ends for t, partitions in topics.items() for p, ends in partitions.items()}


def _write(ends: Mapping[TopicPartition, Ends]) -> dict[str, dict[str, list[Any]]]:
    topics: dict[str, dict[str, list[Any]]] = {}
    for at, each in ends.items():
        topics.setdefault(at.topic, {})[str(at.partition)] = each.to_json()
    return topics


@state_record("source-seen", required=False)
class SourceSeenRecord(StateRecord):
    """First and end offsets of the source's partitions at its last answer."""

    at_ms: Count
    ends: Annotated[
        Mapping[TopicPartition, Ends], checked(_read), PlainSerializer(_write), Field(alias="topics")
    ]
    copied_ms: Omitted[Timestamp] = None
    """Everything older was copied then; None if unknown, or from a release that did not note it."""
    returns: Omitted[Map[Name, Count]] = None
    """Run of a turn → number of topics that were copied since it; None: written by a release that did not
    note it. Their names would make the note of a large flow too large for a record."""

    def copied_of(self, topics: Collection[str]) -> int | None:
        """Return the time before which everything in some topics was copied, or None if unknown.

        Of a topic that is not in the note the time of the whole flow counts, which no other exceeds.
        """
        noted = {at: ends for at, ends in self.ends.items() if at.topic in topics and ends.copied is not None}
        if not topics or not {at.topic for at in noted}.issuperset(topics):
            return self.copied_ms
        oldest = min((e.missing_ms for e in noted.values() if e.missing_ms is not None), default=self.at_ms)
        return oldest or None
