"""The old primary against its copy: by partition and record by record, once it answers again.

The role of every promoted topic, in the flow's state, holds the first offset that was not copied and where
the copy ended. The records from the first one on are the divergent tail: lost records, and records that the
old primary accepted afterwards. Offsets alone are not believed: the last records before it are compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from drkit.checkpoints.other_groups import is_consumer
from drkit.counted import first_of
from drkit.errors import ConfigError, DrkitError, Refused
from drkit.export.manifest import TailRange
from drkit.export.request import CopiedBack
from drkit.failover.core.context import Context
from drkit.failover.core.reverse import reverse_state, share_promotions
from drkit.failover.core.step import LossEvidence
from drkit.failover.loss.content import DEPTH, Answers, MayLack, Side
from drkit.failover.loss.count import Lost, evidence_of
from drkit.failover.loss.findings import (
    CommitKind,
    CopyFate,
    Divergence,
    DivergenceState,
    OldCommit,
    PartitionDivergence,
)
from drkit.failover.loss.log_cursor import LogSide, first_answers
from drkit.failover.loss.new_primary import (
    Copy,
    NewPrimary,
    ReverseSide,
    emptied_in_vain,
    look_at_new_primary,
    reverse_side,
)
from drkit.failover.loss.outlived import with_outlived
from drkit.failover.loss.partition_check import OldPrimary, PartitionCheck, Take, check_of
from drkit.flow_state.left_out import kept_ids
from drkit.flow_state.producer_ids import on_record
from drkit.flow_state.records import PendingFence, RoleRecord
from drkit.journal.entries import JournalHistory
from drkit.journal.machine import StepName
from drkit.journal.topic import JournalReader
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import Groups
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.reading.record_cursor import epoch_ends
from drkit.kafka.requests import TopicMetadata, all_topics, metadata
from drkit.kafka.topics import topic_configs
from drkit.model import TopicPartition
from drkit.offsets.resolution import Resolution
from drkit.pair.promotions import left_behind, promotions_of
from drkit.status.lag.source import ends_of
from drkit.topology.topic_configs import is_compacted, is_expiring
from drkit.wire import Record

GroupAt = tuple[str, TopicPartition]
"""A group, and a partition of the old primary."""
Commits = dict[GroupAt, int]
_AT_ONCE: Final = 48
"""Partitions compared at once: each holds some fetch answers."""
_RECORD_BYTES: Final = 256
"""Expected size of a record in a batch: larger ones take more requests."""
_LEAST_BYTES: Final = 32 << 10


async def commits_in(source: RawCluster, topics: Collection[str]) -> Commits:
    """Return the committed offsets of consumer groups in topics. Raises DrkitError."""
    client = Groups(source)
    names = sorted(g for g, listed in (await client.listed()).items() if is_consumer(listed))
    by_group = (await client.offsets(names)).items()
    return {(group, tp): c.offset for group, of in by_group for tp, c in of.items() if tp.topic in topics}


def translated_by(context: Context, runs: Mapping[str, str]) -> Commits:
    """Return the source offsets that failovers translated; `runs`: topic → its run. Raises DrkitError."""
    history: JournalHistory = context.run(JournalReader(context.target, context.flow.source).read_existing)
    offsets: Commits = {}
    for run_id in sorted(set(runs.values())):
        run = history.runs.get(run_id)
        if run is None:
            continue
        evidence = run.results.get(StepName.TRANSLATE, {}).get("evidence", {})
        names = {to: name for name, to in run.scope.get("topics", {}).items()}
        for group, positions in evidence.get("positions", {}).items():
            for target, (upstream, *_) in positions.items():
                topic, _, number = target.rpartition("-")
                name = names.get(topic, "")
                if runs.get(name) == run_id:
                    offsets[group, TopicPartition(name, int(number))] = upstream
    return offsets


class BeyondCounter:
    """Counts the records of the tail before each committed offset, as the tail is read."""

    def __init__(self, commits: Commits) -> None:
        offsets: dict[TopicPartition, set[int]] = {}
        for (_, tp), offset in commits.items():
            offsets.setdefault(tp, set()).add(offset)
        self._commits = commits
        self._offsets = {tp: sorted(some) for tp, some in offsets.items()}
        self._counts = {tp: [0] * (len(some) + 1) for tp, some in self._offsets.items()}

    def take(self, tp: TopicPartition, offset: int) -> None:
        """Count a record of the tail."""
        if (offsets := self._offsets.get(tp)) is not None:
            self._counts[tp][bisect_right(offsets, offset)] += 1

    def judged(self, translated: Commits, tails: Iterable[PartitionDivergence]) -> tuple[OldCommit, ...]:
        """Return the kind of each committed offset, given those that the failovers translated."""
        by_place = {TopicPartition(t.topic, t.partition): t for t in tails}
        found = []
        for (group, tp), offset in sorted(self._commits.items()):
            index = bisect_right(self._offsets[tp], offset)
            beyond, tail = sum(self._counts[tp][:index]), by_place.get(tp)
            gone = tail is not None and tail.removed + tail.emptied > 0 and offset > tail.lost_from
            known = translated.get((group, tp))
            kind = CommitKind.SUPERSEDED if known == offset else CommitKind.OTHER
            kind = CommitKind.BEYOND if beyond or gone else kind
            found.append(OldCommit(group, *tp, offset, kind, known, beyond))
        return tuple(found)


def divergence(
    context: Context,
    take: Take = lambda _at, _record: None,
    *,
    topics: Collection[str] = (),
    depth: int = DEPTH,
    commits: bool = True,
    settled: Collection[str] = (),
) -> Divergence:
    """Compare the old primary with its copy; `take` gets every record that only the old primary has.

    :param topics: by their names on the old primary, or empty for all that a failover has promoted
    :param depth: records before the frontier of each partition that are compared by content
    :param commits: also report the groups' committed offsets, and topics that were never copied
    :param settled: topics whose keys are not compared
    :raises ConfigError: no failover of this flow has promoted anything
    :raises DrkitError: a cluster refuses what has to be read
    :raises RawError: the new primary does not answer
    """
    context.state.load()
    roles = promotions_of(context.state.records)
    if not roles:
        evidence = "the flow copies: drkit verify compares what it has copied"
        raise ConfigError("nothing_promoted", where=f"flow {context.flow.name}", evidence=evidence)
    pending = context.state.get(PendingFence)
    owed = pending.why if pending is not None else ""
    source = context.source()
    if source is None:
        return Divergence(context.flow.name, (), context.source_error or "no answer", owed)
    share_promotions(context)
    back = reverse_side(context, roles)
    compared = {t: r for t, r in roles.items() if (not topics or t in topics) and t not in back.returned}
    recorded = sorted(compared.keys() & context.known.topics.keys())
    new = look_at_new_primary(context, compared, recorded)
    comparison = _Comparison(context, source, new, compared, back, settled)
    try:
        result = comparison.run(depth, take, others=commits and not topics)
    except RawError as error:
        context.lose_source(error)
        return Divergence(context.flow.name, (), f"it stopped answering ({error})", owed)
    return replace(result, owed=owed, returned=tuple(sorted(back.returned & roles.keys())))


@dataclass
class _Comparison:
    """One comparison of promoted topics."""

    context: Context
    source: RawCluster
    new: NewPrimary
    roles: Mapping[str, RoleRecord]
    """The roles of the topics to compare."""
    back: ReverseSide
    settled: Collection[str] = ()
    """Topics whose keys are not compared."""

    def run(self, depth: int, take: Take, *, others: bool) -> Divergence:
        """Compare everything; `others`: also topics that were never copied, and groups. Raises RawError."""
        context, known = self.context, self.context.known
        topics: dict[str, TopicMetadata] = context.run(all_topics, self.source)
        uncopied = self._uncopied(topics) if others else []
        existing = {name: topics[name] for name in sorted({*self.roles, *uncopied}) if name in topics}
        old = OldPrimary(
            LogSide(self.source, existing, is_old=True),
            {name: existing[name].topic_id for name in uncopied}
            | {name: known.topics[name][1] for name in self.roles if name in known.topics},
            context.run(ends_of, self.source, existing, existing),
            context.run(epoch_ends, self.source, existing, self._epochs(existing)),
            known.producers.left_out | self.back.ids | kept_ids(known.kept),
            {**self.back.emptied, **emptied_in_vain(context)},
        )
        committed, unknown = self._commits({*self.roles, *uncopied}) if others else ({}, "")
        counter = BeyondCounter(committed)

        def taken(tp: TopicPartition, record: Record) -> None:
            counter.take(tp, record.offset)
            take(tp, record)

        rules = _rules(context, self.roles)
        checks = [
            check_of(old, self.new, tp, frontier, rules[tp.topic])
            for tp, frontier in _partitions(self.roles, existing)
        ]
        tails: list[PartitionDivergence] = context.run(_compared, checks, depth, taken)
        if depth:
            tails = with_outlived(context, checks, tails, self.settled)
        none = Copy(CopyFate.KEPT)
        every = (TopicPartition(t, number) for t in uncopied for number in sorted(existing[t].leaders))
        never = [PartitionCheck(old, self.new, tp, None, none) for tp in every]
        more: list[PartitionDivergence] = context.run(_compared, never, depth, taken)
        commits, unknown = self._judged(counter, [*tails, *more], unknown)
        return Divergence(
            context.flow.name, tuple(tails), uncopied=tuple(more), commits=commits, commits_unknown=unknown
        )

    def _uncopied(self, topics: Mapping[str, TopicMetadata]) -> list[str]:
        context, known = self.context, self.context.known.topics
        if not left_behind(context.state.records, context.flow):
            return []
        names = [n for n in sorted(topics) if n not in known and n not in self.back.copies]
        return [n for n in names if context.flow.topic_filter.accepts(n) and context.flow.copies(n)]

    def _epochs(self, existing: Mapping[str, TopicMetadata]) -> dict[TopicPartition, int]:
        epochs = {}
        for tp, located in self.new.located.items():
            answer = located.answer
            is_there = tp.topic in existing and tp.partition in existing[tp.topic].leaders
            if isinstance(answer, Resolution) and answer.leader_epoch >= 0 and is_there:
                epochs[tp] = answer.leader_epoch
        return epochs

    def _commits(self, topics: Collection[str]) -> tuple[Commits, str]:
        try:
            return self.context.run(commits_in, self.source, topics), ""
        except DrkitError as error:
            return {}, error.in_short

    def _judged(
        self, counter: BeyondCounter, tails: list[PartitionDivergence], unknown: str
    ) -> tuple[tuple[OldCommit, ...], str]:
        try:
            runs = {topic: role.run_id for topic, role in self.roles.items()}
            return counter.judged(translated_by(self.context, runs), tails), unknown
        except DrkitError as error:
            return (), unknown or error.in_short


def _rules(context: Context, topics: Collection[str]) -> dict[str, MayLack]:
    """Return the records that each topic and its copy may lack. Raises DrkitError: a cluster refuses."""
    known = context.known.topics
    copies = {topic: known[topic][0] for topic in topics if topic in known}
    of_old = topic_configs(Cluster.connect(context.source_settings), topics) if topics else {}
    of_new = topic_configs(context.target_admin(), list(copies.values())) if copies else {}
    rules = {}
    for topic in topics:
        copy = of_new.get(copies.get(topic, ""))
        of_copy = (is_compacted(copy), is_expiring(copy)) if copy is not None else (False, False)
        rules[topic] = MayLack(is_compacted(of_old.get(topic, {})), *of_copy)
    return rules


async def _compared(checks: Sequence[PartitionCheck], depth: int, take: Take) -> list[PartitionDivergence]:
    results: list[PartitionDivergence] = []
    for first in range(0, len(checks), _AT_ONCE):
        some = checks[first : first + _AT_ONCE]
        answers = await _first_answers(some, depth)
        loop = some[0].old.side.cluster.loop
        results += await loop.together(lambda c: c.run(depth, take, answers[c.at]), some)  # noqa: B023  awaited here
    return results


async def _first_answers(checks: Sequence[PartitionCheck], depth: int) -> dict[TopicPartition, Answers]:
    """Read where the comparisons of contents begin: of many partitions in one request."""
    begins = {
        c.at: (c.mapped.copies, begin)
        for c in checks
        if c.mapped is not None
        if (begin := c.mapped.copies.before(c.mapped.copies.new_end, depth)) is not None
    }
    if not begins:
        return {c.at: {} for c in checks}
    size = max(_LEAST_BYTES, depth * _RECORD_BYTES)
    old, new = checks[0].old.side, checks[0].new.side
    olds = await first_answers(old, {tp: begin.old for tp, (_, begin) in begins.items()}, size)
    news = await first_answers(new, {copies.new: begin.new for copies, begin in begins.values()}, size)
    found: dict[TopicPartition, dict[Side, Any]] = {c.at: {} for c in checks}
    for tp, (copies, _) in begins.items():
        found[tp] |= {Side.OLD: olds[tp]} if tp in olds else {}
        found[tp] |= {Side.NEW: news[copies.new]} if copies.new in news else {}
    return dict(found)


def _partitions(
    roles: Mapping[str, RoleRecord], existing: Mapping[str, TopicMetadata]
) -> Iterator[tuple[TopicPartition, int | None]]:
    for topic in sorted(roles):
        known = dict(roles[topic].frontiers or {})
        for number in sorted(known.keys() | (existing[topic].leaders.keys() if topic in existing else set())):
            yield TopicPartition(topic, number), known.get(number)


def tails_of(context: Context, found: Divergence, topics: Collection[str] = ()) -> list[TailRange]:
    """Return the range of every partition that has one, also where all of its offsets are markers.

    :param topics: the only topics, or empty for all
    :raises ConfigError: a topic that no failover has promoted
    :raises Refused: the old primary does not answer, or a partition's tail is not known
    """
    source = context.source()
    if found.unanswered or source is None:
        raise Refused("tail_unreachable", where=found.flow, evidence=found.unanswered or context.source_error)
    tails = [tail for tail in found.tails if not topics or tail.topic in topics]
    if lacking := sorted(set(topics) - {tail.topic for tail in tails}):
        raise ConfigError("topics_not_promoted", where="--topic", topics=first_of(lacking))
    if unknown := [f"{t.topic}-{t.partition}: {t.why}" for t in tails if t.found is DivergenceState.UNKNOWN]:
        raise Refused("tail_unknown", where=found.flow, evidence=first_of(unknown))
    return list(_ranges(context, source, tails, found.flow))


def _ranges(
    context: Context, source: RawCluster, tails: Collection[PartitionDivergence], flow: str
) -> Iterator[TailRange]:
    """Yield ranges with the current topic ids: a recreated topic has another id than its copy's map."""
    names = sorted({tail.topic for tail in tails})
    try:
        topics = context.run(metadata, source, names) if names else {}
    except RawError as error:
        raise Refused("old_primary_stopped_answering", where=flow, evidence=error.evidence) from error
    for tail in tails:
        if tail.end is not None and tail.end > tail.lost_from:
            topic_id = topics[tail.topic].topic_id
            yield TailRange(tail.topic, topic_id, tail.partition, tail.lost_from, tail.end)


