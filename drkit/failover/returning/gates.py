"""Reasons to refuse a method, checked before anything is destroyed.

With the method keep the tail becomes part of both logs, so all of it must be certain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from drkit.counted import counted, first_of
from drkit.errors import Failed, Refused
from drkit.export.check import check_files
from drkit.export.record import HoleKind
from drkit.failover.core.commands import NOTHING, begin_command, retry_command
from drkit.failover.core.context import Context
from drkit.failover.core.request import EVERY_TOPIC, Disposition, Method, RunRequest, choice_for
from drkit.failover.core.reverse import reverse_flow
from drkit.failover.groups.offsets import Positions, committed_in
from drkit.failover.loss.findings import CopyFate, DivergenceState
from drkit.failover.loss.log_cursor import first_record
from drkit.failover.loss.new_primary import emptied_before
from drkit.failover.loss.positions import positions_of
from drkit.failover.old_primary.altered import of_own, way_out
from drkit.failover.old_primary.readers import refuse_other_flows
from drkit.failover.returning.compare import NeedsMethod, cuts_of
from drkit.failover.returning.scope import pairs
from drkit.flow_state.records import IncompleteRecord
from drkit.journal.machine import RETURN, StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import EARLIEST, listed, metadata
from drkit.kafka.topics import describe_topics, topic_configs
from drkit.model import TopicPartition
from drkit.offsets.translation import Exact, PartitionPosition
from drkit.topology.topic_configs import is_compacted

Methods = Mapping[TopicPartition, Method]


def refuse_keep(context: Context, unsound: Mapping[TopicPartition, NeedsMethod], methods: Methods) -> None:
    """Refuse the method keep where a tail cannot become part of both logs. Raises Refused, DrkitError."""
    kept = sorted(tp for tp, m in methods.items() if m is Method.KEEP)
    topics = sorted({tp.topic for tp in kept})
    if not kept:
        return
    _refuse_unclear(context, unsound, methods, topics)
    chosen = {t: choice_for(context.request.dispositions, t) for t in topics}
    others = [t for t, disposition in chosen.items() if disposition not in {None, Disposition.REPLAY}]
    if others:
        raise Refused(
            "keep_contradicts",
            where=context.flow.name,
            evidence=first_of(f"--disposition {t}={chosen[t]}" for t in others),
            command=retry_command(context, RunRequest(dispositions={others[0]: Disposition.REPLAY})),
            other_command=retry_command(context, RunRequest(methods={others[0]: Method.REBUILD})),
        )
    refuse_compacted(context, topics)
    _refuse_unfinished(context, kept)


def _refuse_unclear(
    context: Context, unsound: Mapping[TopicPartition, NeedsMethod], methods: Methods, topics: Collection[str]
) -> None:
    """Refuse topics with a partition that has anything but a tail after a proven beginning."""
    wrong = []
    for tp, method in sorted(methods.items()):
        if tp.topic not in topics or (method is Method.DELTA and tp not in unsound):
            continue
        if method is not Method.KEEP:
            wrong.append(f"{tp}: it is younger than the failover")
        elif (known := context.state.get(IncompleteRecord, tp.topic)) and tp.partition in known.emptied:
            wrong.append(f"{tp}: the return {known.run_id}, which was aborted, has emptied it")
        elif reason := unsound[tp].why_not_kept:
            wrong.append(f"{tp}: {reason}")
    if wrong:
        hint = retry_command(context, RunRequest(methods={min(topics): Method.REBUILD}))
        raise Refused("keep_unproven", where=context.flow.source, evidence=first_of(wrong), hint=hint)


def refuse_compacted(context: Context, topics: Collection[str]) -> None:
    """Refuse compacted topics: with the same records in another order another value of a key wins.

    A topic may become one while the return is held; what was decided is not decided again then.
    """
    names = {context.scope.topics[t]: t for t in topics}
    policies = topic_configs(context.target_admin(), names)
    wrong = {names[t] for t, c in policies.items() if is_compacted(c)}
    if context.source() is not None:
        old_policies = topic_configs(Cluster.connect(context.source_settings), topics)
        wrong |= {t for t, c in old_policies.items() if is_compacted(c)}
    if wrong:
        hint = with_rebuild(context, min(wrong))
        evidence = first_of(sorted(wrong))
        raise Refused("keep_compacted", where=context.flow.source, evidence=evidence, hint=hint)


def with_rebuild(context: Context, topic: str, more: RunRequest = NOTHING) -> str:
    """Return the command that empties a topic instead, now or after an abort if this run has decided."""
    rebuilt = more.plus(RunRequest(methods={topic: Method.REBUILD}))
    if not context.result(StepName.DECIDE):
        return str(retry_command(context, rebuilt))
    replayed = rebuilt.plus(RunRequest(dispositions={topic: Disposition.REPLAY}))
    return f"{RETURN.abort}; then {begin_command(context, context.request.plus(replayed))}"


def _refuse_unfinished(context: Context, kept: Sequence[TopicPartition]) -> None:
    """Refuse a second tail before the copy had passed an earlier one."""
    positions = positions_of(context, [context.known.pair(*tp) for tp in kept])
    wrong = []
    for tp in kept:
        position = positions[tp]
        if isinstance(position, PartitionPosition) and position.crossings:
            end = position.crossings[-1].source_end
            if position.frontier is None or position.frontier < end:
                wrong.append(f"{tp}: copied up to {position.frontier}, a tail was kept up to {end}")
    if wrong:
        hint = retry_command(context, _rebuilt(kept[:1]))
        raise Refused("keep_after_kept", where=context.flow.name, evidence=first_of(wrong), hint=hint)


def refuse_copied_back(context: Context, topics: Collection[str]) -> None:
    """Refuse tails that contain records of the new primary: they would be copied a second time."""
    exported = context.result(StepName.EXPORT)
    with way_out(partial(of_own, context, topics)):
        manifest = check_files(exported["manifest"], exported["sha256"])
    wrong = [
        f"{p.topic}-{p.partition}"
        for p in manifest.partitions
        if p.topic in topics and any(part.holes.get(HoleKind.COPIED_BACK) for part in p.parts)
    ]
    if wrong:
        hint = retry_command(context, RunRequest(methods={min(topics): Method.REBUILD}))
        raise Refused("keep_mixed", where=context.flow.source, evidence=first_of(wrong), hint=hint)


_NOTHING_COPIED: Final = frozenset({DivergenceState.GONE, DivergenceState.RECREATED})
"""Classes of partitions whose records, if any, are not those that were copied."""


def refuse_methods(context: Context, found: Iterable[NeedsMethod], methods: Methods) -> None:
    """Refuse methods that cannot be used now. Raises Refused, or DrkitError if a cluster is silent."""
    unsound = {u.at: u for u in found}
    old, new = context.flow.source, context.flow.target
    if more := sorted(str(tp) for tp, u in unsound.items() if u.tail.found is DivergenceState.MORE):
        retry, flow = retry_command(context), context.flow.name
        raise Refused(
            "fewer_partitions", where=old, evidence=first_of(more), target=new, command=retry, flow=flow
        )
    refuse_keep(context, unsound, methods)
    if delta := {tp: f"{tp}: {unsound[tp].why}" for tp, m in sorted(methods.items()) if m is Method.DELTA}:
        command = retry_command(context, _rebuilt(delta))
        raise Refused("delta_out_of_order", where=old, evidence=first_of(delta.values()), command=command)
    trimmed = {tp for tp, m in methods.items() if m is Method.TRIM}
    # Where clients began to write is unknown in a copy that has lost records.
    regressed = (tp for tp, u in sorted(unsound.items()) if u.tail.copy is CopyFate.REGRESSED)
    if short := [tp for tp in regressed if tp in trimmed]:
        command = retry_command(context, _rebuilt(short))
        raise Refused(
            "new_primary_lost_records", where=new, evidence=first_of(map(str, short)), command=command
        )
    emptied = {tp: m for tp, m in methods.items() if m.empties}
    if not emptied:
        return
    refuse_other_flows(context, {tp.topic for tp in emptied})
    if trimmed:
        _refuse_trim(context, trimmed)
    refuse_lost_history(context, unsound.values(), emptied)


def _refuse_trim(context: Context, trimmed: set[TopicPartition]) -> None:
    """Refuse to lose the only value of a key, or the position of a group that is before the cut."""
    names = {context.scope.topics[tp.topic]: tp.topic for tp in trimmed}
    configs = topic_configs(context.target_admin(), names)
    if compacted := sorted({names[t] for t, c in configs.items() if is_compacted(c)}):
        hint = retry_command(context, RunRequest(methods={compacted[0]: Method.REBUILD}))
        raise Refused("trim_compacted", where=context.flow.source, evidence=first_of(compacted), hint=hint)
    if early := _early(context, trimmed):
        raise Refused(
            "groups_before_trim",
            where=context.flow.target,
            evidence=first_of(early.values()),
            groups=counted(len(early), "group"),
            command=retry_command(context, _rebuilt(g.at for g in early)),
        )


def refuse_keep_of_gone(context: Context, lost: Collection[str], methods: Methods) -> None:
    """Refuse to keep a tail of `lost` topics: a part of it is gone. Raises Refused."""
    if wrong := sorted({tp.topic for tp, m in methods.items() if m is Method.KEEP and tp.topic in lost}):
        first = wrong[0]
        rebuilt = RunRequest(methods={first: Method.REBUILD}, dispositions={first: Disposition.REPLAY})
        hint = retry_command(context, rebuilt)
        raise Refused("keep_lost_records", where=context.flow.source, evidence=first_of(wrong), hint=hint)


def _rebuilt(partitions: Iterable[TopicPartition]) -> RunRequest:
    return RunRequest(methods=dict.fromkeys(sorted({tp.topic for tp in partitions}), Method.REBUILD))


def refuse_lagging_replicas(context: Context, topics: Collection[str]) -> None:
    """Refuse to empty while the new primary, which has the only copy then, has a replica out of sync.

    What the old primary has is kept and exported all the same: only the steps after a decision wait.

    :raises DrkitError: the new primary does not answer
    """
    names = [context.scope.topics[t] for t in topics]
    if lagging := [
        f"{name}-{number}: {len(p.in_sync)} of {len(p.replicas)}"
        for name, topic in sorted(describe_topics(context.target_admin(), names).items() if names else ())
        for number, p in sorted(topic.leaders.items())
        if len(p.in_sync) < len(p.replicas)
    ]:
        command = retry_command(context)
        raise Refused(
            "replicas_out_of_sync", where=context.flow.target, evidence=first_of(lagging), command=command
        )


def early_groups(context: Context, trimmed: Iterable[TopicPartition]) -> list[str]:
    """Return groups that have not read up to the cut. Raises DrkitError if the new primary is silent."""
    return list(_early(context, set(trimmed)).values())


def _early(context: Context, trimmed: set[TopicPartition]) -> dict[GroupAt, str]:
    cuts = cuts_of(context)
    early = (g for g in _positions_in(context, trimmed) if g.offset < cuts[g.at])
    return {g: f"{g.group} at {g.offset} of {g.target}, clients began at {cuts[g.at]}" for g in early}


def late_groups(context: Context, kept: Iterable[TopicPartition]) -> list[str]:
    """Return the groups on the new primary that have read what clients wrote since, with their offsets.

    Until they have read the tail that is appended after it they have no position on the old primary.

    :raises DrkitError: the new primary does not answer
    """
    cuts = cuts_of(context)
    late = (g for g in _positions_in(context, set(kept)) if g.offset > cuts[g.at])
    return [f"{g.group} at {g.offset} of {g.target}" for g in late]


class GroupAt(NamedTuple):
    """A committed offset of a group on the new primary."""

    group: str
    target: TopicPartition
    at: TopicPartition
    offset: int


def _positions_in(context: Context, partitions: set[TopicPartition]) -> list[GroupAt]:
    """Return the committed offsets of all groups that the reverse flow translates, in old partitions."""
    names = {context.scope.topics[tp.topic]: tp.topic for tp in partitions}
    committed: Positions = context.run(committed_in, context.target, reverse_flow(context), names)
    return [
        GroupAt(group, target, tp, stored.offset)
        for group, offsets in committed.items()
        for target, stored in sorted(offsets.items())
        if (tp := TopicPartition(names[target.topic], target.partition)) in partitions
    ]


def refuse_lost_history(context: Context, unsound: Iterable[NeedsMethod], methods: Methods) -> None:
    """Refuse to rebuild from a log that begins later than the old primary's, unless given up by name."""
    never = {u.at for u in unsound if u.tail.found in _NOTHING_COPIED}
    rebuilt = {tp for tp, m in methods.items() if m is Method.REBUILD and tp not in never}
    given_up = set(context.request.give_up_history)
    checked = {tp for tp in rebuilt if not given_up & {tp.topic, EVERY_TOPIC}}
    lost = [f"{tp}: {n} offsets" for tp, n in _lost_history(context, checked)] if checked else []
    if lost:
        command = retry_command(context, RunRequest(give_up_history=("TOPIC",)))
        where = context.flow.source
        raise Refused("rebuild_loses_history", where=where, evidence=first_of(lost), command=command)


