"""The source's offsets at its last answer, used once the source is gone. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Self

from drkit.flow_state.codec.fields import (
    LONG,
    Fields,
    digits,
    mapping_of,
    name,
    optional,
    row,
    topic_name,
    whole,
)
from drkit.flow_state.codec.record import StateRecord
from drkit.model import TopicPartition

_TIMESTAMP: Final = whole(-LONG - 1)
"""A producer may set any, and -1 is a batch without timestamps."""
_HELD: Final = row(whole(), whole(), optional(_TIMESTAMP), optional(whole()))
_ENDS: Final = row(whole(), whole(), whole(), _HELD, least=2)


class NotedHeld(NamedTuple):
    """Records between the last stable offset and the high watermark."""

    records: int
    acknowledged: int
    oldest_ms: int | None
    """Timestamp of the oldest acknowledged one; None without one, or when it is not known."""
    bytes: int | None
    """None: not known."""


class NotedEnds(NamedTuple):
    """A partition's first and end offsets."""

    start: int
    end: int
    """Last stable offset."""
    high_watermark: int | None = None
    """None: not known, or written by a release that did not note it."""
    held: NotedHeld | None = None
    """None: it was not checked."""

    def to_json(self) -> list[Any]:
        """As JSON data: only as many values as are known."""
        if self.high_watermark is None:
            return [self.start, self.end]
        held = [] if self.held is None else [list(self.held)]
        return [self.start, self.end, self.high_watermark, *held]


@dataclass(frozen=True, slots=True)
class SourceSeenRecord(StateRecord):
    """First and end offsets of the source's partitions at its last answer."""

    KEY: ClassVar[str] = "source-seen"
    REQUIRED: ClassVar[bool] = False

    at_ms: int
    ends: Mapping[TopicPartition, NotedEnds]
    copied_ms: int | None = None
    """Everything older was copied then; None: not known, or written by a release that did not note it."""
    returns: Mapping[str, int] | None = None
    """Run of a turn → number of topics that were copied since it; None: written by a release that did not
    note it. Their names would make the note of a large flow too large for a record."""
    late: Mapping[str, int | None] | None = None
    """`copied_ms` of the topics that were furthest behind, a limited number; None: written by a release that
    did not note it, or a leader was away."""
    rest_ms: int | None = None
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

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Body`."""
        topics = fields.get("topics", mapping_of(topic_name, mapping_of(digits, _ENDS)))
        ends = {
            TopicPartition(topic, number): _noted(*values)
            for topic, partitions in topics.items()
            for number, values in partitions.items()
        }
        copied_ms = fields.get("copied_ms", optional(_TIMESTAMP), None)
        returns = fields.get("returns", optional(mapping_of(name, whole())), None)
        late = fields.get("late", optional(mapping_of(topic_name, optional(_TIMESTAMP))), None)
        rest_ms = fields.get("rest_ms", optional(_TIMESTAMP), None)
        return cls(fields.get("at_ms", whole()), ends, copied_ms, returns, late, rest_ms)

    def to_json(self) -> dict[str, Any]:
        """See :class:`Body`."""
        topics: dict[str, dict[str, list[Any]]] = {}
        for at, ends in self.ends.items():
            topics.setdefault(at.topic, {})[str(at.partition)] = ends.to_json()
        copied = {} if self.copied_ms is None else {"copied_ms": self.copied_ms}
        returns = {} if self.returns is None else {"returns": dict(self.returns)}
        late = {} if self.late is None else {"late": dict(self.late)}
        rest = {} if self.rest_ms is None else {"rest_ms": self.rest_ms}
        return {"at_ms": self.at_ms, "topics": topics, **copied, **returns, **late, **rest}


def _noted(
    start: int, end: int, high_watermark: int | None = None, held: tuple[Any, ...] | None = None
) -> NotedEnds:
    return NotedEnds(start, end, high_watermark, None if held is None else NotedHeld(*held))
