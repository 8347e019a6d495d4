"""Begin the copy of each partition in the reverse flow: with the flow's map inverted, or an emptied log.

A tail that the old primary keeps is appended to the new one before the reverse flow begins its partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from drkit.counted import first_of
from drkit.errors import Failed, Refused
from drkit.failover.core.commands import retry_command
from drkit.failover.core.context import Context
from drkit.failover.core.request import EVERY_TOPIC, Disposition, Method, RunRequest
from drkit.failover.core.reverse import Reverse
from drkit.failover.loss.log_cursor import first_record
from drkit.failover.loss.positions import positions_of
from drkit.failover.returning.compare import cuts_of
from drkit.failover.returning.exporting import EXPORT
from drkit.failover.returning.gates import Methods
from drkit.failover.returning.replays import planned_replay, tell_replay
from drkit.failover.returning.scope import pairs, turned, unplanned
from drkit.flow_state.copied_topics import CopiedPartition
from drkit.flow_state.left_out import KeptTail
from drkit.flow_state.records import GenerationRecord
from drkit.journal.machine import RETURN, StepName
from drkit.kafka import codes
from drkit.kafka.requests import EARLIEST, TopicMetadata, listed, metadata, metadata_of_all
from drkit.model import TopicPartition
from drkit.offset_map.seeding import SeededPartition, write_seeds
from drkit.offsets.crossing import Crossing
from drkit.offsets.seed import CopyEnd, inverted, seed_after, seed_of_emptied
from drkit.offsets.translation import PartitionPosition
from drkit.replay.run import roll_back_kept

APPEND: Final = "append "
"""The effect's name before the topic."""


class AppendedTail(NamedTuple):
    """A tail on both sides."""

    first: int
    """Offset of its first record on the old primary."""
    copy: KeptTail


def append_kept(context: Context, topic: str) -> dict[TopicPartition, AppendedTail]:
    """Append the tails of a topic to the new primary, from the export; repeated, nothing twice.

    :raises Refused: the new primary has records of it already, or does not take them
    :raises Failed: not all of it was appended
    :raises DrkitError: the new primary does not answer, or refuses
    """
    with (
        context.effect(StepName.BEGIN, APPEND + topic) as outcome,
        planned_replay(context, Disposition.REPLAY, [topic], kept=True) as (replayer, plan),
    ):
        done = replayer.run(plan, partial(tell_replay, context, StepName.BEGIN))
        records = {t.source: t.records for t in plan.export.tails}
        firsts = {t.source: next(t.read()).offset for t in plan.export.tails}
        tails = {}
        for tp, result in sorted(done.items()):
            if result.appended != records[tp] or not result.ids or result.copied_to is None:
                evidence = f"{result.appended} of {records[tp]} records"
                where = f"{tp} of {context.flow.source}"
                raise Failed("keep_not_appended", where=where, evidence=evidence, command=RETURN.command)
            copy = KeptTail(result.copied_to, frozenset(result.ids))
            tails[tp] = AppendedTail(firsts[tp], copy)
            outcome[str(tp)] = {"appended": result.appended, "up to": result.copied_to}
    return tails


def roll_back_kept_tails(context: Context, decided: Methods, topics: Collection[str]) -> list[str]:
    """Let others append what is left of the tails that were to be kept; what was appended stays.

    :param decided: partition of the old primary → its method
    :param topics: those that are not begun, by their names there
    :returns: notes for a person
    :raises DrkitError: the new primary does not answer, or refuses
    """
    done = [t for t in topics if APPEND + t in context.effects(StepName.BEGIN)]
    if not done:
        return []
    names = context.scope.topics
    kept = [TopicPartition(names[tp.topic], tp.partition) for tp, method in decided.items()
            if tp.topic in done and method is Method.KEEP]  # fmt: skip
    run_id = context.effects(StepName.EXPORT)[EXPORT]["intent"]["run"]
    roll_back_kept(context.target_settings, context.flow, run_id, kept)
    note = (
        f"exported records that were appended to {context.flow.target} stay there: {first_of(done)}; when"
        " it returns, --disposition TOPIC=replay appends only what is missing"
    )
    return [note]


_KNOWN_SECONDS: Final = 20.0
_NONE_KEPT: Final[Mapping[TopicPartition, AppendedTail]] = {}


def seed(
    context: Context, back: Reverse, topics: Collection[str], methods: Methods, effect: str,
    kept: Mapping[TopicPartition, AppendedTail] = _NONE_KEPT,
) -> None:  # fmt: skip
    """Begin the reverse flow's map of some topics, and record which topics are copies of which.

    :param methods: by partition of the old primary; a partition without one is continued
    :param effect: its name in the journal
    :param kept: tails that stay, as they were appended to the new primary
    :raises Refused: a partition of the old primary does not end where it did
    :raises DrkitError: a cluster does not answer, or refuses
    """
    seeds = _seeds(context, topics, methods, kept)
    begins = {str(s.partition.source): [s.seed.upstream, s.seed.downstream] for s in seeds}
    with context.effect(StepName.BEGIN, effect, begins=begins) as outcome:
        write_seeds(back.target, back.flow, back.state, seeds)
        known = back.state.all(GenerationRecord)
        records = {
            s.partition.source.topic: GenerationRecord(
                s.partition.target.topic, s.partition.source_id, s.partition.target_id,
                source_cluster=context.target_admin().cluster_id,
            )
            for s in seeds
        }  # fmt: skip
        same = {t: (r.target, r.source_id, r.target_id) for t, r in known.items()}
        new = ((t, r) for t, r in records.items() if same.get(t) != (r.target, r.source_id, r.target_id))
        back.state.put_all(new)
        outcome["partitions"] = len(seeds)