def _lost_history(context: Context, rebuilt: set[TopicPartition]) -> Iterator[tuple[TopicPartition, int]]:
    """Yield old partitions with copied records that the new primary has removed, and how many offsets."""
    source = context.source()
    copies = [p for p in pairs(context) if p.source in rebuilt]
    if source is None:
        return
    old_topics = context.run(metadata, source, sorted({w.source.topic for w in copies}))
    starts = context.run(listed, source, old_topics, [w.source for w in copies], EARLIEST)
    new_topics = context.run(metadata, context.target, sorted({w.target.topic for w in copies}))
    began = context.run(listed, context.target, new_topics, [w.target for w in copies], EARLIEST)
    positions = positions_of(context, copies)
    risen = emptied_before(context, {t: topic.topic_id for t, topic in old_topics.items()})
    for w in copies:
        known = positions[w.source]
        if w.target not in began:
            evidence = "its leader does not answer"
            hint = retry_command(context)
            raise Failed("new_start_unknown", where=str(w.target), evidence=evidence, hint=hint)
        if not isinstance(known, PartitionPosition) or w.source not in starts or not len(known.segments):
            continue
        first = known.backward(began[w.target])
        if not isinstance(first, Exact):
            continue
        # What an earlier return has deleted there, and a crash brought back, was given up or copied again.
        begins = max(starts[w.source], risen.get(w.source, 0))
        span = (begins, min(first.offset, known.frontier or 0))
        if span[0] < span[1] and context.run(first_record, source, w.source, span) is not None:
            yield w.source, span[1] - span[0]
