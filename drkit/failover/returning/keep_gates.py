"""Reasons to refuse the method keep: the tail becomes part of both logs, so all of it must be certain."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from drkit.counted import first_of
from drkit.errors import Refused
from drkit.export.check import check_files
from drkit.export.record import HoleKind
from drkit.failover.core.choices import Disposition, Method, choice_for
from drkit.failover.core.commands import NOTHING, begin_command, retry_command
from drkit.failover.core.context import Context
from drkit.failover.core.machine import RETURN, StepName
from drkit.failover.core.request import RunRequest
from drkit.failover.loss.findings import CopyFate, DivergenceState
from drkit.failover.loss.positions import positions_of
from drkit.failover.old_primary.altered import of_own, way_out
from drkit.failover.returning.tails import Unsound
from drkit.flow_state.records import IncompleteRecord
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from drkit.model import TopicPartition
from drkit.next_command import NextCommand
from drkit.offsets.translation import PartitionPosition
from drkit.topology.topic_configs import is_compacted

Methods = Mapping[TopicPartition, Method]


def refuse_keep(context: Context, found: Mapping[TopicPartition, Unsound], methods: Methods) -> None:
    """Refuse the method keep where a tail cannot become part of both logs.

    :param found: partitions whose records cannot simply stay
    :raises Refused: it cannot
    :raises DrkitError: a cluster does not answer
    """
    kept = sorted(at for at, m in methods.items() if m is Method.KEEP)
    topics = sorted({at.topic for at in kept})
    if not kept:
        return
    _refuse_unclear(context, found, methods, topics)
    chosen = {t: choice_for(context.request.dispositions, t) for t in topics}
    others = [t for t, said in chosen.items() if said not in {None, Disposition.REPLAY}]
    if others:
        raise Refused(
            "keep_contradicts",
            where=context.flow.name,
            evidence=first_of(f"--disposition {t}={chosen[t]}" for t in others),
            command=retry_command(context, RunRequest(dispositions={others[0]: Disposition.REPLAY})),
            other_command=_rebuild_instead(context, others[0]),
        )
    refuse_compacted(context, topics)
    _refuse_unfinished(context, kept)


def _refuse_unclear(
    context: Context, found: Mapping[TopicPartition, Unsound], methods: Methods, topics: Collection[str]
) -> None:
    """Refuse topics with a partition that has anything but a tail after a proven beginning."""
    wrong = []
    for at, method in sorted(methods.items()):
        if at.topic not in topics or (method is Method.DELTA and at not in found):
            continue
        if method is not Method.KEEP:
            wrong.append(f"{at}: it is younger than the failover")
        elif (known := context.state.get(IncompleteRecord, at.topic)) and at.partition in known.emptied:
            wrong.append(f"{at}: the return {known.run_id}, which was aborted, has emptied it")
        elif why := _why_not(found[at]):
            wrong.append(f"{at}: {why}")
    if wrong:
        raise Refused(
            "keep_unproven",
            where=context.flow.source,
            evidence=first_of(wrong),
            hint=_rebuild_instead(context, min(topics)),
        )


def _why_not(unsound: Unsound) -> str:
    tail = unsound.tail
    if tail.found is not DivergenceState.DIVERGED or not unsound.has_tail:
        return unsound.why
    if tail.copy is not CopyFate.KEPT or tail.only_new or tail.differs_from is not None:
        return tail.in_words
    if not tail.proven:
        return tail.why or "that it has what was copied could not be proven"
    return ""


def refuse_compacted(context: Context, topics: Collection[str]) -> None:
    """Refuse compacted topics: with the same records in another order another value of a key wins.

    A topic may become one while the return is held; what was decided is not decided again then.

    :param topics: by their names on the old primary
    :raises Refused: there is one
    """
    names = {context.scope.topics[t]: t for t in topics}
    policies = topic_configs(context.target_admin(), names)
    wrong = {names[t] for t, c in policies.items() if is_compacted(c)}
    if context.source() is not None:
        theirs = topic_configs(Cluster.connect(context.source_settings), topics)
        wrong |= {t for t, c in theirs.items() if is_compacted(c)}
    if wrong:
        raise Refused(
            "keep_compacted",
            where=context.flow.source,
            evidence=first_of(sorted(wrong)),
            hint=with_rebuild(context, min(wrong)),
        )


def _rebuild_instead(context: Context, topic: str) -> NextCommand:
    return retry_command(context, RunRequest(methods={topic: Method.REBUILD}))


def with_rebuild(context: Context, topic: str, more: RunRequest = NOTHING) -> str:
    """Return the command that empties a topic instead: in this run, or in the next if this one has decided.

    :param topic: its name on the old primary
    :param more: options that it needs in addition
    """
    rebuilt = more.plus(RunRequest(methods={topic: Method.REBUILD}))
    if not context.result(StepName.DECIDE):
        return str(retry_command(context, rebuilt))
    replayed = rebuilt.plus(RunRequest(dispositions={topic: Disposition.REPLAY}))
    return f"{RETURN.abort}; then {begin_command(context, context.request.plus(replayed))}"


def _refuse_unfinished(context: Context, kept: Collection[TopicPartition]) -> None:
    """Refuse a second tail before the copy had passed an earlier one."""
    positions = positions_of(context, [context.known.pair(*at) for at in kept])
    wrong = []
    for at in kept:
        place = positions[at]
        if isinstance(place, PartitionPosition) and place.crossings:
            end = place.crossings[-1].source_end
            if place.frontier is None or place.frontier < end:
                wrong.append(f"{at}: copied up to {place.frontier}, a tail was kept up to {end}")
    if wrong:
        raise Refused(
            "keep_after_kept",
            where=context.flow.name,
            evidence=first_of(wrong),
            hint=_rebuild_instead(context, min(kept).topic),
        )


def refuse_copied_back(context: Context, topics: Collection[str]) -> None:
    """Refuse tails that contain records of the new primary: they would be copied a second time.

    :param topics: by their names on the old primary
    :raises Refused: there are some
    """
    exported = context.result(StepName.EXPORT)
    with way_out(partial(of_own, context, topics)):
        manifest = check_files(exported["manifest"], exported["sha256"])
    wrong = [
        f"{p.topic}-{p.partition}"
        for p in manifest.partitions
        if p.topic in topics and any(part.holes.get(HoleKind.COPIED_BACK) for part in p.parts)
    ]
    if wrong:
        raise Refused(
            "keep_mixed",
            where=context.flow.source,
            evidence=first_of(wrong),
            hint=_rebuild_instead(context, min(topics)),
        )