def _seeds(
    context: Context, topics: Collection[str], methods: Methods, kept: Mapping[TopicPartition, AppendedTail]
) -> list[SeededPartition]:
    ends = context.result(StepName.COMPARE)["ends"]
    copies = [p for p in pairs(context) if p.source.topic in topics]
    younger = {tp for tp in methods if tp.topic in topics} - {p.source for p in copies}
    copies += [context.known.pair(*tp) for tp in sorted(younger)]
    emptied = [p for p in copies if methods.get(p.source, Method.DELTA).empties]
    starts = _starts(context, copies)
    # Whatever the new primary has of a partition that is younger than the failover, clients wrote since.
    began = cuts_of(context)
    cuts = {p.source: max(began.get(p.source, 0), starts[p.target]) for p in copies}
    ids = _ids(context, topics) if emptied else {}
    positions = positions_of(context, [p for p in copies if not methods.get(p.source, Method.DELTA).empties])
    seeds = []
    for pair in copies:
        tp, end = pair.source, ends.get(str(pair.source), 0)
        by_now = turned(pair)._replace(target_id=ids.get(tp.topic, pair.source_id))
        cut, method = cuts[tp], methods.get(tp, Method.DELTA)
        if method.empties:
            rebuilt = method is Method.REBUILD
            upstream = min(starts[pair.target], cut) if rebuilt else cut
            first = None if rebuilt else _first(context, pair.target, (starts[pair.target], cut))
            seeded = seed_of_emptied(CopyEnd(upstream, end), first)
            seeds.append(SeededPartition(by_now, seeded, cut=cut, emptied=end))
            continue
        position = positions[tp]
        assert isinstance(position, PartitionPosition)  # noqa: S101  COMPARE has refused any other
        known = inverted(position.segments, position.copied_end)
        begin = known[0][0] if known else cut
        first = _first(context, pair.target, (position.start, begin))
        crossings, tail = position.inverted_crossings(), kept.get(tp)
        seeded = seed_after(position.segments, position.copied_end, CopyEnd(cut, end), first, crossings)
        if (methods.get(tp) is Method.KEEP) is (tail is None):
            raise Failed(
                "kept_tail_missing", where=str(tp), evidence=f"appended: {first_of(map(str, sorted(kept)))}"
            )
        if tail is not None:
            crossings = (*crossings, Crossing(cut, tail.copy.end, tail.first, end))
        kept_copy = tail.copy if tail is not None else None
        seeds.append(SeededPartition(by_now, seeded, crossings=crossings, kept=kept_copy))
    return seeds


def refuse_removed(context: Context, topics: Collection[str]) -> None:
    """Refuse topics whose first records since the failover the new primary has removed.

    Topics that a switchover promoted are passed over: nothing is decided about them, and the flow reports
    where their copy continues.

    :raises Refused: there are some, and they were not given up
    :raises DrkitError: the new primary does not answer
    """
    accepted = set(context.request.give_up_history)
    checked = unplanned(context).keys() & set(topics)
    checked = checked if EVERY_TOPIC not in accepted else set()
    copies = [p for p in pairs(context) if p.source.topic in checked - accepted]
    starts, cuts = _starts(context, copies), cuts_of(context)
    gone = [
        f"{p.target}: clients began at {cuts[p.source]}, it begins at {starts[p.target]}" for p in copies
        if starts[p.target] > cuts[p.source]
    ]  # fmt: skip
    if gone:
        command = retry_command(context, RunRequest(give_up_history=("TOPIC",)))
        where = context.flow.target
        raise Refused("new_primary_removed_first", where=where, evidence=first_of(gone), command=command)


def _starts(context: Context, copies: Collection[CopiedPartition]) -> dict[TopicPartition, int]:
    targets = [w.target for w in copies]
    if not targets:
        return {}
    topics = context.run(metadata, context.target, sorted({tp.topic for tp in targets}))
    starts: dict[TopicPartition, int] = context.run(listed, context.target, topics, targets, EARLIEST)
    if silent := sorted(set(targets) - starts.keys()):
        hint = f"check the cluster, then: {retry_command(context)}"
        evidence = "its leader does not answer"
        raise Failed("new_start_unknown", where=str(silent[0]), evidence=evidence, hint=hint)
    return starts


def _ids(context: Context, topics: Collection[str]) -> dict[str, UUID]:
    """Return the current ids of old topics: one may have been recreated, or created just now."""
    source = context.source()
    if source is None:
        return {}

    def ask() -> dict[str, list[TopicMetadata]]:
        described: dict[str, list[TopicMetadata]] = context.run(metadata_of_all, source, sorted(topics))
        return described

    retry = retry_if_result(lambda answers: bool(_unknown_in(answers)))
    patient = Retrying(retry=retry, stop=stop_after_delay(_KNOWN_SECONDS), wait=wait_fixed(0.2))
    try:
        answers = patient(ask)
    except RetryError as error:
        raise Failed(
            "old_topic_unknown",
            where=context.flow.source,
            evidence=first_of(_unknown_in(error.last_attempt.result())),
            command=retry_command(context),
        ) from error
    return {name: each[0].topic_id for name, each in answers.items()}


def _unknown_in(answers: Mapping[str, list[TopicMetadata]]) -> list[str]:
    return [f"{name}: {codes.error_name(t.error)}" for name, each in answers.items() for t in each if t.error]


def _first(context: Context, tp: TopicPartition, span: tuple[int, int]) -> int | None:
    if span[0] >= span[1]:
        return None
    offset: int | None = context.run(first_record, context.target, tp, span)
    return offset
