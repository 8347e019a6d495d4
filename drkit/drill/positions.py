"""Collect the evidence of a `translation` drill: every group's position, and the records that follow it.

Two positions are read for each group and partition: the translation of the committed source offset, and the
offset that the target stores, with the source offset in drkit's mark. Nothing is written, and no consumer
group is joined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from drkit.checkpoints.other_groups import is_consumer
from drkit.clock import monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.drill.position_rows import (
    PositionAnswer,
    PositionEvidence,
    PositionForm,
    judge_position,
    without_compacted,
)
from drkit.drill.record_windows import COMPACTED_WINDOW, ByteRateLimit, LogSpan, RecordWindowReader, log_spans
from drkit.failover.loss.log_cursor import LogSide
from drkit.flow_state.copied_topics import CopiedPartition, CopiedTopics, known_of
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import Committed, Groups, Offsets
from drkit.kafka.raw import RawCluster, connections
from drkit.kafka.topics import topic_configs
from drkit.model import TopicPartition
from drkit.offset_map.places import PositionReader
from drkit.offsets import SegmentMap, Unavailable
from drkit.offsets.group_guard import StoredOffset, positions_in
from drkit.offsets.translation import Exact, PartitionPosition
from drkit.pair.promotions import promoted_of
from drkit.topology.topic_configs import is_compacted

BYTES_PER_SECOND: Final = 10_000_000
WAIT_SECONDS: Final = 30.0
BEHIND_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.5
_CONNECT_MS: Final = 5_000

_Rows = dict[tuple[str, TopicPartition, PositionForm], PositionEvidence]
_Places = Mapping[TopicPartition, PartitionPosition | Unavailable]


class PositionLookup(NamedTuple):
    """A position of a group in a partition of the source."""

    group: str
    tp: TopicPartition
    form: PositionForm
    committed: int
    upstream: int
    downstream: int | None = None
    """None: the translation of `upstream`."""
    written_ms: int | None = None
    known: PositionAnswer | None = None
    reason: str = ""

    def evidence(self, known: PositionAnswer | None = None, reason: str = "") -> PositionEvidence:
        """Return evidence without records.

        :param known: the answer, or None for that of the question
        """
        offsets = (self.upstream, self.downstream, self.committed)
        known, reason = known or self.known, reason or self.reason
        return PositionEvidence(self.group, *self.tp, self.form, *offsets, known=known, reason=reason)


class CompareFrom(NamedTuple):
    """The offsets after which the records of both sides are compared."""

    source: int
    target: int
    downstream: int
    """The position on the target."""
    expected: int | None = None
    """The exact translation, where the comparison does not begin at the position."""


def stored_question(
    group: str, tp: TopicPartition, committed: Committed | StoredOffset, stored: Committed | None, source: str
) -> PositionLookup:
    """Return the question about the offset that the target stores.

    :param committed: by the group on the source
    :param source: alias of the flow's source
    """
    question = PositionLookup(group, tp, PositionForm.STORED, committed.offset, committed.offset)
    if stored is None:
        return question._replace(known=PositionAnswer.NO_POSITION, reason="the target stores no offset")
    question = question._replace(downstream=stored.offset)
    mark = StoredOffset(*stored).mark
    if mark is not None and mark.source == source:
        if mark.upstream is None:
            return question._replace(known=PositionAnswer.NO_POSITION, reason="a failback made it void")
        return question._replace(upstream=mark.upstream, written_ms=mark.written_ms)
    if StoredOffset(*committed).mark is not None:  # the flow in the other direction wrote the source offset
        return question
    text = f"another client has committed target @{stored.offset}"
    return question._replace(known=PositionAnswer.NO_MARK, reason=text)


def compare_from(question: PositionLookup, place: PartitionPosition) -> CompareFrom | Unavailable:
    """Return where to begin the comparison of a position.

    Where retention has removed the next records of a side, both sides are compared from the first record that
    both still have, and the position must be the exact translation.
    """
    forward = place.forward(question.upstream)
    if isinstance(forward, Unavailable):
        return forward
    downstream = question.downstream if question.downstream is not None else forward.offset
    begin = max(question.upstream, place.source_start or 0)
    first = forward if begin == question.upstream else place.forward(begin)
    if isinstance(first, Exact) and first.skipped:
        backward = place.backward(place.start)
        if isinstance(backward, Unavailable):
            return backward
        begin = backward.offset
    if begin == question.upstream:
        return CompareFrom(begin, downstream, downstream)
    is_exact = place.backward(downstream) == place.backward(forward.offset)
    first = place.forward(begin)
    if isinstance(first, Unavailable):
        return first
    return CompareFrom(begin, first.offset, downstream, downstream if is_exact else forward.offset)


def is_pending(row: PositionEvidence, behind_seconds: float) -> bool:
    """Return whether the copy, or the next round of checkpoints, may still provide the position.

    :param behind_seconds: age of a stored position from which it must not be behind
    """
    answer, _ = judge_position(row)
    is_unstored = row.form is PositionForm.STORED and answer is PositionAnswer.NO_POSITION
    is_old = answer is PositionAnswer.BEHIND and (row.mark_age_seconds or 0.0) > behind_seconds
    return is_unstored or is_old or answer is PositionAnswer.NOT_COPIED


class PositionsCollected(NamedTuple):
    """The evidence of all positions, and what it cost."""

    evidence: tuple[PositionEvidence, ...]
    groups: int
    requests: int
    """Fetch requests."""
    bytes: int
    """Bytes of record batches that were read."""
    seconds: float


def collect_positions(
    settings: Settings,
    flow: FlowSettings,
    *,
    groups: Collection[str] | None = None,
    bytes_per_second: float = BYTES_PER_SECOND,
    wait_seconds: float = WAIT_SECONDS,
    behind_seconds: float = BEHIND_SECONDS,
) -> PositionsCollected:
    """Return the evidence of all positions of a flow's groups.

    :param groups: the only groups to look at, or None for all that the flow carries
    :param bytes_per_second: limit of the records that are read from both clusters together
    :param wait_seconds: how long to wait until the copy, or a round of checkpoints, provides a position
    :param behind_seconds: age from which a stored position that is behind is looked at again: an idle group's
        is old, and behind until the next round when the group commits
    :raises ClusterUnreachable: a cluster stopped answering
    :raises DrkitError: the groups, the flow's state or its offset map cannot be read
    """
    began, (source, target) = monotonic(), settings.sides(flow)
    with StateTopic(target, flow.source) as state:
        state.load()
        known = known_of(state.records).without(promoted_of(state.records))
    compacted = _compacted(source, known.topics), _compacted(target, known.upstream)
    limit = ByteRateLimit(bytes_per_second)
    with connections("drill", source, target) as clusters:
        survey = _PositionSurvey(flow, known, clusters, limit, compacted, behind_seconds)
        rows: _Rows = clusters[0].loop.run(survey.run, groups, monotonic() + wait_seconds)
    evidence = tuple(row for _, row in sorted(rows.items(), key=lambda item: item[0]))
    return PositionsCollected(evidence, survey.groups, survey.requests, limit.bytes, monotonic() - began)


def _compacted(cluster: ClusterSettings, topics: Iterable[str]) -> frozenset[str]:
    configs = topic_configs(Cluster.connect(cluster), sorted(topics))
    return frozenset(name for name, values in configs.items() if is_compacted(values))


class _Logs(NamedTuple):
    """The readers of both logs, and the target's span of each source partition."""

    source: RecordWindowReader
    target: RecordWindowReader
    target_spans: Mapping[TopicPartition, LogSpan]
    silent: set[TopicPartition]
    """Source partitions whose target partition exists and does not answer."""


