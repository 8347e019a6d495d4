"""What a flow keeps of records that only an old primary had: what was saved, decided, emptied, done. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from drkit.flow_state.codec.fields import (
    Count,
    Digits,
    Map,
    Name,
    Omitted,
    Prose,
    TopicId,
    listed,
    text,
    topic_name,
)
from drkit.flow_state.codec.record import StateRecord, TopicRecord

Offsets = Map[Digits, Count]
"""By partition."""
_Spans = Map[Digits, Annotated[tuple[Count, Count], listed(2)]]
_export_run: Final = text(100, least=1)


@dataclass(frozen=True, slots=True)
class TailRecord(TopicRecord):
    """What became of the records that only the old primary had, when it came home."""

    KEY: ClassVar[str] = "tail/"

    run_id: Name
    """Of the return."""
    at_ms: Count
    records: Count
    spans: _Spans
    """By partition: the offsets of these records on the old primary, half open."""
    manifest: Omitted[Prose] = None
    """Where the manifest of their export is; None: there were none."""
    sha256: Omitted[Name] = None
    """Of that manifest."""
    disposition: Omitted[Name] = None
    """None until it is decided."""
    methods: Map[Digits, Name] = field(default_factory=dict)
    """By partition: how its log was brought in step, where clients' records do not simply follow."""
    reason: Omitted[Prose] = None
    by: Omitted[Prose] = None
    """Who decided: user and host."""


@dataclass(frozen=True, slots=True)
class IncompleteRecord(TopicRecord):
    """The old primary's topic was emptied, in a return that was aborted: nothing is copied to it."""

    KEY: ClassVar[str] = "incomplete/"

    run_id: Name
    """Of the return."""
    since_ms: Count
    emptied: Offsets
    """By partition: the offset up to which it was emptied."""


@dataclass(frozen=True, slots=True)
class UnreplayedRecord(StateRecord):
    """Records that only an export has: what was decided about them, and whether it is done.

    A return was to append them to the new primary and was aborted; or the old primary has lost them, and a
    return decides about the export. The name is that of the :class:`SavedTailRecord`.

    See :mod:`drkit.flow_state.unreplayed`.
    """

    KEY: ClassVar[str] = "unreplayed/"

    run_id: Name
    """Of the return."""
    at_ms: Count
    """When it was aborted, or when it was decided."""
    records: Count
    manifest: Prose
    """Where the export's manifest is."""
    sha256: Name
    """Of that manifest."""
    disposition: Name
    """What was decided."""
    ended: Omitted[Name] = None
    """What became of them; None: nothing yet."""
    ended_ms: Omitted[Count] = None
    reason: Omitted[Prose] = None
    """Why they were given up."""
    by: Omitted[Prose] = None
    """Who ended it: user and host."""

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`."""
        topic, _, run = name.rpartition("/")
        topic_name(topic)
        _export_run(run)

    @staticmethod
    def name_of(topic: str, run: str) -> str:
        """The name in the key.

        :param topic: on the old primary
        :param run: of the export
        """
        return f"{topic}/{run}"


@dataclass(frozen=True, slots=True)
class SavedTailRecord(StateRecord):
    """What one verified export has of one topic: records that only the old primary had then.

    Never replaced: another export has a record of its own. The old primary may lose the records later.
    """

    KEY: ClassVar[str] = "saved-tail/"

    run_id: Name
    """Of the return."""
    at_ms: Count
    term: Count
    """Of the failover that promoted the topic."""
    topic_id: TopicId
    """On the old primary."""
    spans: _Spans
    """By partition: the offsets that were there and are exported, half open."""
    records: Offsets
    """By partition: how many records."""
    manifest: Prose
    """Where the export's manifest is."""
    sha256: Name
    """Of that manifest."""

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`."""
        UnreplayedRecord.check_name(name)

    def has_all_of(self, other: SavedTailRecord) -> bool:
        """Whether every record of another export of the same topic is in this one, too."""
        return (self.term, self.topic_id) == (other.term, other.topic_id) and all(
            p in self.spans
            and self.spans[p][0] <= first
            and end <= self.spans[p][1]
            and self.records[p] >= other.records[p]
            for p, (first, end) in other.spans.items()
        )
