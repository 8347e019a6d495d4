"""What a flow keeps of a turn: where its copies began, who made this side passive, who wrote there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Final, TypeVar
from uuid import UUID

from drkit.flow_state.codec.fields import (
    Count,
    Digits,
    Many,
    Map,
    Name,
    Omitted,
    Prose,
    TopicId,
    listed,
    partition_of,
    whole,
)
from drkit.flow_state.codec.record import Body, StateRecord, TopicRecord
from drkit.flow_state.kinds.tails import Offsets
from drkit.model import TopicPartition
from drkit.offsets.crossing import Crossing

T = TypeVar("T")
_Crossings = Map[Digits, Many[Annotated[tuple[Count, Count, Count, Count], listed(4)]]]
_Kept = Map[Digits, Annotated[tuple[Count, Many[Count]], listed(2)]]
_MAY_BE_EMPTY: Final = ("emptied", "rebuilt", "crossings", "kept")
_STILL_SHOWN_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class CutRecord(TopicRecord):
    """Where the flow began to copy a topic after a turn, by partition."""

    KEY: ClassVar[str] = "cut/"

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


@dataclass(frozen=True, slots=True)
class ReturnRecord(TopicRecord):
    """Since a turn the flow copies into a topic whose opposite flow was promoted.

    Without this record, or with that of an earlier promotion, the flow leaves the topic out.
    """

    KEY: ClassVar[str] = "return/"

    promoted_by: Name
    """Id of the failover's run that promoted the topic in the other direction."""
    run_id: Name
    """Id of the run that made this side passive."""
    at_ms: Count
    clients_cut: Omitted[Prose] = None
    """How clients are kept off the passive side where no ACL does it."""


@dataclass(frozen=True, slots=True)
class HeldSettingsRecord(TopicRecord):
    """A person had the new primary keep all of a topic until another cluster has it, too.

    The record is written before the settings, and stays when they are put back.
    """

    KEY: ClassVar[str] = "held-settings/"

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


@dataclass(frozen=True, slots=True)
class WrittenRecord(StateRecord):
    """Another client wrote to a partition of the passive side after a turn: no more records are copied to it.

    It holds for these topics since that turn; see :func:`drkit.flow_state.copied_topics.written_of`.
    """

    KEY: ClassVar[str] = "written/"

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

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`."""
        partition_of(name)

    @staticmethod
    def name_of(partition: TopicPartition) -> str:
        """The name in the key for a source partition."""
        return f"{partition.topic}/{partition.partition}"
