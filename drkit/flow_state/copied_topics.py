"""Read which topics are copied and frozen from the state on the target; the source is not asked."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Annotated, Final, NamedTuple, TypeVar
from uuid import UUID

from pydantic import BeforeValidator

from drkit.errors import Failed
from drkit.flow_state.codec.fields import ByPartition, partition_of
from drkit.flow_state.left_out import NONE_KEPT, KeptTail, LeftOut, tail_end_of
from drkit.flow_state.producer_ids import ProducerIds
from drkit.flow_state.records import (
    BulkProducerRecord,
    ConfigsRecord,
    CutRecord,
    GenerationRecord,
    OffsetMapRecord,
    ProducerIdsRecord,
    ReturnRecord,
    RoleRecord,
    SkipsRecord,
    WrittenRecord,
)
from drkit.flow_state.state import FlowState
from drkit.kafka.requests import TopicMetadata
from drkit.model import TopicPartition
from drkit.offsets.crossing import Crossing
from drkit.topology.topic_configs import Retention

T = TypeVar("T")
_NO_OFFSETS: Final[Mapping[TopicPartition, int]] = {}
_NO_RETENTION: Final[Mapping[str, Retention]] = {}
_NO_CROSSINGS: Final[Mapping[TopicPartition, tuple[Crossing, ...]]] = {}


class CopiedPartition(NamedTuple):
    """A source partition and its copy; the ids tell topics from later ones of the same name (KIP-516)."""

    source: TopicPartition
    target: TopicPartition
    source_id: UUID
    target_id: UUID
    skip_from: int | None = None
    """Source offset from which on no batch is left out because of its producer; None: no such offset."""
    rebuilt: int | None = None
    """Source offset before `skip_from` at which copying began, for records of every producer; None: at
    `skip_from`."""
    emptied: int = 0
    """Target offset before which the copy was emptied: nothing before it belongs to it."""
    until: int | None = None
    """Target offset at which producers began to write when the copy was promoted; None: it was not."""
    crossings: tuple[Crossing, ...] = ()
    """Where both sides have the same records in another order."""
    kept: KeptTail | None = None
    """A tail on the source that the target has already; None: no such tail."""
    retention: Retention | None = None
    """The retention by the source's settings, or None if they are not on record."""

    def leaves_out(self, offset: int) -> bool:
        """Whether a batch at a source offset is left out if a flow in the other direction wrote it."""
        return self.rebuilt is None and (self.skip_from is None or offset < self.skip_from)

    @property
    def tail_end(self) -> int:
        """Target offset after the last tail among the copies; 0: no such tail."""
        return tail_end_of(self.crossings)

    def left_out_at(self, offset: int, opposite: frozenset[int]) -> frozenset[int]:
        """The producers whose batches at a source offset are left out.

        :param opposite: those of the flow in the other direction
        """
        found = opposite if self.leaves_out(offset) else frozenset()
        return found | self.kept.ids if self.kept is not None and offset < self.kept.end else found

    @property
    def began_at(self) -> int | None:
        """Source offset at which copying began after a turn; None: there was none."""
        return self.skip_from if self.rebuilt is None else self.rebuilt


class Producers(NamedTuple):
    """Producer ids of live mode, those whose records the flow leaves out, and who knows what they wrote."""

    current: int
    own: frozenset[int]
    left_out: frozenset[int] = frozenset()
    map_id: str = ""
    """Id of the topic with the map of what they wrote; empty: any topic of that name."""
    bulk: frozenset[int] = frozenset()
    """The flow's producer ids of bulk mode."""


class CopiedTopics(NamedTuple):
    """The copied topics of a flow, from its state on the target."""

    topics: dict[str, tuple[str, UUID, UUID]]
    """Source topic → its name on the target, and the ids of both."""
    producers: Producers
    cuts: ByPartition[int] = _NO_OFFSETS
    """Source partition → its cut, at a turn; none where there was no turn."""
    rebuilt: ByPartition[int] = _NO_OFFSETS
    """Source partition → where copying began before its cut; none where it began there."""
    emptied: ByPartition[int] = _NO_OFFSETS
    """Source partition → target offset before which its copy was emptied."""
    ends: ByPartition[int] = _NO_OFFSETS
    """Source partition → where the copy ended when it was promoted; none where it was not."""
    crossings: ByPartition[tuple[Crossing, ...]] = _NO_CROSSINGS
    """Source partition → where both sides have the same records in another order."""
    kept: ByPartition[KeptTail] = NONE_KEPT
    """Source partition → a tail that the target has already."""
    retention: Annotated[Mapping[str, Retention], BeforeValidator(dict)] = _NO_RETENTION
    """Source topic → what it keeps by its settings; none where they are not on record."""

    def is_void(self, at: TopicPartition, committed: int | None) -> bool:
        """Whether what a group committed on the target before a turn is no position in the copy any more.

        :param at: on the source
        :param committed: on the target; None: the group has no position there
        """
        if at in self.emptied:
            return True
        if committed is None or at not in self.kept or not self.crossings.get(at):
            return False
        tail = self.crossings[at][-1]
        return tail.target_first < committed <= tail.target_end

    def without(self, topics: Container[str]) -> CopiedTopics:
        """All but some source topics."""
        return self._replace(topics={name: ids for name, ids in self.topics.items() if name not in topics})

    def still_on(self, source: Mapping[str, TopicMetadata]) -> CopiedTopics:
        """All but the topics that the source has under another id now.

        :param source: metadata of its topics; none while it does not answer
        """
        now = {n: t.topic_id for n, t in source.items() if not t.error}
        return self.without({n for n, ids in self.topics.items() if now.get(n, ids[1]) != ids[1]})

    @property
    def left_out(self) -> LeftOut:
        """Whose records the flow does not copy, and where."""
        return LeftOut(self.producers.left_out, self.cuts, self.rebuilt.keys(), self.kept)

    @property
    def upstream(self) -> dict[str, str]:
        """Target topic → source topic."""
        return {target: name for name, (target, _, _) in self.topics.items()}

    def pair(self, topic: str, partition: int) -> CopiedPartition:
        """A partition of a source topic and its copy."""
        target, source_id, target_id = self.topics[topic]
        at = TopicPartition(topic, partition)
        to, end = TopicPartition(target, partition), self.ends.get(at)
        return CopiedPartition(
            at,
            to,
            source_id,
            target_id,
            skip_from=self.cuts.get(at),
            rebuilt=self.rebuilt.get(at),
            emptied=self.emptied.get(at, 0),
            until=end,
            crossings=self.crossings.get(at, ()),
            kept=self.kept.get(at),
            retention=self.retention.get(topic),
        )


