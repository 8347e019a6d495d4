"""Records of both sides since the promotion: copies on the new primary, failbacks on the old one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from drkit.failover.core.context import Context
from drkit.failover.core.reverse import reverse_state
from drkit.failover.loss.findings import UNKNOWN_END, CopyFate, Emptied
from drkit.failover.loss.log_cursor import LogSide
from drkit.flow_state.copied_topics import CopiedPartition, known_of, written_of
from drkit.flow_state.producer_ids import on_record
from drkit.flow_state.records import (
    CutRecord,
    EventRecord,
    GenerationRecord,
    IncompleteRecord,
    ReturnRecord,
    RoleRecord,
)
from drkit.kafka import codes
from drkit.kafka.reading.record_cursor import EpochEnd, epoch_ends
from drkit.kafka.requests import EARLIEST, LATEST, TopicMetadata, leader_of, listed, metadata
from drkit.model import TopicPartition
from drkit.offset_map.locate import Located
from drkit.offsets import Unavailable
from drkit.offsets.resolution import Resolution


class Copy(NamedTuple):
    """The copy of a partition."""

    state: CopyFate
    end: int | None = None
    """The current end of a copy that regressed."""
    unknown: str = ""
    """The reason why its state is unknown, or empty."""


@dataclass(frozen=True)
class NewPrimary:
    """The current state of the new primary. Partitions are named as on the old primary."""

    side: LogSide
    targets: Mapping[str, tuple[str, UUID]]
    """Promoted topics on record → name and id of the copy."""
    pairs: Mapping[TopicPartition, CopiedPartition]
    """Partitions that were promoted, of topics on record."""
    located: Mapping[TopicPartition, Located]
    starts: Mapping[TopicPartition, int]
    """By partition of the new primary."""
    ends: Mapping[TopicPartition, int]
    epochs: Mapping[TopicPartition, EpochEnd]
    """The end of the leader epoch of the promotion, by partition of the new primary."""
    cuts: Mapping[TopicPartition, int]
    """The offset at which producers of the new primary began to write."""
    strangers: Mapping[TopicPartition, int | None]
    """Copies into which others wrote while they were passive, as recorded; the offset, None if unknown."""

    def copy(self, tp: TopicPartition) -> Copy:
        """Return the fate of the copy of a promoted partition."""
        pair = self.pairs[tp]
        to, topic = pair.target, self.side.topics[pair.target.topic]
        if topic.error and topic.error not in codes.NO_SUCH_TOPIC:
            return Copy(CopyFate.KEPT, unknown=f"{to.topic}: {codes.error_name(topic.error)}")
        state = copy_state(topic, pair.target_id, to.partition)
        if state is not CopyFate.KEPT:
            return Copy(state)
        if leader_of(self.side.topics, to) < 0 or to not in self.ends or to not in self.starts:
            return Copy(CopyFate.KEPT, unknown=f"the leader of its copy {to} does not answer")
        return shortened(self.ends[to], self.epochs.get(to), self.cuts.get(tp))

    def unnamed_copy(self, tp: TopicPartition) -> tuple[Copy, bool]:
        """Return the fate of the copy of a partition without a role, and whether its topic lacks it."""
        if tp.topic not in self.targets:
            return Copy(CopyFate.KEPT), False
        target, wanted = self.targets[tp.topic]
        topic = self.side.topics[target]
        state = copy_state(topic, wanted, min(topic.leaders, default=0))
        return Copy(state), state is CopyFate.KEPT and tp.partition not in topic.leaders

    def place(self, tp: TopicPartition) -> Resolution | str:
        """Return the mapping of a partition to its copy, or the reason why it is unknown."""
        located = self.located.get(tp)
        if located is None:
            return "its copy could not be asked"
        return located.answer.reason if isinstance(located.answer, Unavailable) else located.answer


def topic_fate(topic: TopicMetadata, wanted: UUID | None) -> CopyFate:
    """Return the fate of a topic that had an id: gone, recreated, or kept."""
    if topic.error in codes.NO_SUCH_TOPIC:
        return CopyFate.GONE
    return CopyFate.KEPT if topic.topic_id == wanted else CopyFate.RECREATED


def copy_state(topic: TopicMetadata, wanted: UUID, partition: int) -> CopyFate:
    """Return the fate of the topic of a copy. Pure."""
    fate = topic_fate(topic, wanted)
    return CopyFate.GONE if fate is CopyFate.KEPT and partition not in topic.leaders else fate


def shortened(end: int, epoch: EpochEnd | None, cut: int | None) -> Copy:
    """Return whether a copy still reaches to where it ended when it was promoted. Pure.

    :param epoch: where the leader epoch of the promotion ends, or None if unknown
    :param cut: where the copy ended, or None if unknown
    """
    known_end = end if epoch is None or epoch.end == UNKNOWN_END else min(end, epoch.end)
    if cut is None or known_end >= cut:
        return Copy(CopyFate.KEPT)
    return Copy(CopyFate.REGRESSED, known_end)


def look_at_new_primary(
    context: Context, roles: Mapping[str, RoleRecord], topics: Collection[str]
) -> NewPrimary:
    """Return the new primary's state of promoted topics.

    :param roles: of all promoted topics, from the loaded state
    :param topics: by their names on the old primary; all are on record
    :raises RawError: the new primary does not answer
    :raises Failed: the offset map cannot be read
    """
    known = context.known
    pairs = {
        pair.source: pair
        for name in topics
        for number in sorted({*(roles[name].frontiers or {}), *(roles[name].ends or {})})
        for pair in [known.pair(name, number)]
    }
    names = sorted({known.topics[name][0] for name in topics})
    described = context.run(metadata, context.target, names)
    asked = [p.target for p in pairs.values() if leader_of(described, p.target) >= 0]
    epochs = {
        pair.target: epoch
        for tp, pair in pairs.items()
        if (epoch := (roles[tp.topic].epochs or {}).get(tp.partition)) is not None
        and leader_of(described, pair.target) >= 0
    }
    ends = {TopicPartition(n, number): end for n in topics for number, end in (roles[n].ends or {}).items()}
    cuts = {tp: end for tp, end in ends.items() if end is not None}
    reader = context.kept.places_of(context.target, context.flow.source)
    return NewPrimary(
        LogSide(context.target, described),
        targets={name: (known.topics[name][0], known.topics[name][2]) for name in topics},
        pairs=pairs,
        located=context.run(reader.locate, pairs.values(), known.producers),
        starts=context.run(listed, context.target, described, asked, EARLIEST),
        ends=context.run(listed, context.target, described, asked, LATEST),
        epochs=context.run(epoch_ends, context.target, described, epochs),
        cuts=cuts,
        strangers=_strangers(context, pairs.keys(), cuts),
    )


def _strangers(
    context: Context, wanted: Iterable[TopicPartition], cuts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    promoted = set(wanted)
    # Before the flow's own return, the copy was a primary that clients wrote to.
    since = {topic: known.at_ms for topic, known in context.state.all(ReturnRecord).items()}
    offsets: dict[TopicPartition, int | None] = {}
    for event in context.state.all(EventRecord).values():
        tp = TopicPartition(event.topic, event.partition)
        if event.kind == "foreign_writer" and tp in promoted and event.at_ms >= since.get(event.topic, 0):
            offset = event.fields.get("offset")
            offsets[tp] = offset if isinstance(offset, int) else None
    for tp, record in written_of(context.state.records).items():
        if tp in promoted and tp in cuts and record.offset < cuts[tp]:
            offsets[tp] = record.offset
    return offsets


def emptied_in_vain(context: Context) -> dict[TopicPartition, Emptied]:
    """Return what aborted returns had emptied on the old primary; nothing is copied there."""
    return {
        TopicPartition(topic, p): Emptied(offset, record.run_id)
        for topic, record in context.state.all(IncompleteRecord).items()
        for p, offset in record.emptied.items()
    }


def emptied_before(context: Context, ids: Mapping[str, UUID]) -> dict[TopicPartition, int]:
    """Return the offsets of the old primary up to which a failback, aborted or not, has emptied it.

    Nothing before them belongs there. Brokers that were killed soon after it may have brought it back.

    :param ids: of topics of the old primary; what was emptied of an earlier topic of these names is left out
    :raises DrkitError: the old primary does not answer
    """
    state = reverse_state(context)
    copies = state.all(GenerationRecord)
    emptied = emptied_in_vain(context)
    offsets = {tp: e.up_to for tp, e in emptied.items() if tp.topic in ids}
    for tp, offset in known_of(state).emptied.items():
        copy = TopicPartition(copies[tp.topic].target, tp.partition)
        if ids.get(copy.topic) == copies[tp.topic].target_id:
            offsets[copy] = max(offsets.get(copy, 0), offset)
    return offsets


class ReverseSide(NamedTuple):
    """The old primary's records of the reverse flow."""

    ids: frozenset[int]
    """Its producers: their records came from the new primary."""
    returned: frozenset[str]
    """Topics of the old primary that it copies back since the last promotion."""
    copies: frozenset[str]
    """Its copies on the old primary."""
    emptied: Mapping[TopicPartition, Emptied]
    """Partitions that a failback of the reverse flow has emptied there."""


def reverse_side(context: Context, roles: Mapping[str, RoleRecord]) -> ReverseSide:
    """Return the old primary's records of the reverse flow. Raises DrkitError."""
    state, known = reverse_state(context), context.known.topics
    begun = {topic: record.promoted_by for topic, record in state.all(ReturnRecord).items()}
    returned = [t for t, role in roles.items() if t in known and begun.get(known[t][0]) == role.run_id]
    copies = {name: record.target for name, record in state.all(GenerationRecord).items()}
    cuts = ((copies[n], c) for n, c in state.all(CutRecord).items() if n in copies)
    emptied = {TopicPartition(t, p): Emptied(o) for t, c in cuts for p, o in c.emptied.items()}
    return ReverseSide(frozenset(on_record(state)), frozenset(returned), frozenset(copies.values()), emptied)
