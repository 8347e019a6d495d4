"""Consumer groups on both sides: committed offsets on the source, state and offsets on the target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from drkit.checkpoints.other_groups import is_consumer
from drkit.config import FlowSettings
from drkit.flow_state.copied_topics import CopiedTopics
from drkit.flow_state.records import CheckpointsRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.groups.requests import Groups, Offsets, failure
from drkit.kafka.raw import RawCluster
from drkit.mm2_topics.checkpoint_topic import Checkpoints
from drkit.model import TopicPartition
from drkit.offsets.group_guard import OffsetMark, StoredOffset

FROM_SOURCE: Final = "source"
FROM_CHECKPOINTS: Final = "checkpoints"
Positions = dict[str, dict[TopicPartition, StoredOffset]]
"""Group → source partition → committed offset."""


class TargetGroup(NamedTuple):
    """A group on the target."""

    state: str
    members: tuple[str, ...]
    """Its members, in words."""
    stored: dict[TopicPartition, StoredOffset]
    """Committed offsets by target partition."""

    def own_work(self, source: str, topics: Collection[str]) -> list[TopicPartition]:
        """Return the partitions of these target topics in which the group committed by itself."""
        return sorted(
            at
            for at, s in self.stored.items()
            if at.topic in topics and (s.mark is None or s.mark.source != source)
        )


async def committed_on_source(
    source: RawCluster, flow: FlowSettings, known: CopiedTopics, groups: Collection[str] | None = None
) -> Positions:
    """Return the committed offsets of the flow's groups in copied topics.

    :param groups: the only groups to ask about, all of them consumer groups; None: all groups
    :raises DrkitError: the source refuses the offsets of some group
    :raises RawError: the source stopped answering
    """
    asked = Groups(source)
    if groups is None:
        groups = [g for g, x in (await asked.listed()).items() if is_consumer(x)]
    names = sorted(filter(flow.group_filter.accepts, groups))
    out: Positions = {}
    for group, answer in (await asked.committed(names)).items():
        if answer.value is None:
            raise failure(answer.error, f"read the offsets of the group {group}", source.alias)
        mine = {at: StoredOffset(*c) for at, c in answer.value.items() if at.topic in known.topics}
        if mine:
            out[group] = mine
    return out


def checkpoints_age(state: FlowState, now_ms: int) -> float | None:
    """Return the seconds since a round of checkpoints last ended well; None: unknown.

    A round that failed may have written nothing of some groups, so its time says nothing.
    """
    last = state.get(CheckpointsRecord)
    return last.age_seconds(now_ms) if last is not None else None


def checkpointed(
    checkpoints: Checkpoints, flow: FlowSettings, known: CopiedTopics, marks: Positions
) -> Positions:
    """Return the groups' committed offsets as recorded on the target: checkpoints, else drkit's marks."""
    names, accepted = known.upstream, flow.group_filter.accepts
    out: Positions = {g: dict(p) for g, p in marks.items() if accepted(g)}
    for group in filter(accepted, checkpoints):
        for at, seen in checkpoints[group].items():
            if at.topic in names:
                place = TopicPartition(names[at.topic], at.partition)
                out.setdefault(group, {})[place] = StoredOffset(seen.upstream)
    return out


async def marked(
    target: RawCluster, flow: FlowSettings, known: CopiedTopics, groups: Collection[str] | None = None
) -> Positions:
    """Return source offsets by the marks in the groups' committed offsets on the target.

    :param groups: the only groups to ask about; None: all groups
    """
    asked, names = Groups(target), known.upstream
    if groups is None:
        groups = await asked.listed()
    wanted = sorted(filter(flow.group_filter.accepts, groups))
    out: Positions = {}
    for group, answer in (await asked.committed(wanted)).items():
        for at, offset in (answer.value or {}).items():
            mark = OffsetMark.of(offset.metadata)
            if mark is not None and mark.source == flow.source and at.topic in names:
                place = TopicPartition(names[at.topic], at.partition)
                out.setdefault(group, {})[place] = StoredOffset(mark.upstream)
    return out


async def on_target(target: RawCluster, groups: Iterable[str]) -> dict[str, TargetGroup]:
    """Return state, members and offsets of groups on the target.

    :raises DrkitError: the target refuses to describe some group
    """
    names = list(groups)
    asked = Groups(target)
    described, committed = await asked.describe(names), await asked.committed(names)
    out = {}
    for group in names:
        state, offsets = described[group], committed[group]
        if state.value is None or offsets.value is None:
            code = state.error or offsets.error
            raise failure(code, f"ask about the group {group}", target.alias)
        members = tuple(
            f"{'static member ' + m.instance if m.instance is not None else m.client or m.id} on {m.host}"
            for m in state.value.members
        )
        out[group] = TargetGroup(state.value.state, members, stored_of(offsets.value))
    return out


def stored_of(offsets: Offsets) -> dict[TopicPartition, StoredOffset]:
    """Return offsets in the form that the guard uses."""
    return {at: StoredOffset(*c) for at, c in offsets.items()}


def positions_to_json(positions: Mapping[str, Mapping[TopicPartition, StoredOffset]]) -> dict[str, Any]:
    """Return positions as plain data, for the journal."""
    return {g: {str(at): [s.offset, s.metadata] for at, s in p.items()} for g, p in positions.items()}


def positions_from_json(raw: Mapping[str, Mapping[str, Any]]) -> Positions:
    """Return positions from the journal's data."""
    return {g: {partition_of(at): StoredOffset(*s) for at, s in p.items()} for g, p in raw.items()}


def partition_of(text: str) -> TopicPartition:
    """Return the partition with this name, such as ``topic-0``."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))
