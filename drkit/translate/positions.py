"""``drkit translate``: the exact position of a group, or of one offset, on the other side.

The list of copied topics and the map are on the target, so the source may be gone. Only a group's committed
offsets are on the source; without it they are taken from the flow's last checkpoints.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from drkit import observe
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import ClusterUnreachable, DrkitError, Failed, Usage
from drkit.flow_state.copied_topics import CopiedPartition, CopiedTopics, known_of
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster, reach
from drkit.kafka.groups.requests import Groups
from drkit.kafka.raw import RawCluster, connections
from drkit.kafka.topics import describe_topics
from drkit.mm2_topics.checkpoint_topic import CheckpointTail
from drkit.model import TopicPartition
from drkit.offset_map.places import PositionReader
from drkit.offsets import Unavailable
from drkit.offsets.group_guard import positions_in
from drkit.offsets.translation import Exact, PartitionPosition, Translation

T = TypeVar("T")
_CONNECT_MS: Final = 5000
EXACT: Final = "exact"
UNAVAILABLE: Final = "unavailable"


class PositionQuestion(NamedTuple):
    """A group, or one offset of a partition."""

    group: str | None = None
    topic: str | None = None
    """As the cluster calls it on which the offset is known."""
    partition: int | None = None
    offset: int | None = None
    reverse: bool = False
    """From the target back to the source."""


class Line(NamedTuple):
    """The answer for one partition."""

    topic: str
    partition: int
    offset: int
    """On the side the question is about."""
    answer: str
    """``exact`` or ``unavailable``."""
    to_topic: str
    to_offset: int | None
    """The offset to continue from."""
    note: str
    """What is special about the answer, or why it is missing."""


class Looked(NamedTuple):
    """The offset mapping of one side's partitions to the other side, as read at one moment."""

    pairs: Mapping[TopicPartition, CopiedPartition]
    places: Mapping[TopicPartition, PartitionPosition | Unavailable]
    """By source partition."""
    flow: str
    reverse: bool

    def translate(self, at: TopicPartition, offset: int) -> tuple[TopicPartition, Translation]:
        """The partition on the other side and the offset in it; the topic is empty if it is not copied."""
        pair = self.pairs.get(at)
        if pair is None:
            return TopicPartition("", at.partition), Unavailable(
                f"{self.flow} does not copy the topic {at.topic}"
            )
        place, to = self.places[pair.source], pair.source if self.reverse else pair.target
        if isinstance(place, Unavailable):
            return to, place
        return to, place.backward(offset) if self.reverse else place.forward(offset)


def translate(settings: Settings, flow: FlowSettings, question: PositionQuestion) -> list[Line]:
    """Answer a question about a flow.

    :raises Usage: the group has no offsets, or the flow copies no such topic
    :raises ClusterUnreachable: the target does not answer
    :raises Failed: the flow has no state on the target, or it cannot be read
    """
    return _asked(settings, flow, lambda asking: asking.answer(question))


def look(
    settings: Settings, flow: FlowSettings, partitions: Iterable[TopicPartition], *, reverse: bool
) -> Looked:
    """The offset mapping of partitions to the other side, as read at one moment.

    :param partitions: as the side calls them from which the offsets come
    :raises ClusterUnreachable: the target does not answer
    :raises Failed: the flow has no state on the target, or it cannot be read
    """
    return _asked(settings, flow, lambda asking: asking.look(partitions, reverse=reverse))


def _asked(settings: Settings, flow: FlowSettings, question: Callable[[_Asking], Awaitable[T]]) -> T:
    source, target = settings.sides(flow)
    known = _known(target, flow)
    reached = reach(source)
    with connections("translate", reached.settings, target) as (source_cluster, target_cluster):
        asking = _Asking(flow, known, target, None if reached.silence else source_cluster, target_cluster)
        answer: T = target_cluster.loop.run(question, asking)
    return answer


def _known(target: ClusterSettings, flow: FlowSettings) -> CopiedTopics:
    with StateTopic(target, flow.source) as state:
        is_there = state.load_existing(Cluster.connect(target))
        state.records.refuse_damaged()
        known, where = known_of(state.records), f"{state.name} on {target.alias}"
    if not known.topics:
        evidence = "it names no copied topic" if is_there else "this topic does not exist"
        raise Failed("flow_not_known", where=where, evidence=evidence, flow=flow.name)
    return known