class _PositionSurvey:
    """The positions of one flow, looked at again while the copy has not passed them."""

    def __init__(
        self,
        flow: FlowSettings,
        known: CopiedTopics,
        clusters: Sequence[RawCluster],
        limit: ByteRateLimit,
        compacted: tuple[frozenset[str], frozenset[str]],
        behind_seconds: float,
    ) -> None:
        self._flow, self._known, self._compacted = flow, known, compacted
        self._source, self._target = clusters
        self._places = PositionReader(self._target, flow.source)
        self._behind_seconds = behind_seconds
        self.limit, self.groups, self.requests = limit, 0, 0

    async def run(self, only: Collection[str] | None, deadline: float) -> _Rows:
        """Return the evidence of all positions."""
        await self._source.connect(_CONNECT_MS)
        await self._target.connect(_CONNECT_MS)
        consumers = [g for g, x in (await Groups(self._source).listed()).items() if is_consumer(x)]
        names = [g for g in consumers if self._flow.group_filter.accepts(g) and (only is None or g in only)]
        rows: _Rows = {}
        self.groups = len(names)
        questions = await self._questions(names, rows)
        while questions:
            looked = await self._look(questions)
            rows |= {(q.group, q.tp, q.form): row for q, row in looked}
            pending = [q for q, row in looked if is_pending(row, self._behind_seconds)]
            if not pending or monotonic() >= deadline:
                break
            await self._source.loop.sleep(_PAUSE_SECONDS)
            questions = await self._again(pending, rows)
        return rows

    async def _questions(self, groups: Sequence[str], rows: _Rows) -> list[PositionLookup]:
        """Return the questions about some groups; a group without an answer becomes a row."""
        # Stored offsets first: then no mark is newer than what the group has committed.
        stored = await Groups(self._target).committed(groups)
        committed = await Groups(self._source).committed(groups)
        questions: list[PositionLookup] = []
        for group in sorted(groups):
            theirs, ours = committed[group], stored[group]
            if theirs.value is None or ours.value is None:
                text = f"its offsets are not returned: Kafka error code {theirs.error or ours.error}"
                tp, form, unknown = TopicPartition("", -1), PositionForm.TRANSLATED, PositionAnswer.UNKNOWN
                rows[group, tp, form] = PositionEvidence(group, *tp, form, known=unknown, reason=text)
                continue
            for tp, offset in positions_in(theirs.value, self._known.topics).items():
                questions += self._of_partition(group, tp, offset, ours.value)
        return questions

    def _of_partition(
        self, group: str, tp: TopicPartition, committed: StoredOffset, stored: Offsets
    ) -> Iterator[PositionLookup]:
        yield PositionLookup(group, tp, PositionForm.TRANSLATED, committed.offset, committed.offset)
        if self._flow.sync_group_offsets:
            there = stored.get(TopicPartition(self._known.topics[tp.topic][0], tp.partition))
            yield stored_question(group, tp, committed, there, self._flow.source)

    async def _again(self, pending: list[PositionLookup], rows: _Rows) -> list[PositionLookup]:
        """Return the questions to ask again: the same translations, and what is stored by now."""
        wanted = {(q.group, q.tp) for q in pending if q.form is PositionForm.STORED}
        found = await self._questions(sorted({group for group, _ in wanted}), rows)
        stored = [q for q in found if q.form is PositionForm.STORED and (q.group, q.tp) in wanted]
        return [q for q in pending if q.form is PositionForm.TRANSLATED] + stored

    async def _look(self, questions: list[PositionLookup]) -> list[tuple[PositionLookup, PositionEvidence]]:
        """Return the evidence of some positions, as both clusters are now."""
        now_ms = wall_ms()
        pairs = {tp: self._known.pair(*tp) for tp in sorted({q.tp for q in questions if q.known is None})}
        places = await self._places.look(pairs.values(), self._known.producers, self._source)
        segments: dict[TopicPartition, SegmentMap] = {}
        for tp, place in places.items():
            if isinstance(place, PartitionPosition):
                segments[tp] = place.segments.copy()
                segments[tp].close(place.copied_end)
        logs = await self._logs(pairs, segments)
        found = [(q, self._compare_from(q, places, logs)) for q in questions]
        begins = [(q, begin) for q, begin in found if isinstance(begin, CompareFrom)]
        points = (
            (logs.source, [(q.tp, begin.source) for q, begin in begins]),
            (logs.target, [(pairs[q.tp].target, begin.target) for q, begin in begins]),
        )
        await self._source.loop.together(lambda each: each[0].read(each[1]), points)
        self.requests += logs.source.requests + logs.target.requests
        looked = [(q, row) for q, row in found if isinstance(row, PositionEvidence)]
        for q, begin in begins:
            place = places[q.tp]
            if isinstance(place, PartitionPosition):
                looked.append((q, self._row(q, begin, logs, (place, segments[q.tp]), now_ms)))
        return looked

    async def _logs(
        self, pairs: Mapping[TopicPartition, CopiedPartition], segments: Mapping[TopicPartition, SegmentMap]
    ) -> _Logs:
        """Return readers of both sides. The target's ends are asked first: what it has more is no copy."""
        target_topics, ours = await log_spans(self._target, [pair.target for pair in pairs.values()])
        source_topics, theirs = await log_spans(self._source, pairs)
        for tp, (_, to, *_) in pairs.items():
            if tp.topic in self._compacted[0] or to.topic in self._compacted[1]:
                theirs |= {tp: theirs[tp]._replace(window=COMPACTED_WINDOW)} if tp in theirs else {}
                ours |= {to: ours[to]._replace(window=COMPACTED_WINDOW)} if to in ours else {}
        for tp in theirs.keys() & segments.keys():
            kept = pairs[tp].kept
            left_out = self._known.producers.left_out | (kept.ids if kept is not None else frozenset())
            theirs[tp] = theirs[tp]._replace(left_out=left_out, copy_of=segments[tp].copy_of)
        missing = ((tp, p.target.topic) for tp, p in pairs.items() if p.target not in ours)
        return _Logs(
            RecordWindowReader(LogSide(self._source, source_topics), theirs, self.limit),
            RecordWindowReader(LogSide(self._target, target_topics), ours, self.limit),
            {tp: ours[pair.target] for tp, pair in pairs.items() if pair.target in ours},
            {tp for tp, topic in missing if not target_topics[topic].error},
        )

    def _compare_from(
        self, question: PositionLookup, places: _Places, logs: _Logs
    ) -> CompareFrom | PositionEvidence:
        """Return where to compare, or evidence that needs no records."""
        if question.known is not None:
            return question.evidence()
        place = places[question.tp]
        if isinstance(place, Unavailable):
            known = PositionAnswer.UNKNOWN if question.tp in logs.silent else PositionAnswer.NO_POSITION
            return question.evidence(known, place.reason)
        found = compare_from(question, place)
        if isinstance(found, Unavailable):
            waits = place.waits_for(question.upstream)
            known = PositionAnswer.NOT_COPIED if waits else PositionAnswer.NO_POSITION
            return question.evidence(known, found.reason)
        return found

    def _row(
        self,
        question: PositionLookup,
        begin: CompareFrom,
        logs: _Logs,
        located: tuple[PartitionPosition, SegmentMap],
        now_ms: int,
    ) -> PositionEvidence:
        """Return the evidence with the records of both sides."""
        place, segments = located
        tp, target = question.tp, self._known.pair(*question.tp).target
        source = logs.source.windows.get((tp, begin.source))
        ours = logs.target.windows.get((target, begin.target))
        compacted = (tp.topic in self._compacted[0], target.topic in self._compacted[1])
        if source is not None and ours is not None and any(compacted):
            counterpart = (segments.copy_of, segments.origin_of)
            source, ours = without_compacted((source, ours), begin[:2], counterpart, compacted)
        age = None if question.written_ms is None else (now_ms - question.written_ms) / 1000
        span = logs.target_spans.get(tp)
        return question.evidence()._replace(
            downstream=begin.downstream,
            frontier=place.frontier,
            target_log=None if span is None else (place.start, max(place.end, span.end)),
            source=source,
            target=ours,
            expected=begin.expected,
            mark_age_seconds=age,
            reason=logs.source.failures.get(tp, "") or logs.target.failures.get(target, ""),
        )