def _by_partition(
    state: FlowState, values: Callable[[CutRecord], Mapping[int, T]]
) -> dict[TopicPartition, T]:
    topics = state.all(GenerationRecord)
    return {
        TopicPartition(name, partition): value
        for name, cut in state.all(CutRecord).items()
        if name in topics and cut.is_of(topics[name].source_id, topics[name].target_id)
        for partition, value in values(cut).items()
    }


def written_of(state: FlowState) -> dict[TopicPartition, WrittenRecord]:
    """Source partition → the foreign record after which nothing is copied to its copy, since the last turn.

    A record of an earlier turn, or of an earlier topic of the same name, does not count, nor one that was
    deleted since when the copy was emptied.

    :raises Damaged: a record of them was replaced
    """
    topics, out = state.all(GenerationRecord), {}
    cuts = _by_partition(state, lambda cut: cut.skip_from)
    emptied = _by_partition(state, lambda cut: cut.emptied)
    for name, found in state.all(WrittenRecord).items():
        at = partition_of(name)
        entry = topics.get(at.topic)
        same = entry is not None and (entry.source_id, entry.target_id) == (found.source_id, found.target_id)
        if same and cuts.get(at) == found.began_at and found.offset >= emptied.get(at, 0):
            out[at] = found
    return out


def _ends_of(state: FlowState) -> dict[TopicPartition, int]:
    """Source partition → where its copy ended when it was promoted.

    :raises Damaged: a record of it was replaced
    """
    return {
        TopicPartition(name, partition): end
        for name, role in state.all(RoleRecord).items()
        if role.is_promoted
        for partition, end in (role.ends or {}).items()
        if end is not None
    }


def known_of(state: FlowState) -> CopiedTopics:
    """The copied topics and the producers in a flow's state.

    :raises Damaged: a record of them was replaced
    """
    topics = {n: (g.target, g.source_id, g.target_id) for n, g in state.all(GenerationRecord).items()}
    ids, skips, offset_map = state.get(ProducerIdsRecord), state.get(SkipsRecord), state.get(OffsetMapRecord)
    producers = Producers(
        ids.current.id if ids is not None else -1,
        frozenset(ids.ids if ids is not None else ()),
        frozenset(skips.ids if skips is not None else ()),
        str(offset_map.topic_id) if offset_map is not None else "",
        frozenset(map(int, state.all(BulkProducerRecord))),
    )
    return CopiedTopics(
        topics,
        producers,
        _by_partition(state, lambda cut: cut.skip_from),
        _by_partition(state, lambda cut: cut.rebuilt),
        _by_partition(state, lambda cut: cut.emptied),
        ends=_ends_of(state),
        crossings=_by_partition(state, lambda cut: {p: cut.crossings_of(p) for p in cut.crossings}),
        kept=_by_partition(
            state, lambda cut: {p: KeptTail(end, frozenset(ids)) for p, (end, ids) in cut.kept.items()}
        ),
        retention={
            name: configs.retention
            for name, configs in state.readable(ConfigsRecord).items()
            if name in topics and configs.retention is not None
        },
    )


class FrozenTopics:
    """The topics of a flow that a failover holds or a return has begun, as the flow's state had them last.

    :param state: of the flow, as it is kept up to date
    """

    def __init__(self, flow: str, state: FlowState, ids: ProducerIds) -> None:
        self._flow, self._ids, self._frozen = flow, ids, _decided(state)

    def changed(self, state: FlowState) -> bool:
        """Return whether other topics may be copied than at the last call.

        :raises Failed: the producer of this attempt was fenced; the next attempt has the new one
        """
        record = state.readable(ProducerIdsRecord).get("")
        current = record.current if record is not None else self._ids.current
        if current != self._ids.current:
            evidence = f"producer id {self._ids.current.id} is now {current.id}"
            raise Failed("producer_replaced", where=self._flow, evidence=evidence)
        before, self._frozen = self._frozen, _decided(state)
        return before != self._frozen


def _decided(state: FlowState) -> Mapping[str, tuple[str, str]]:
    roles = {topic: (role.role.value, role.run_id) for topic, role in state.readable(RoleRecord).items()}
    returns = state.readable(ReturnRecord).items()
    return roles | {f"return/{topic}": ("", found.run_id) for topic, found in returns}
