"""Records of a failback: where copying began, other writers, what only an old primary had. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from drkit.flow_state.codec.fields import (
    Count,
    Digits,
    Flag,
    Many,
    Map,
    Name,
    Omitted,
    Prose,
    TopicId,
    listed,
    text,
    topic_name,
    whole,
)
from drkit.flow_state.codec.record import Body, PartitionRecord, StateRecord, TopicRecord, state_record
from drkit.offsets.crossing import Crossing

Offsets = Map[Digits, Count]
"""By partition."""
_Spans = Map[Digits, Annotated[tuple[Count, Count], listed(2)]]
_export_run: Final = text(100, least=1)


@state_record("tail/")
class TailRecord(TopicRecord):
    """The outcome of the records that only the old primary had, after its failback."""

    run_id: Name
    """Of the return."""
    at_ms: Count
    records: Count
    spans: _Spans
    """By partition: the offsets of these records on the old primary, half open."""
    manifest: Omitted[Prose] = None
    """Location of the manifest of their export, or None if there were none."""
    sha256: Omitted[Name] = None
    """Of that manifest."""
    disposition: Omitted[Name] = None
    """None until it is decided."""
    methods: Map[Digits, Name] = field(default_factory=dict)
    """By partition: how its log was brought in step, where clients' records do not simply follow."""
    reason: Omitted[Prose] = None
    by: Omitted[Prose] = None
    """Who decided: user and host."""


@state_record("incomplete/")
class IncompleteRecord(TopicRecord):
    """The old primary's topic was emptied, in a return that was aborted: nothing is copied to it."""

    run_id: Name
    """Of the return."""
    since_ms: Count
    emptied: Offsets
    """By partition: the offset up to which it was emptied."""


@state_record("unreplayed/")
class UnreplayedRecord(StateRecord):
    """Records that only an export has: what was decided about them, and whether it is done.

    A return was to append them to the new primary and was aborted; or the old primary has lost them, and a
    return decides about the export. The name is that of the :class:`SavedTailRecord`.

    See :mod:`drkit.flow_state.unreplayed`.
    """

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
    """Their outcome, or None if it is open."""
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


@state_record("saved-tail/")
class SavedTailRecord(StateRecord):
    """The records of one topic in one verified export: only the old primary had them then.

    Never replaced: another export has a record of its own. The old primary may lose the records later.
    """

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
        """Return whether every record of another export of the same topic is in this one, too."""
        return (self.term, self.topic_id) == (other.term, other.topic_id) and all(
            p in self.spans
            and self.spans[p][0] <= first
            and end <= self.spans[p][1]
            and self.records[p] >= other.records[p]
            for p, (first, end) in other.spans.items()
        )


T = TypeVar("T")
_Crossings = Map[Digits, Many[Annotated[tuple[Count, Count, Count, Count], listed(4)]]]
_Kept = Map[Digits, Annotated[tuple[Count, Many[Count]], listed(2)]]
_MAY_BE_EMPTY: Final = ("emptied", "rebuilt", "crossings", "kept")
_STILL_SHOWN_MS: Final = 60_000


