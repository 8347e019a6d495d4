"""Collect the evidence of a `translation` drill: every group's position, and the records that follow it.

Two positions are read for each group and partition: the translation of the committed source offset, and the
offset that the target stores, with the source offset in drkit's mark. Nothing is written, and no consumer
group is joined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from drkit.checkpoints.other_groups import is_consumer
from drkit.clock import monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.copy_task.core.context import Throttle
from drkit.drill.position_rows import (
    PositionAnswer,
    PositionEvidence,
    PositionForm,
    judge_position,
    without_compacted,
)
from drkit.drill.record_windows import COMPACTED_WINDOW, LogSpan, RecordWindowReader
from drkit.failover.checks.out_of_scope import not_copied
from drkit.flow_state.copied_topics import CopiedPartition, CopiedTopics, known_of
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import Committed, Groups
from drkit.kafka.raw import RawCluster, connections
from drkit.kafka.requests import all_topics
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

_Logs = tuple[RecordWindowReader, RecordWindowReader]
"""Of the source and of the target."""


def stored_question(
    row: PositionEvidence,
    committed: Committed | StoredOffset,
    stored: Committed | None,
    source: str,
    now_ms: int,
) -> PositionEvidence:
    """Return a row with the offset that the target stores, or with the reason why that is no position.

    :param row: with the offset that the group has committed on the source, which is `committed`
    :param source: alias of the flow's source
    """
    if stored is None:
        return row._replace(known=PositionAnswer.NO_POSITION, reason="the target stores no offset")
    row = row._replace(downstream=stored.offset)
    mark = StoredOffset(*stored).mark
    if mark is not None and mark.source == source:
        if mark.upstream is None:
            return row._replace(known=PositionAnswer.NO_POSITION, reason="a failback made it void")
        age = (now_ms - mark.written_ms) / 1000
        return row._replace(upstream=mark.upstream, mark_age_seconds=age)
    if StoredOffset(*committed).mark is not None:  # the flow in the other direction wrote the source offset
        return row
    text = f"another client has committed target @{stored.offset}"
    return row._replace(known=PositionAnswer.NO_MARK, reason=text)


class CompareFrom(NamedTuple):
    """The offsets after which the records of both sides are compared."""

    source: int
    target: int
    downstream: int
    """The position on the target."""
    expected: int | None = None
    """The exact translation, where the comparison does not begin at the position."""


def compare_from(
    upstream: int, downstream: int | None, place: PartitionPosition
) -> CompareFrom | Unavailable:
    """Return where to begin the comparison of a position.

    Where retention has removed the next records of a side, both sides are compared from the first record that
    both still have, and the position must be the exact translation.

    :param downstream: None for the translation of `upstream`
    """
    forward = place.forward(upstream)
    if isinstance(forward, Unavailable):
        return forward
    downstream = forward.offset if downstream is None else downstream
    begin = max(upstream, place.source_start or 0)
    first = forward if begin == upstream else place.forward(begin)
    if isinstance(first, Exact) and first.skipped:
        backward = place.backward(place.start)
        if isinstance(backward, Unavailable):
            return backward
        begin = backward.offset
    if begin == upstream:
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
    bytes: int
    """Bytes of record batches that were read."""


def collect_positions(
    settings: Settings,
    flow: FlowSettings,
    *,
    bytes_per_second: float = BYTES_PER_SECOND,
    wait_seconds: float = WAIT_SECONDS,
    behind_seconds: float = BEHIND_SECONDS,
) -> PositionsCollected:
    """Return the evidence of all positions of a flow's groups.

    :param bytes_per_second: limit of the records that are read from both clusters together
    :param wait_seconds: how long to wait until the copy, or a round of checkpoints, provides a position
    :param behind_seconds: age from which a stored position that is behind is looked at again: an idle group's
        is old, and behind until the next round when the group commits
    :raises ClusterUnreachable: a cluster stopped answering
    :raises DrkitError: the groups, the flow's state or its offset map cannot be read
    """
    source, target = settings.sides(flow)
    with StateTopic(target, flow.source) as state:
        state.load()
        records = state.records
        known = known_of(records).without(promoted_of(records))
    compacted = _compacted(source, known.topics), _compacted(target, known.upstream)
    throttle = Throttle(bytes_per_second, monotonic)
    with connections("drill", source, target) as clusters:
        survey = _PositionSurvey(flow, known, clusters, throttle, compacted, records)
        rows = clusters[0].loop.run(survey.run, monotonic() + wait_seconds, behind_seconds)
    return PositionsCollected(tuple(sorted(rows, key=_key)), survey.groups, survey.bytes)


def _compacted(cluster: ClusterSettings, topics: Iterable[str]) -> frozenset[str]:
    configs = topic_configs(Cluster.connect(cluster), sorted(topics))
    return frozenset(name for name, values in configs.items() if is_compacted(values))


def _key(row: PositionEvidence) -> tuple[str, str, int, PositionForm]:
    return row[:4]


class _PositionSurvey:
    """The positions of one flow: rows that first have their offsets, then the answer or the records."""

    def __init__(
        self,
        flow: FlowSettings,
        known: CopiedTopics,
        clusters: Sequence[RawCluster],
        throttle: Throttle,
        compacted: tuple[frozenset[str], frozenset[str]],
        state: FlowState,
    ) -> None:
        self._flow, self._known, self._compacted, self._state = flow, known, compacted, state
        self._source, self._target = clusters
        self._places = PositionReader(self._target, flow.source)
        self._throttle = throttle
        self.groups, self.bytes = 0, 0

    async def run(self, deadline: float, behind_seconds: float) -> Collection[PositionEvidence]:
        """Return the evidence of all positions."""
        await self._source.connect(_CONNECT_MS)
        await self._target.connect(_CONNECT_MS)
        self._uncopied = not_copied(self._flow, await all_topics(self._source), self._state)
        consumers = [g for g, x in (await Groups(self._source).listed()).items() if is_consumer(x)]
        names = [group for group in consumers if self._flow.group_filter.accepts(group)]
        self.groups = len(names)
        rows: dict[object, PositionEvidence] = {}
        questions = await self._questions(names)
        while questions:
            looked = await self._look(questions)
            rows |= {_key(row): row for row in looked}
            pending = [q for q, row in zip(questions, looked, strict=True) if is_pending(row, behind_seconds)]
            if not pending or monotonic() >= deadline:
                break
            await self._source.loop.sleep(_PAUSE_SECONDS)
            questions = await self._again(pending)
        return rows.values()

    async def _questions(self, groups: Sequence[str]) -> list[PositionEvidence]:
        """Return the positions of some groups; a group without an answer has one that is unknown."""
        # Stored offsets first: then no mark is newer than what the group has committed.
        stored = await Groups(self._target).committed(groups)
        committed = await Groups(self._source).committed(groups)
        now_ms, found = wall_ms(), list[PositionEvidence]()
        for group in sorted(groups):
            theirs, ours = committed[group], stored[group]
            if theirs.value is None or ours.value is None:
                text = f"its offsets are not returned: Kafka error code {theirs.error or ours.error}"
                row = PositionEvidence(group, "", -1, PositionForm.TRANSLATED)
                found.append(row._replace(known=PositionAnswer.UNKNOWN, reason=text))
                continue
            topics = self._known.topics.keys() | self._uncopied.keys()
            for tp, offset in positions_in(theirs.value, topics).items():
                row = PositionEvidence(
                    group, *tp, PositionForm.TRANSLATED, offset.offset, committed=offset.offset
                )
                if reason := self._uncopied.get(tp.topic):
                    found.append(row._replace(known=PositionAnswer.NO_POSITION, reason=reason))
                    continue
                found.append(row)
                if self._flow.sync_group_offsets:
                    there = ours.value.get(TopicPartition(self._known.topics[tp.topic][0], tp.partition))
                    row = row._replace(form=PositionForm.STORED)
                    found.append(stored_question(row, offset, there, self._flow.source, now_ms))
        return found

    async def _again(self, pending: list[PositionEvidence]) -> list[PositionEvidence]:
        """Return the positions to look at again: the same translations, and what is stored by now."""
        stored = {_key(q) for q in pending if q.form is PositionForm.STORED}
        found = await self._questions(sorted({group for group, *_ in stored}))
        again = [q for q in found if _key(q) in stored or q.partition < 0]
        return [q for q in pending if q.form is PositionForm.TRANSLATED] + again

    async def _look(self, questions: list[PositionEvidence]) -> list[PositionEvidence]:
        """Return the evidence of some positions, as both clusters are now."""
        pairs = {tp: self._known.pair(*tp) for tp in sorted({q.tp for q in questions if q.known is None})}
        places = await self._places.look(pairs.values(), self._known.producers, self._source)
        copies = {tp: _Copy.of(pair, places[tp], self._compacted) for tp, pair in pairs.items()}
        source, target = logs = await self._logs(copies)
        located = [(q, None) if q.known else _located(q, copies[q.tp], target) for q in questions]
        begins = [(row.tp, begin) for row, begin in located if begin is not None]
        points = (
            (source, [(tp, begin.source) for tp, begin in begins]),
            (target, [(pairs[tp].target, begin.target) for tp, begin in begins]),
        )
        await self._source.loop.together(lambda each: each[0].read(each[1]), points)
        self.bytes += source.bytes + target.bytes
        return [row if b is None else _with_records(row, b, copies[row.tp], logs) for row, b in located]

    async def _logs(self, copies: Mapping[TopicPartition, _Copy]) -> _Logs:
        """Return readers of both sides. The target's ends are asked first: what it has more is no copy."""
        there, here = dict[TopicPartition, LogSpan](), dict[TopicPartition, LogSpan]()
        for tp, copy in copies.items():
            span = LogSpan(window=COMPACTED_WINDOW) if any(copy.is_compacted) else LogSpan()
            kept = copy.pair.kept.ids if copy.pair.kept is not None else frozenset()
            left_out = self._known.producers.left_out | kept
            here[tp] = span._replace(left_out=left_out, copy_of=copy.segments.copy_of)
            there[copy.pair.target] = span
        target = await RecordWindowReader.of(self._target, there, self._throttle)
        return await RecordWindowReader.of(self._source, here, self._throttle), target