LOSS: Final = "loss"
"""The effect of DONE that states the loss again, in a run that continues behind OPEN."""


def loss_since(context: Context, stated: LossEvidence) -> LossEvidence:
    """Return the loss up to now, or `stated` if it is no smaller; unknown while the old primary is silent.

    Where another fence was raised behind OPEN, the old primary may have taken records before it.
    """
    oldest: dict[TopicPartition, int] = {}

    def take(tp: TopicPartition, record: Record) -> None:
        oldest[tp] = min(record.timestamp, oldest.get(tp, record.timestamp))

    found = divergence(context, take, topics=context.scope.topics, depth=0, commits=False)
    source = None if found.unanswered else context.source()
    lost = [_lost(tail, oldest.get(TopicPartition(tail.topic, tail.partition))) for tail in found.tails]
    if source is None:
        lost = [Lost(**p)._replace(exact=False) for p in stated["partitions"]]
    fenced = bool(context.result(StepName.FENCE).get("proven"))
    now = evidence_of(context, lost, source, fenced=fenced)
    is_more = now["records"] is None or now["records"] > (stated["records"] or 0)
    return now if is_more or (stated["exact"] and not now["exact"]) else stated


def _lost(tail: PartitionDivergence, oldest_ms: int | None) -> Lost:
    is_known = tail.found is not DivergenceState.UNKNOWN
    lost = Lost(**{name: value for name, value in tail._asdict().items() if name in Lost._fields})
    lost = lost._replace(held_acknowledged=tail.held_back, reason=tail.why, oldest_ms=oldest_ms)
    return lost._replace(exact=not tail.removed) if is_known else lost._replace(records=None)


def terms_of(context: Context, topics: Iterable[str]) -> dict[str, int]:
    """Return the term of the failover that promoted each of these topics of the old primary."""
    roles = context.state.all(RoleRecord)
    return {topic: roles[topic].term for topic in topics if topic in roles}


def copied_back(context: Context, tails: Iterable[PartitionDivergence]) -> CopiedBack:
    """Return the records of tails that came from the new primary. Raises DrkitError: no answer."""
    own = on_record(reverse_state(context))
    since = {TopicPartition(t.topic, t.partition): t.exact_to for t in tails if t.exact_to is not None}
    known = context.known
    return CopiedBack(known.producers.left_out | frozenset(own) | kept_ids(known.kept), since)