@dataclass(frozen=True)
class _Asking:
    """One question, over connections to both sides."""

    flow: FlowSettings
    known: CopiedTopics
    settings: ClusterSettings
    """Of the target."""
    source: RawCluster | None
    """None: it does not answer."""
    target: RawCluster

    async def answer(self, question: PositionQuestion) -> list[Line]:
        """The lines of the answer."""
        await self.target.connect()
        source = await self._reached()
        committed = await self._offsets(question, source)
        looked = await self._look(committed, source, reverse=question.reverse)
        return [_line(at, committed[at], looked) for at in sorted(committed)]

    async def look(self, partitions: Iterable[TopicPartition], *, reverse: bool) -> Looked:
        """The offset mapping of one side's partitions to the other side."""
        await self.target.connect()
        return await self._look(partitions, await self._reached(), reverse=reverse)

    async def _look(
        self, partitions: Iterable[TopicPartition], source: RawCluster | None, *, reverse: bool
    ) -> Looked:
        names = self.known.upstream if reverse else {t: t for t in self.known.topics}
        pairs = {at: self.known.pair(names[at.topic], at.partition) for at in partitions if at.topic in names}
        look = PositionReader(self.target, self.flow.source).look
        places = await look(pairs.values(), self.known.producers, source)
        return Looked(pairs, places, self.flow.name, reverse=reverse)

    async def _reached(self) -> RawCluster | None:
        """The source, when it answers."""
        if self.source is None:
            return None
        try:
            await self.source.connect(_CONNECT_MS)
        except DrkitError:
            return None
        return self.source

    async def _offsets(
        self, question: PositionQuestion, source: RawCluster | None
    ) -> dict[TopicPartition, int]:
        if question.group is None:
            return {TopicPartition(question.topic or "", question.partition or 0): question.offset or 0}
        at = self.target if question.reverse else source
        if at is None:
            return self._checkpointed(question.group)
        offsets = (await Groups(at).offsets([question.group]))[question.group]
        committed = {tp: c.offset for tp, c in positions_in(offsets).items()}
        if not committed:
            evidence = "there is no such group, or it never committed, or its offsets have expired"
            raise Usage("group_without_offsets", where=at.alias, evidence=evidence, group=question.group)
        return committed

    def _checkpointed(self, group: str) -> dict[TopicPartition, int]:
        """What the group had committed on the source at the last checkpoint."""
        topic = self.flow.mm2_topics.checkpoints(self.flow.source)
        there = describe_topics(Cluster.connect(self.settings), [topic]).get(topic)
        names = self.known.upstream
        with closing(CheckpointTail(self.settings, topic)) as tail:
            tail.read(there.topic_id if there is not None else None)
        checkpoints, unreadable = tail.of([group]).get(group), tail.unreadable
        damaged = f"; {unreadable} of its records are none, {tail.first_unreadable}" if unreadable else ""
        if not checkpoints:
            number = sum(map(len, tail.newest.values()))
            evidence = f"{number} checkpoints in {topic} on {self.flow.target}, none of this group{damaged}"
            where = f"group {group}, {self.flow.source}"
            raise ClusterUnreachable("source_silent_no_checkpoint", where=where, evidence=evidence)
        if damaged:
            observe.event(
                "internal_topic_unreadable", level="warning", flow=self.flow.name, topic=topic,
                cluster=self.flow.target, records=unreadable, reason=tail.first_unreadable,
            )  # fmt: skip
        return {
            TopicPartition(names[at.topic], at.partition): seen.upstream
            for at, seen in checkpoints.items()
            if at.topic in names
        }


def _line(at: TopicPartition, offset: int, looked: Looked) -> Line:
    to, found = looked.translate(at, offset)
    if isinstance(found, Exact):
        return Line(*at, offset, EXACT, to.topic, found.offset, found.note)
    return Line(*at, offset, UNAVAILABLE, to.topic, None, found.reason)