@state_record("cut/")
class CutRecord(TopicRecord):
    """Where the flow began to copy a topic after a turn, by partition."""

    source_id: TopicId
    target_id: TopicId
    skip_from: Offsets
    """The cuts: from this source offset on no record of the flow in the other direction can be there."""
    emptied: Offsets = field(default_factory=dict)
    """Target offset before which everything was deleted on the copy. Brokers that are killed within a minute
    lose that, so it is proven again before clients read the copy."""
    rebuilt: Offsets = field(default_factory=dict)
    """Source offset at which copying began, before the cut: the records between were copied once before
    and are copied again, of every producer. Without it copying began at the cut."""
    crossings: _Crossings = field(default_factory=dict)
    """Where both sides have the same records in another order: the fields of each
    :class:`drkit.offsets.crossing.Crossing`."""
    kept: _Kept = field(default_factory=dict)
    """Of a tail that the target has kept and that was appended to the source after the cut: the source offset
    after its last record, and the producer ids that wrote it. Before that offset they are left out."""

    def crossings_of(self, partition: int) -> tuple[Crossing, ...]:
        """The crossings of a partition."""
        return tuple(Crossing(*each) for each in self.crossings.get(partition, ()))

    def to_json(self) -> dict[str, Any]:
        """Return the fields; a topic without such partitions has only the earlier ones."""
        found = Body.to_json(self)
        return {key: value for key, value in found.items() if value or key not in _MAY_BE_EMPTY}

    def is_of(self, source_id: UUID, target_id: UUID) -> bool:
        """Whether it is of this topic and its copy, not of another one of these names."""
        return (self.source_id, self.target_id) == (source_id, target_id)

    def between(self, source_id: UUID, target_id: UUID) -> Mapping[int, int]:
        """The cuts of a topic and its copy; none of later topics of these names."""
        return self.skip_from if self.is_of(source_id, target_id) else {}

    def with_cut(
        self,
        partition: int,
        offset: int,
        *,
        emptied: int | None = None,
        rebuilt: int | None = None,
        crossings: tuple[Crossing, ...] = (),
        kept: tuple[int, tuple[int, ...]] | None = None,
    ) -> CutRecord:
        """The record with another cut of a partition.

        :param emptied: target offset up to which its copy was emptied; None: it was not
        :param rebuilt: source offset at which copying begins, before the cut; None: at the cut
        :param crossings: where both sides have the same records in another order
        :param kept: see the field; None: no tail was kept in this turn
        """
        return replace(
            self,
            skip_from={**self.skip_from, partition: offset},
            emptied=_with(self.emptied, partition, emptied),
            rebuilt=_with(self.rebuilt, partition, rebuilt),
            crossings=_with(self.crossings, partition, tuple((*each,) for each in crossings) or None),
            kept=_with(self.kept, partition, kept),
        )


def _with(values: Mapping[int, T], partition: int, value: T | None) -> dict[int, T]:
    others = {p: v for p, v in values.items() if p != partition}
    return others if value is None else {**others, partition: value}


@state_record("return/")
class ReturnRecord(TopicRecord):
    """Since a turn the flow copies into a topic whose opposite flow was promoted.

    Without this record, or with that of an earlier promotion, the flow leaves the topic out.
    """

    promoted_by: Name
    """Id of the failover's run that promoted the topic in the other direction."""
    run_id: Name
    """Id of the run that made this side passive."""
    at_ms: Count
    clients_cut: Omitted[Prose] = None
    """How clients are kept off the passive side where no ACL does it."""
    term: Omitted[Count] = None
    """Of that run: the journal that has it is on the other side."""


@state_record("opposite/")
class OppositePromotionRecord(TopicRecord):
    """The promotion of a topic by the flow in the other direction, on record on this side.

    The role that promotion gave is on the other side, which may not answer when this side has to decide. The
    name in the key is the topic's name on this flow's source.
    """

    term: Count
    run_id: Name
    """Of the failover, or switchover."""
    at_ms: Count
    ends: Omitted[Name] = None
    """The run whose promotion in this direction is over by it, or None if there was none."""
    planned: Omitted[Flag] = None
    """Whether it was a switchover: this side had no record of its own."""


@state_record("held-settings/")
class HeldSettingsRecord(TopicRecord):
    """A person had the new primary keep all of a topic until another cluster has it, too.

    The record is written before the settings, and stays when they are put back.
    """

    at_ms: Count
    """When it last changed a setting; 0: it never did."""
    by: Prose
    before: Map[Name, Prose | None]
    """By setting: its value on the topic before; None: the topic had none of its own."""
    held: Map[Name, Prose]
    """By setting: the value that keeps everything."""
    ended_ms: Omitted[Count] = None
    """When they were put back; None: they are held."""

    def holds(self, settings: Mapping[str, str | None]) -> bool:
        """Whether a topic's settings keep everything now, and this record is why."""
        return self.ended_ms is None and all(settings.get(n) == value for n, value in self.held.items())

    def not_its_own(self, now_ms: int) -> Mapping[str, str]:
        """Values that are not the topic's own; a broker may show them still when they were just put back."""
        is_over = self.ended_ms is not None and now_ms > self.ended_ms + _STILL_SHOWN_MS
        return {} if is_over else self.held


@state_record("written/")
class WrittenRecord(PartitionRecord):
    """Another client wrote to a partition of the passive side after a turn: no more records are copied to it.

    It holds for these topics since that turn; see :func:`drkit.flow_state.copied_topics.written_of`.
    """

    source_id: TopicId
    target_id: TopicId
    offset: Count
    """Target offset of the first of these records."""
    producer_id: Annotated[int, whole(-1)]
    """Of that record; −1: a producer without an id wrote it."""
    at_ms: Count
    """When a copy task found it."""
    began_at: Omitted[Count] = None
    """The partition's cut at that time; None: the partition is younger than the turn, and has none."""
