"""Reasons to refuse a method, checked before anything is destroyed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from drkit.checkpoints.other_groups import is_consumer
from drkit.counted import counted, first_of
from drkit.errors import Failed, Refused
from drkit.failover.core.choices import EVERY_TOPIC, Disposition, Method
from drkit.failover.core.commands import retry_command
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.reverse import reverse_flow
from drkit.failover.loss.findings import CopyFate, DivergenceState
from drkit.failover.loss.positions import positions_of
from drkit.failover.loss.reverse_side import emptied_before
from drkit.failover.old_primary.other_flows import refuse_other_flows
from drkit.failover.returning.compare import cuts_of
from drkit.failover.returning.first_record import first_record
from drkit.failover.returning.keep_gates import refuse_keep
from drkit.failover.returning.scope import pairs
from drkit.failover.returning.tails import Unsound
from drkit.kafka.groups.requests import Groups, failure
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import EARLIEST, listed, metadata
from drkit.kafka.topics import describe_topics, topic_configs
from drkit.model import TopicPartition
from drkit.offsets.translation import Exact, PartitionPosition
from drkit.topology.topic_configs import is_compacted

_NOTHING_COPIED: Final = frozenset({DivergenceState.GONE, DivergenceState.RECREATED})
"""Classes of partitions whose records, if any, are not those that were copied."""
Methods = Mapping[TopicPartition, Method]


def refuse_methods(context: Context, found: Iterable[Unsound], methods: Methods) -> None:
    """Refuse methods that cannot be walked now.

    :raises Refused: one cannot
    :raises DrkitError: the new primary does not answer
    """
    unsound = {u.at: u for u in found}
    _refuse_more(context, unsound)
    refuse_keep(context, unsound, methods)
    _refuse_delta(context, unsound, methods)
    _refuse_short_copies(context, unsound, methods)
    emptied = {at: m for at, m in methods.items() if m.empties}
    if not emptied:
        return
    refuse_other_flows(context, {at.topic for at in emptied})
    _refuse_compacted(context, emptied)
    if trimmed := {at for at, m in emptied.items() if m is Method.TRIM}:
        _refuse_early_groups(context, trimmed)
    refuse_lost_history(context, unsound.values(), emptied)


def refuse_keep_of_gone(context: Context, lost: Collection[str], methods: Methods) -> None:
    """Refuse the method keep for a tail of which the old primary has lost a part: it is not all of the tail.

    :param lost: topics of which something is gone
    :raises Refused: one is to be kept
    """
    wrong = sorted({at.topic for at, m in methods.items() if m is Method.KEEP and at.topic in lost})
    if wrong:
        raise Refused(
            "keep_lost_records",
            where=context.flow.source,
            evidence=first_of(wrong),
            hint=retry_command(
                context,
                RunRequest(methods={wrong[0]: Method.REBUILD}, dispositions={wrong[0]: Disposition.REPLAY}),
            ),
        )


def _refuse_more(context: Context, unsound: Mapping[TopicPartition, Unsound]) -> None:
    more = sorted(str(at) for at, u in unsound.items() if u.tail.found is DivergenceState.MORE)
    if more:
        raise Refused(
            "fewer_partitions",
            where=context.flow.source,
            evidence=first_of(more),
            target=context.flow.target,
            command=retry_command(context),
            flow=context.flow.name,
        )


def _refuse_delta(context: Context, unsound: Mapping[TopicPartition, Unsound], methods: Methods) -> None:
    wrong = {at: f"{at}: {unsound[at].why}" for at, m in sorted(methods.items()) if m is Method.DELTA}
    if wrong:
        raise Refused(
            "delta_out_of_order",
            where=context.flow.source,
            evidence=first_of(wrong.values()),
            command=retry_command(context, _rebuilt(wrong)),
        )


def _refuse_short_copies(
    context: Context, unsound: Mapping[TopicPartition, Unsound], methods: Methods
) -> None:
    """Refuse to trim where the copy has lost records: where clients began to write there is unknown."""
    short = [at for at, u in sorted(unsound.items())
             if u.tail.copy is CopyFate.REGRESSED and methods.get(at) is Method.TRIM]  # fmt: skip
    if short:
        raise Refused(
            "new_primary_lost_records",
            where=context.flow.target,
            evidence=first_of(map(str, short)),
            command=retry_command(context, _rebuilt(short)),
        )


def _rebuilt(some: Iterable[TopicPartition]) -> RunRequest:
    return RunRequest(methods=dict.fromkeys(sorted({at.topic for at in some}), Method.REBUILD))


def _refuse_compacted(context: Context, methods: Methods) -> None:
    """Refuse what would lose the only value of a key."""
    names = {context.scope.topics[at.topic]: at.topic for at in methods}
    configs = topic_configs(context.target_admin(), names)
    compacted = {names[t] for t, c in configs.items() if is_compacted(c)}
    if wrong := sorted({at.topic for at, m in methods.items() if at.topic in compacted and m is Method.TRIM}):
        raise Refused(
            "trim_compacted",
            where=context.flow.source,
            evidence=first_of(wrong),
            hint=retry_command(context, RunRequest(methods={wrong[0]: Method.REBUILD})),
        )


def refuse_lagging(context: Context, methods: Methods) -> None:
    """As :func:`refuse_lagging_replicas`, of the topics of which partitions are emptied.

    What the old primary has is kept and exported all the same: only what follows a decision waits for it.
    """
    refuse_lagging_replicas(context, {at.topic for at, m in methods.items() if m.empties})


def refuse_lagging_replicas(context: Context, topics: Collection[str]) -> None:
    """Refuse to empty while the new primary, which has the only copy then, has a replica out of sync.

    :param topics: by their names on the old primary
    :raises Refused: it has
    :raises DrkitError: the new primary does not answer
    """
    names = [context.scope.topics[t] for t in topics]
    lagging = [
        f"{name}-{number}: {len(p.in_sync)} of {len(p.replicas)}"
        for name, topic in sorted(describe_topics(context.target_admin(), names).items() if names else ())
        for number, p in sorted(topic.leaders.items())
        if len(p.in_sync) < len(p.replicas)
    ]
    if lagging:
        raise Refused(
            "replicas_out_of_sync",
            where=context.flow.target,
            evidence=first_of(lagging),
            command=retry_command(context),
        )


def _refuse_early_groups(context: Context, trimmed: set[TopicPartition]) -> None:
    """Refuse to trim where a group on the new primary is before the cut: it would have no position."""
    if early := _early(context, trimmed):
        raise Refused(
            "groups_before_trim",
            where=context.flow.target,
            evidence=first_of(_in_words(context, early)),
            groups=counted(len(early), "group"),
            command=retry_command(context, _rebuilt(g.at for g in early)),
        )


def early_groups(context: Context, trimmed: Iterable[TopicPartition]) -> list[str]:
    """Groups on the new primary that have not read up to the cut of some partitions, and where they are.

    :raises DrkitError: the new primary does not answer
    """
    return _in_words(context, _early(context, set(trimmed)))


def _in_words(context: Context, early: Iterable[GroupAt]) -> list[str]:
    cuts = cuts_of(context)
    return [f"{g.group} at {g.offset} of {g.target}, clients began at {cuts[g.at]}" for g in early]


def _early(context: Context, trimmed: set[TopicPartition]) -> list[GroupAt]:
    cuts = cuts_of(context)
    names = {context.scope.topics[at.topic]: at.topic for at in trimmed}
    found: list[GroupAt] = context.run(positions_at, context, context.target, names)
    return [g for g in found if g.at in trimmed and g.offset < cuts[g.at]]


def late_groups(context: Context, kept: Iterable[TopicPartition]) -> list[str]:
    """Groups on the new primary that have read what clients wrote since, and where they are.

    Until they have read the tail that is appended after it they have no position on the old primary.

    :raises DrkitError: the new primary does not answer
    """
    cuts, some = cuts_of(context), set(kept)
    names = {context.scope.topics[at.topic]: at.topic for at in some}
    found: list[GroupAt] = context.run(positions_at, context, context.target, names)
    return [f"{g.group} at {g.offset} of {g.target}" for g in found if g.at in some and g.offset > cuts[g.at]]


class GroupAt(NamedTuple):
    """A committed offset of a group on the new primary."""

    group: str
    target: TopicPartition
    at: TopicPartition
    """The partition on the old primary."""
    offset: int


async def positions_at(context: Context, target: RawCluster, names: Mapping[str, str]) -> list[GroupAt]:
    """The committed offsets of all groups that the reverse flow translates, in some topics.

    :param names: topic of the new primary → of the old one
    :raises DrkitError: the new primary does not answer
    """
    asked = Groups(target)
    accepts = reverse_flow(context).group_filter.accepts
    groups = sorted(g for g, x in (await asked.listed()).items() if is_consumer(x) and accepts(g))
    found = []
    for group, answer in (await asked.committed(groups)).items():
        if answer.value is None:
            raise failure(answer.error, f"read the offsets of the group {group}", target.alias)
        for at, offset in sorted(answer.value.items()):
            if at.topic in names:
                here = TopicPartition(names[at.topic], at.partition)
                found.append(GroupAt(group, at, here, offset.offset))
    return found


def refuse_lost_history(context: Context, found: Iterable[Unsound], methods: Methods) -> None:
    """Refuse to rebuild from a log that begins later than what the old primary still has.

    :raises Refused: there is one, and it is not given up by name
    """
    never = {u.at for u in found if u.tail.found in _NOTHING_COPIED}
    rebuilt = {at for at, m in methods.items() if m is Method.REBUILD and at not in never}
    given_up = set(context.request.give_up_history)
    asked = {at for at in rebuilt if not given_up & {at.topic, EVERY_TOPIC}}
    lost = [f"{at}: {n} offsets" for at, n in _lost_history(context, asked)] if asked else []
    if lost:
        raise Refused(
            "rebuild_loses_history",
            where=context.flow.source,
            evidence=first_of(lost),
            command=retry_command(context, RunRequest(give_up_history=("TOPIC",))),
        )


def _lost_history(context: Context, rebuilt: set[TopicPartition]) -> Iterator[tuple[TopicPartition, int]]:
    """Partitions of the old primary with copied records that the new primary does not have any more."""
    source = context.source()
    wanted = [p for p in pairs(context) if p.source in rebuilt]
    if source is None:
        return
    theirs = context.run(metadata, source, sorted({w.source.topic for w in wanted}))
    starts = context.run(listed, source, theirs, [w.source for w in wanted], EARLIEST)
    ours = context.run(metadata, context.target, sorted({w.target.topic for w in wanted}))
    began = context.run(listed, context.target, ours, [w.target for w in wanted], EARLIEST)
    positions = positions_of(context, wanted)
    risen = emptied_before(context, {t: found.topic_id for t, found in theirs.items()})
    for w in wanted:
        place = positions[w.source]
        if w.target not in began:
            raise Failed(
                "new_start_unknown",
                where=str(w.target),
                evidence="its leader does not answer",
                hint=retry_command(context),
            )
        if not isinstance(place, PartitionPosition) or w.source not in starts or not len(place.segments):
            continue
        first = place.backward(began[w.target])
        if not isinstance(first, Exact):
            continue
        # What an earlier return has deleted there, and a crash brought back, was given up or copied again.
        begins = max(starts[w.source], risen.get(w.source, 0))
        span = (begins, min(first.offset, place.frontier or 0))
        if span[0] < span[1] and context.run(first_record, source, w.source, span) is not None:
            yield w.source, span[1] - span[0]