class _Copy(NamedTuple):
    """A copied partition as both clusters have it now."""

    pair: CopiedPartition
    place: PartitionPosition | Unavailable
    segments: SegmentMap
    """Up to the end of the copy; empty where the copy has no position."""
    is_compacted: tuple[bool, bool]
    """On the source, on the target."""

    @classmethod
    def of(
        cls,
        pair: CopiedPartition,
        place: PartitionPosition | Unavailable,
        compacted: tuple[frozenset[str], frozenset[str]],
    ) -> _Copy:
        """Return a partition with its position."""
        segments = SegmentMap()
        if isinstance(place, PartitionPosition):
            segments = place.segments.copy()
            segments.close(place.copied_end)
        is_compacted = pair.source.topic in compacted[0], pair.target.topic in compacted[1]
        return cls(pair, place, segments, is_compacted)


def _located(
    row: PositionEvidence, copy: _Copy, target: RecordWindowReader
) -> tuple[PositionEvidence, CompareFrom | None]:
    """Return a row with its offsets, and where to compare; None if its answer needs no records."""
    place, to, upstream = copy.place, copy.pair.target, row.upstream or 0
    span = target.spans.get(to)
    if isinstance(place, Unavailable):
        is_silent = span is None and not target.side.topics[to.topic].error
        known = PositionAnswer.UNKNOWN if is_silent else PositionAnswer.NO_POSITION
        return row._replace(known=known, reason=place.reason), None
    begin = compare_from(upstream, row.downstream, place)
    if isinstance(begin, Unavailable):
        waits = place.waits_for(upstream)
        known = PositionAnswer.NOT_COPIED if waits else PositionAnswer.NO_POSITION
        return row._replace(known=known, reason=begin.reason), None
    located = row._replace(
        downstream=begin.downstream,
        frontier=place.frontier,
        target_log=None if span is None else (place.start, max(place.end, span.end)),
        expected=begin.expected,
    )
    return located, begin


def _with_records(row: PositionEvidence, begin: CompareFrom, copy: _Copy, logs: _Logs) -> PositionEvidence:
    at, to, segments = copy.pair.source, copy.pair.target, copy.segments
    source, target = logs[0].windows.get((at, begin.source)), logs[1].windows.get((to, begin.target))
    if source is not None and target is not None and any(copy.is_compacted):
        counterpart = (segments.copy_of, segments.origin_of)
        source, target = without_compacted((source, target), begin[:2], counterpart, copy.is_compacted)
    reason = logs[0].failures.get(at, "") or logs[1].failures.get(to, "")
    return row._replace(source=source, target=target, reason=reason)
