"""The source's offsets at its last answer, used once the source is gone. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, NamedTuple

from pydantic import Field, PlainSerializer, TypeAdapter

from drkit.flow_state.codec.fields import (
    Count,
    Digits,
    Map,
    Name,
    Omitted,
    Timestamp,
    TopicName,
    checked,
    listed,
    whole,
)
from drkit.flow_state.codec.record import StateRecord
from drkit.model import TopicPartition


class NotedHeld(NamedTuple):
    """Records between the last stable offset and the high watermark."""

    records: Count
    acknowledged: Count
    oldest_ms: Timestamp | None
    """Timestamp of the oldest acknowledged one; None without one, or when it is not known."""
    bytes: Count | None
    """None: not known."""


class NotedEnds(NamedTuple):
    """A partition's first and end offsets."""

    start: Count
    end: Count
    """Last stable offset."""
    high_watermark: Annotated[int | None, whole()] = None
    """None: not known, or written by a release that did not note it."""
    held: Annotated[NotedHeld | None, listed(4)] = None
    """None: it was not checked."""

    def to_json(self) -> list[Any]:
        """As JSON data: only as many values as are known."""
        if self.high_watermark is None:
            return [self.start, self.end]
        held = [] if self.held is None else [list(self.held)]
        return [self.start, self.end, self.high_watermark, *held]


_topics: Final = TypeAdapter[Any](Map[TopicName, Map[Digits, Annotated[NotedEnds, listed(2, 4)]]])


def _read(value: Any) -> dict[TopicPartition, NotedEnds]:
    topics = _topics.validate_python(value)
    return {TopicPartition(t, p): ends for t, partitions in topics.items() for p, ends in partitions.items()}


def _write(ends: Mapping[TopicPartition, NotedEnds]) -> dict[str, dict[str, list[Any]]]:
    topics: dict[str, dict[str, list[Any]]] = {}
    for at, each in ends.items():
        topics.setdefault(at.topic, {})[str(at.partition)] = each.to_json()
    return topics


@dataclass(frozen=True, slots=True)
class SourceSeenRecord(StateRecord):
    """First and end offsets of the source's partitions at its last answer."""

    KEY: ClassVar[str] = "source-seen"
    REQUIRED: ClassVar[bool] = False

    at_ms: Count
    ends: Annotated[
        Mapping[TopicPartition, NotedEnds],
        checked(_read),
        PlainSerializer(_write),
        Field(alias="topics"),
    ]
    copied_ms: Omitted[Timestamp] = None
    """Everything older was copied then; None: not known, or written by a release that did not note it."""
    returns: Omitted[Map[Name, Count]] = None
    """Run of a turn → number of topics that were copied since it; None: written by a release that did not
    note it. Their names would make the note of a large flow too large for a record."""
    late: Omitted[Map[TopicName, Timestamp | None]] = None
    """`copied_ms` of the topics that were furthest behind, a limited number; None: written by a release that
    did not note it, or a leader was away."""
    rest_ms: Omitted[Timestamp] = None
    """`copied_ms` of all topics that are not among `late`; None: not known."""

    def copied_of(self, topics: Collection[str]) -> int | None:
        """Time before which everything in some topics was copied; None: not known.

        Of a topic that is not in the note the time of the whole flow counts, which no other exceeds.
        """
        if self.late is None or not topics or not {at.topic for at in self.ends}.issuperset(topics):
            return self.copied_ms
        times = [self.late.get(topic, self.rest_ms) for topic in topics]
        known = [t for t in times if t is not None]
        return min(known) if len(known) == len(times) else None
