"""What a flow keeps of records that only an old primary had: what was saved, decided, emptied, done. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from uuid import UUID

from drkit.flow_state.codec.body import record, stored
from drkit.flow_state.codec.fields import (
    digits,
    mapping_of,
    name,
    optional,
    prose,
    row,
    text,
    topic_name,
    uuid,
    whole,
)
from drkit.flow_state.codec.record import StateRecord, TopicRecord

_offsets = mapping_of(digits, whole())
_spans = mapping_of(digits, row(whole(), whole()))
_export_run = text(100, least=1)


@record
class TailRecord(TopicRecord):
    """What became of the records that only the old primary had, when it came home."""

    KEY: ClassVar[str] = "tail/"

    run_id: str = stored(name)
    """Of the return."""
    at_ms: int = stored(whole())
    records: int = stored(whole())
    spans: Mapping[int, tuple[int, ...]] = stored(_spans)
    """By partition: the offsets of these records on the old primary, half open."""
    manifest: str | None = stored(optional(prose), default=None, omit_none=True)
    """Where the manifest of their export is; None: there were none."""
    sha256: str | None = stored(optional(name), default=None, omit_none=True)
    """Of that manifest."""
    disposition: str | None = stored(optional(name), default=None, omit_none=True)
    """None until it is decided."""
    methods: Mapping[int, str] = stored(mapping_of(digits, name), default_factory=dict)
    """By partition: how its log was brought in step, where clients' records do not simply follow."""
    reason: str | None = stored(optional(prose), default=None, omit_none=True)
    by: str | None = stored(optional(prose), default=None, omit_none=True)
    """Who decided: user and host."""


@record
class IncompleteRecord(TopicRecord):
    """The old primary's topic was emptied, in a return that was aborted: nothing is copied to it."""

    KEY: ClassVar[str] = "incomplete/"

    run_id: str = stored(name)
    """Of the return."""
    since_ms: int = stored(whole())
    emptied: Mapping[int, int] = stored(_offsets)
    """By partition: the offset up to which it was emptied."""


@record
class UnreplayedRecord(StateRecord):
    """Records that only an export has: what was decided about them, and whether it is done.

    A return was to append them to the new primary and was aborted; or the old primary has lost them, and a
    return decides about the export. The name is that of the :class:`SavedTailRecord`.

    See :mod:`drkit.flow_state.unreplayed`.
    """

    KEY: ClassVar[str] = "unreplayed/"

    run_id: str = stored(name)
    """Of the return."""
    at_ms: int = stored(whole())
    """When it was aborted, or when it was decided."""
    records: int = stored(whole())
    manifest: str = stored(prose)
    """Where the export's manifest is."""
    sha256: str = stored(name)
    """Of that manifest."""
    disposition: str = stored(name)
    """What was decided."""
    ended: str | None = stored(optional(name), default=None, omit_none=True)
    """What became of them; None: nothing yet."""
    ended_ms: int | None = stored(optional(whole()), default=None, omit_none=True)
    reason: str | None = stored(optional(prose), default=None, omit_none=True)
    """Why they were given up."""
    by: str | None = stored(optional(prose), default=None, omit_none=True)
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


@record
class SavedTailRecord(StateRecord):
    """What one verified export has of one topic: records that only the old primary had then.

    Never replaced: another export has a record of its own. The old primary may lose the records later.
    """

    KEY: ClassVar[str] = "saved-tail/"

    run_id: str = stored(name)
    """Of the return."""
    at_ms: int = stored(whole())
    term: int = stored(whole())
    """Of the failover that promoted the topic."""
    topic_id: UUID = stored(uuid)
    """On the old primary."""
    spans: Mapping[int, tuple[int, ...]] = stored(_spans)
    """By partition: the offsets that were there and are exported, half open."""
    records: Mapping[int, int] = stored(_offsets)
    """By partition: how many records."""
    manifest: str = stored(prose)
    """Where the export's manifest is."""
    sha256: str = stored(name)
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
