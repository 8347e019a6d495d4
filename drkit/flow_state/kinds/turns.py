"""What a flow keeps of a turn: where its copies began, who made this side passive, who wrote there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final
from uuid import UUID

from drkit.flow_state.codec.body import Body, record, stored
from drkit.flow_state.codec.fields import digits, mapping_of, name, optional, partition_of, prose, uuid, whole
from drkit.flow_state.codec.record import StateRecord, TopicRecord
from drkit.model import TopicPartition

_offsets = mapping_of(digits, whole())
_MAY_BE_EMPTY: Final = ("emptied", "rebuilt")


@record
class CutRecord(TopicRecord):
    """Where the flow began to copy a topic after a turn, by partition."""

    KEY: ClassVar[str] = "cut/"

    source_id: UUID = stored(uuid)
    target_id: UUID = stored(uuid)
    skip_from: Mapping[int, int] = stored(_offsets)
    """The cuts: from this source offset on no record of the flow in the other direction can be there."""
    emptied: Mapping[int, int] = stored(_offsets, default_factory=dict)
    """Target offset before which everything was deleted on the copy. Brokers that are killed within a minute
    lose that, so it is proven again before clients read the copy."""
    rebuilt: Mapping[int, int] = stored(_offsets, default_factory=dict)
    """Source offset at which copying began, before the cut: what is between was copied once before, by
    anybody, and is copied again. Without one copying began at the cut."""

    def to_json(self) -> dict[str, Any]:
        """See :class:`Body`; a topic without such partitions has the fields of before."""
        found = Body.to_json(self)
        return {key: value for key, value in found.items() if value or key not in _MAY_BE_EMPTY}

    def is_of(self, source_id: UUID, target_id: UUID) -> bool:
        """Whether it is of this topic and its copy, not of another one of these names."""
        return (self.source_id, self.target_id) == (source_id, target_id)

    def between(self, source_id: UUID, target_id: UUID) -> Mapping[int, int]:
        """The cuts of a topic and its copy; none of later topics of these names."""
        return self.skip_from if self.is_of(source_id, target_id) else {}

    def with_cut(
        self, partition: int, offset: int, *, emptied: int | None = None, rebuilt: int | None = None
    ) -> CutRecord:
        """The record with another cut of a partition.

        :param emptied: target offset up to which its copy was emptied; None: it was not
        :param rebuilt: source offset at which copying begins, before the cut; None: at the cut
        """
        return replace(
            self,
            skip_from={**self.skip_from, partition: offset},
            emptied=_with(self.emptied, partition, emptied),
            rebuilt=_with(self.rebuilt, partition, rebuilt),
        )


def _with(offsets: Mapping[int, int], partition: int, offset: int | None) -> dict[int, int]:
    kept = {p: o for p, o in offsets.items() if p != partition}
    return kept if offset is None else {**kept, partition: offset}


@record
class ReturnRecord(TopicRecord):
    """Since a turn the flow copies into a topic whose opposite flow was promoted.

    Without this record, or with that of an earlier promotion, the flow leaves the topic out.
    """

    KEY: ClassVar[str] = "return/"

    promoted_by: str = stored(name)
    """Id of the failover's run that promoted the topic in the other direction."""
    run_id: str = stored(name)
    """Id of the run that made this side passive."""
    at_ms: int = stored(whole())
    clients_cut: str | None = stored(optional(prose), default=None, omit_none=True)
    """How clients are kept off the passive side where no ACL does it."""


@record
class WrittenRecord(StateRecord):
    """Somebody else wrote to a partition of the passive side after a turn: nothing more is copied to it.

    It holds for these topics since that turn; see :func:`drkit.flow_state.copied_topics.written_of`.
    """

    KEY: ClassVar[str] = "written/"

    source_id: UUID = stored(uuid)
    target_id: UUID = stored(uuid)
    offset: int = stored(whole())
    """Target offset of the first of these records."""
    producer_id: int = stored(whole(-1))
    """Of that record; −1: a producer without an id wrote it."""
    at_ms: int = stored(whole())
    """When a copy task found it."""
    began_at: int | None = stored(optional(whole()), default=None, omit_none=True)
    """The partition's cut at that time; None: the partition is younger than the turn, and has none."""

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`."""
        partition_of(name)

    @staticmethod
    def name_of(partition: TopicPartition) -> str:
        """The name in the key for a source partition."""
        return f"{partition.topic}/{partition.partition}"
