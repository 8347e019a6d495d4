"""Consumer groups on both sides: committed offsets read, written, restored; members seen and removed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from drkit.checkpoints.other_groups import is_consumer
from drkit.config import FlowSettings
from drkit.counted import counted, first_of
from drkit.errors import ClusterUnreachable, Failed, Refused, in_line
from drkit.failover.core.context import Context, StepProgress
from drkit.flow_state.copied_topics import CopiedTopics
from drkit.flow_state.records import CheckpointsRecord
from drkit.flow_state.state import FlowState
from drkit.journal.machine import FAILOVER, StepName
from drkit.kafka.groups.asking import PASSES, brokers_away
from drkit.kafka.groups.requests import Committed, Groups, leave_groups, values_of
from drkit.kafka.raw import RawCluster, RawError
from drkit.mm2_topics.checkpoint_topic import Checkpoints
from drkit.model import TopicPartition
from drkit.next_command import translate_group
from drkit.offsets.group_guard import OffsetMark, StoredOffset, positions_in

FROM_SOURCE: Final = "source"
FROM_CHECKPOINTS: Final = "checkpoints"
FROM_THE_START: Final[Mapping[str, str]] = {
    "then": "",
    "evict": ": --evict-members",
    "keep": ": --keep-positions",
    "accept": ': --accept-data-loss "REASON"',
}
RESUMED: Final[Mapping[str, str]] = {
    "then": ", then: drkit failover --resume",
    "evict": ": drkit failover --resume --evict-members",
    "keep": ": drkit failover --resume --keep-positions",
    "accept": ': drkit failover --resume --accept-data-loss "REASON"; or drkit failover --abort',
}
"""Options for the hint of a refusal about a group: before a run has begun, and while one is held."""
Positions = dict[str, dict[TopicPartition, StoredOffset]]
"""Group → partition → offset, committed or to be written."""


T = TypeVar("T")


class TargetGroup(NamedTuple):
    """A group on the target."""

    state: str
    members: tuple[str, ...]
    """Its members, in words."""
    stored: dict[TopicPartition, StoredOffset]
    """Committed offsets by target partition."""

    def own_work(self, source: str, topics: Collection[str]) -> list[TopicPartition]:
        """Return the partitions of these target topics in which the group committed by itself."""
        return sorted(tp for tp, s in self.stored.items() if tp.topic in topics and not s.is_from(source))


async def committed_in(
    cluster: RawCluster, flow: FlowSettings, topics: Container[str], groups: Collection[str] | None = None
) -> Positions:
    """Return the committed positions in some topics of a cluster.

    :param groups: the only groups to ask about, all of them consumer groups, or None for all that the flow
        translates by its configuration
    :raises DrkitError: the cluster refuses the offsets of some group
    :raises RawError: the cluster stopped answering
    """
    client = Groups(cluster)
    if groups is None:
        listed = (g for g, x in (await client.listed()).items() if is_consumer(x))
        groups = list(filter(flow.group_filter.accepts, listed))
    out: Positions = {}
    for group, committed in (await client.offsets(sorted(groups))).items():
        if offsets := positions_in(committed, topics):
            out[group] = offsets
    return out


def unless_away(context: Context, ask: Callable[..., Awaitable[T]], *args: object) -> T | None:
    """Return the answer of the source's group coordinators; None where one is away: checkpoints have it.

    :raises DrkitError: as `ask`; ClusterUnreachable only in a switchover, which has to wait
    """
    answer: T | None = None
    try:
        answer = context.run(ask, *args)
    except ClusterUnreachable as error:
        if context.request.planned or isinstance(error, RawError):
            raise
        text = f"positions of groups come from the checkpoints: {error.in_short}"
        context.tell(StepProgress(StepName.SNAPSHOT, text))
    return answer


def members_remain(group: str, alias: str, found: TargetGroup, words: Mapping[str, str]) -> Refused:
    """Return the refusal to move a group with members on the target."""
    where, evidence = f"group {group} on {alias}, state {found.state}", first_of(found.members)
    return Refused("members_on_target", where=where, evidence=evidence, group=group, **words)


def no_position(flow: str, reasons: Mapping[str, str], words: Mapping[str, str]) -> Refused:
    """Return the refusal to leave groups (→ partition and reason) without a position."""
    group, reason = min(reasons.items())
    return Refused(
        "no_exact_position",
        where=f"{flow}: {first_of(sorted(reasons))}",
        evidence=f"group {group}, {reason}",
        groups=counted(len(reasons), "group"),
        translate_group=translate_group(group),
        **words,
    )


def from_target(context: Context, ask: Callable[..., Awaitable[T]], *args: object) -> T:
    """Return the answer about groups on the target; with a loss accepted, without coordinators away.

    :raises DrkitError: as `ask`; ClusterUnreachable names the brokers that are away
    """
    leave = PASSES if context.request.leaves_groups else ()
    try:
        answer: T = context.run(partial(ask, leave=leave), context.target, *args)
    except ClusterUnreachable as error:
        if context.request.planned or isinstance(error, RawError):
            raise
        where = in_line(context.flow.target, context.run(brokers_away, context.target))
        raise ClusterUnreachable("coordinator_away", where=where, evidence=error.in_short) from error
    return answer


def ask_target(context: Context, groups: Iterable[str]) -> tuple[dict[str, TargetGroup], dict[str, str]]:
    """Return groups on the target; and those that :func:`from_target` leaves → why they get no position."""
    wanted = sorted(groups)
    found = from_target(context, on_target, wanted)
    away = [group for group in wanted if group not in found]
    where = in_line(context.flow.target, context.run(brokers_away, context.target)) if away else ""
    why = f"its coordinator ({where}) is away; when it is back, before consumers start"
    return found, {group: f"{why}: {translate_group(group)}" for group in away}


def checkpoints_age(state: FlowState, now_ms: int) -> float | None:
    """Return the seconds since a round of checkpoints last succeeded, or None if unknown.

    A round that failed may have written nothing for some groups, so its time does not count.
    """
    last = state.get(CheckpointsRecord)
    return last.age_seconds(now_ms) if last is not None else None


def checkpointed(checkpoints: Checkpoints, known: CopiedTopics, marks: Positions) -> Positions:
    """Return the groups' committed offsets as recorded on the target: checkpoints, else drkit's marks.

    A void mark is no position, and a checkpoint that is older is one of an earlier log.
    """
    names, recorded = known.upstream, {g: dict(p) for g, p in marks.items()}
    for group in checkpoints:
        for tp, checkpoint in checkpoints[group].items():
            source_tp = TopicPartition(names.get(tp.topic, ""), tp.partition)
            void = recorded.get(group, {}).get(source_tp, StoredOffset(0)).void
            if tp.topic in names and (void is None or void.written_ms <= checkpoint.at_ms):
                recorded.setdefault(group, {})[source_tp] = StoredOffset(checkpoint.upstream)
    positions = {g: {tp: s for tp, s in p.items() if s.void is None} for g, p in recorded.items()}
    return {g: p for g, p in positions.items() if p}


async def marked(
    target: RawCluster,
    flow: FlowSettings,
    known: CopiedTopics,
    groups: Collection[str] | None = None,
    leave: Container[int] = (),
) -> Positions:
    """Return source offsets by the marks of groups (None: as :func:`committed_in`); void marks as stored."""
    client, names = Groups(target), known.upstream
    if groups is None:
        groups = list(filter(flow.group_filter.accepts, await client.listed(leave)))
    out: Positions = {}
    for group, answer in (await client.committed(sorted(groups))).items():
        for tp, offset in (answer.value or {}).items():
            position, mark = StoredOffset(*offset), OffsetMark.of(offset.metadata)
            if mark is None or mark.source != flow.source or tp.topic not in names:
                continue
            if mark.upstream is not None:
                position = StoredOffset(mark.upstream)
            elif position.void is None:
                continue  # the group has committed since
            source_tp = TopicPartition(names[tp.topic], tp.partition)
            out.setdefault(group, {})[source_tp] = position
    return out


async def on_target(
    target: RawCluster, groups: Iterable[str], leave: Container[int] = ()
) -> dict[str, TargetGroup]:
    """Return groups on the target, without errors in `leave`. Raises DrkitError: it refuses."""
    client = Groups(target)
    described = values_of(await client.describe(groups), "ask about", target.alias, leave)
    committed = values_of(await client.committed(described), "read the offsets of", target.alias, leave)
    out = {}
    for group in committed:
        members = tuple(
            f"{'static member ' + m.instance if m.instance is not None else m.client or m.id} on {m.host}"
            for m in described[group].members
        )
        stored = {tp: StoredOffset(*c) for tp, c in committed[group].items()}
        out[group] = TargetGroup(described[group].state, members, stored)
    return out


def positions_to_json(positions: Mapping[str, Mapping[TopicPartition, StoredOffset]]) -> dict[str, Any]:
    """Return positions as plain data, for the journal."""
    return {g: {str(tp): [s.offset, s.metadata] for tp, s in p.items()} for g, p in positions.items()}


def positions_from_json(raw: Mapping[str, Mapping[str, Any]]) -> Positions:
    """Return positions from the journal's data."""
    return {g: {partition_of(tp): StoredOffset(*s) for tp, s in p.items()} for g, p in raw.items()}


def partition_of(text: str) -> TopicPartition:
    """Return the partition with this name, such as ``topic-0``."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


async def write(cluster: RawCluster, writes: Positions) -> dict[str, dict[TopicPartition, str]]:
    """Write and read back; return the offsets that were not stored, with the reason."""
    commits = {g: {tp: Committed(*s) for tp, s in p.items()} for g, p in writes.items()}
    return await Groups(cluster).store(commits)


async def restore(
    cluster: RawCluster, source: str, before: Mapping[str, Mapping[str, list[Any] | None]]
) -> int:
    """Restore earlier offsets where drkit's, marked with `source`, are still stored; return their number."""
    groups = Groups(cluster)
    committed = await groups.committed(before)
    restored: dict[str, dict[TopicPartition, Committed]] = {}
    number = 0
    for group, partitions in before.items():
        gone = []
        for text, value in partitions.items():
            tp = partition_of(text)
            now = (committed[group].value or {}).get(tp)
            if now is None or not StoredOffset(*now).is_from(source):
                continue  # the group has committed since
            if value is None:
                gone.append(tp)
            else:
                restored.setdefault(group, {})[tp] = Committed(*value)
        if gone:
            await groups.delete_offsets(group, gone)
            number += len(gone)
    await groups.alter(restored)
    return number + sum(map(len, restored.values()))


def evict_members(
    context: Context,
    step: StepName,
    cluster: RawCluster,
    groups: Iterable[str],
    command: object = FAILOVER.resume,
) -> None:
    """Remove every member of some groups; live ones rejoin. `command`: after they stop. Raises Failed."""
    described = context.run(on_target, cluster, list(groups))
    full = {g: list(t.members) for g, t in described.items() if t.members}
    if not full:
        return
    with context.effect(step, f"evict members from {min(full)}", members=full) as outcome:
        failed: dict[str, str] = context.run(leave_groups, cluster, list(full))
        outcome["failed"] = failed
    if failed:
        evidence = first_of(f"{g}: {reason}" for g, reason in sorted(failed.items()))
        raise Failed("members_not_removed", where=cluster.alias, evidence=evidence, command=command)
