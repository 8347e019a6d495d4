"""Compares one partition of the old primary with its copy: offsets, leader epochs, contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from drkit.failover.loss.content import Answers, ContentCheck, ContentResult, Copies, MayLack
from drkit.failover.loss.findings import (
    NO_WORD,
    CopyFate,
    DivergenceState,
    Emptied,
    PartitionDivergence,
    epoch_word,
    judged,
)
from drkit.failover.loss.log_cursor import LogSide, count_visible
from drkit.failover.loss.new_primary import Copy, NewPrimary
from drkit.kafka.reading.record_cursor import NO_IDS, EpochEnd, Unreadable
from drkit.model import TargetOffset, TopicPartition
from drkit.offsets import SegmentMap, Unavailable
from drkit.offsets.crossing import Crossing
from drkit.offsets.segments import UNKNOWN
from drkit.status.lag.source import Ends
from drkit.wire import CorruptBatch, Record

_MOST_BYTES: Final = 512 << 20
"""Maximum bytes read of a copy to count the records that only the new primary has."""
_ANY_BYTES: Final = 64 << 10
"""The same, to check only whether there is one."""
_FETCH_BYTES: Final = 4 << 20
_READ: Final = frozenset({
    DivergenceState.DIVERGED, DivergenceState.RECREATED, DivergenceState.REGROWN, DivergenceState.MORE,
})  # fmt: skip
"""States in which the tail is read."""
Take = Callable[[TopicPartition, Record], None]
"""Receives each record of a tail, with its offset on the old primary."""


@dataclass(frozen=True)
class OldPrimary:
    """The current state of the old primary."""

    side: LogSide
    """The cluster with its existing topics."""
    ids: Mapping[str, UUID]
    """The topics that were copied."""
    ends: Mapping[TopicPartition, Ends]
    epochs: Mapping[TopicPartition, EpochEnd]
    """The end of the leader epoch of the last copied record."""
    skip: frozenset[int]
    """Producers whose records came from the new primary."""
    emptied: Mapping[TopicPartition, Emptied]
    """Partitions that failbacks have emptied there."""

    def is_same(self, topic: str) -> bool:
        """Return whether it is the topic that was copied."""
        return topic in self.side.topics and self.side.topics[topic].topic_id == self.ids.get(topic)

    def silent(self, tp: TopicPartition) -> str:
        """Return why a partition that exists has no ends, or empty if it has or does not exist."""
        topic = self.side.topics.get(tp.topic)
        leader = topic.leaders.get(tp.partition) if topic is not None else None
        if leader is None or tp in self.ends:
            return ""
        return "it has no leader" if leader.node < 0 else "its leader does not answer"


@dataclass(frozen=True)
class Mapped:
    """The mapping of a partition to its copy."""

    copies: Copies
    copied_end: int
    """Offset on the new primary after the last copied record."""
    known_to: int
    """Offset on the old primary after the last record that has a copy."""
    lost_from: int | None = None
    """First offset on the old primary without a copy now, if the copy lost its last records."""
    epoch: int = -1
    """Leader epoch of the old primary at the last copied record, or a later one; −1: unknown."""


@dataclass(frozen=True)
class PartitionCheck:
    """One partition, to be compared."""

    old: OldPrimary
    new: NewPrimary
    at: TopicPartition
    frontier: int | None
    """First offset that was not copied; None if none was, or the partition is younger than the failover."""
    copy: Copy
    mapped: Mapped | None = None
    """The mapping, or None if nothing can be compared by content."""
    is_more: bool = False
    """The new primary's topic does not have such a partition."""

    async def run(self, depth: int, take: Take, answers: Answers) -> PartitionDivergence:
        """Compare it, and pass its divergent tail to `take`.

        :param depth: records before the frontier that are compared with their copies
        :param answers: the first fetch answers of that, as far as there are some
        :raises RawError: the old primary stopped answering
        """
        if why := self.old.silent(self.at):
            return PartitionDivergence(*self.at, DivergenceState.UNKNOWN, self.frontier or 0, why=why)
        content = ContentResult(0, None)
        try:
            if self.mapped is not None:
                check = ContentCheck(self.old.side, self.new.side, self.mapped.copies)
                content = await check.run(depth, answers)
            tail = self._judged(content, self.copy.unknown)
            if tail.proven and not content.compared:
                tail = tail._replace(proven=not await self._has_any())
            tail = await self._with_only_new(tail, content)
        except (Unreadable, CorruptBatch) as error:
            tail = self._judged(content, error.in_short)
        return await self._read(tail, take) if tail.found in _READ else tail

    @property
    def _log(self) -> Ends | None:
        return self.old.ends.get(self.at)

    def _judged(self, content: ContentResult, doubt: str) -> PartitionDivergence:
        log, is_same, mapped = self._log, self.old.is_same(self.at.topic), self.mapped
        epoch = NO_WORD
        if mapped is not None and log is not None:
            known_to = min(mapped.known_to, log.end)
            epoch = epoch_word(mapped.epoch, self.old.epochs.get(self.at), known_to)
        differs = min((o for o in (content.differs_from, epoch.other_from) if o is not None), default=None)
        begins = (self.frontier, differs, mapped.lost_from if mapped else None)
        is_kept = self.copy.state in {CopyFate.KEPT, CopyFate.REGRESSED} and not self.is_more
        tail_from = min((o for o in begins if o is not None), default=None) if is_kept else None
        offsets = judged(tail_from, log, same=is_same)
        found, first, removed = offsets
        by_return = self.old.emptied.get(self.at) if is_same else None
        deleted = by_return.share(offsets) if by_return is not None else 0
        doubts = epoch.doubt or (by_return.why if by_return is not None and deleted else "")
        if log is not None and is_same:
            found = DivergenceState.REGROWN if differs is not None else found
            found = DivergenceState.MORE if self.is_more else found
            if doubt and (found is DivergenceState.CLEAN or self.copy.state is CopyFate.REGRESSED):
                found = DivergenceState.UNKNOWN
        agrees = not doubt and not epoch.doubt and differs is None and log is not None and is_same
        held = log.held_offsets if log is not None else 0
        return PartitionDivergence(
            *self.at, found, first - removed, log.end if log is not None else None,
            removed=removed - deleted, emptied=deleted, open_transaction=held > 0,
            why=doubt if found is DivergenceState.UNKNOWN else doubts, held_back=held, differs_from=differs,
            proven=agrees and self.copy.state is CopyFate.KEPT and not self.is_more, copy=self.copy.state,
            copy_end=self.copy.end,
        )  # fmt: skip

    async def _has_any(self) -> bool:
        log = self._log
        if log is None or self.frontier is None:
            return False
        span = (log.start, min(self.frontier, log.end))
        number, _ = await count_visible(self.old.side, self.at, [span], _ANY_BYTES)
        return number > 0

    async def _with_only_new(self, tail: PartitionDivergence, content: ContentResult) -> PartitionDivergence:
        pair = self.new.pairs.get(self.at)
        if pair is None or tail.copy not in {CopyFate.KEPT, CopyFate.REGRESSED} or self.copy.unknown:
            return tail
        strays, spans = self._unseen(tail, content)
        number, first = await count_visible(self.new.side, pair.target, spans, _MOST_BYTES)
        number += strays
        known = [o for o in (first, content.first_stray if strays else None) if o is not None]
        if self.at in self.new.strangers:
            # Retention may have removed the record since; the map is exact, the old primary's log is not.
            number, noted = max(1, number), self.new.strangers[self.at]
            known += [noted] if noted is not None else []
        return tail._replace(only_new=number, only_new_from=min(known, default=None))

    def _unseen(self, tail: PartitionDivergence, content: ContentResult) -> tuple[int, list[tuple[int, int]]]:
        """Records that the comparison has found on the new primary only, and where there may be others."""
        mapped, log = self.mapped, self._log
        if mapped is None or log is None:
            pair = self.new.pairs[self.at]
            span = (self.new.starts.get(pair.target, 0), self.new.cuts.get(self.at, 0))
            return 0, [span] if self.frontier is None else []
        copies, end = mapped.copies, mapped.copies.new_span[1]
        if tail.differs_from is not None:
            return 0, [(max(copies.new_span[0], copies.copy_from(tail.differs_from)), end)]
        before = list(_gaps(copies.segments, *copies.new_span)) if self.at in self.new.strangers else []
        if not copies.reaches_frontier:
            return 0, [(max(copies.new_span[0], copies.new_end), end)]
        if content.compared_from is None:
            return 0, [*before, (max(copies.new_span[0], mapped.copied_end), end)]
        return content.strays, [span for span in before if span[1] <= content.compared_from]

    async def _read(self, tail: PartitionDivergence, take: Take) -> PartitionDivergence:
        assert tail.end is not None  # noqa: S101  it has a log
        first, end = tail.lost_from + tail.removed + tail.emptied, tail.end
        # Before the frontier the new primary has lost records of every producer. An old primary that came
        # back from an older disk gives its clients producer ids that drkit had.
        copied_to = min(end, max(first, self.frontier or first))
        if tail.found is DivergenceState.RECREATED:
            copied_to = first
        if tail.found is DivergenceState.REGROWN:
            copied_to = end
        records = size = 0
        for span, without in (((first, copied_to), NO_IDS), ((copied_to, end), self.old.skip)):
            cursor, read_to = self.old.side.cursor(self.at, span, without, _FETCH_BYTES), span[0]
            try:
                while (step := await cursor.next()) is not None:
                    for record in list(step.records):
                        records, size = records + 1, size + len(record.key or b"") + len(record.value or b"")
                        take(self.at, record)
                    read_to = cursor.position
            except (Unreadable, CorruptBatch) as error:
                reason = f"it could be read up to offset {read_to} only: {error.evidence}"
                return tail._replace(
                    found=DivergenceState.UNKNOWN, why=reason, records=records, bytes=size, proven=False
                )
        # Markers, aborted records and records that drkit copied there do not diverge.
        is_gone = tail.removed + tail.emptied > 0
        is_clean = not records and not is_gone and tail.found is DivergenceState.DIVERGED
        found = DivergenceState.CLEAN if is_clean else tail.found
        return tail._replace(found=found, records=records, bytes=size, exact_to=copied_to)


def _gaps(segments: SegmentMap, start: int, end: int) -> Iterator[tuple[int, int]]:
    after: int | None = None
    for _, down, length in segments.triples():
        if after is not None and max(after, start) < min(down, end):
            yield max(after, start), min(down, end)
        after = None if length == UNKNOWN else down + length


def check_of(
    old: OldPrimary, new: NewPrimary, tp: TopicPartition, frontier: int | None, rules: MayLack
) -> PartitionCheck:
    """Return the comparison to make of a partition.

    :param frontier: first offset that was not copied, by the role of its topic, or None if none was
    """
    if tp not in new.pairs:
        copy, is_more = new.unnamed_copy(tp)
        return PartitionCheck(old, new, tp, frontier, copy, is_more=is_more)
    copy, log = new.copy(tp), old.ends.get(tp)
    if frontier is None or log is None or copy.unknown or not old.is_same(tp.topic):
        return PartitionCheck(old, new, tp, frontier, copy)
    if copy.state not in {CopyFate.KEPT, CopyFate.REGRESSED}:
        return PartitionCheck(old, new, tp, frontier, copy)
    place, pair = new.place(tp), new.pairs[tp]
    if isinstance(place, str):
        return PartitionCheck(old, new, tp, frontier, copy._replace(unknown=place))
    limit = copy.end if copy.end is not None else new.cuts.get(tp, place.copied_end)
    segments = _closed(place.segments, min(limit, place.copied_end))
    left = origin_of(segments, limit) if copy.state is CopyFate.REGRESSED else None
    # Records before the crossing's end were compared when it was made: each side has its tail elsewhere.
    crossed = pair.crossings[-1] if pair.crossings else Crossing(0, 0, 0, 0)
    if limit < crossed.target_end:
        why = f"its copy ends at {limit}, among the records of a tail that a return has kept"
        return PartitionCheck(old, new, tp, frontier, copy._replace(unknown=why))
    last = segments.record_before(limit)
    old_end = min(o for o in (frontier, log.end, left) if o is not None)
    copies = Copies(
        tp,
        pair.target,
        segments,
        old_span=(max(log.start, crossed.source_end), old_end),
        new_span=(max(new.starts[pair.target], crossed.exact_end(segments, limit)), limit),
        rules=rules,
        skip=old.skip,
    )
    known_to = last[0] + 1 if last is not None else 0
    mapped = Mapped(copies, min(limit, place.copied_end), known_to, left, place.leader_epoch)
    return PartitionCheck(old, new, tp, frontier, copy, mapped)


def _closed(segments: SegmentMap, end: int) -> SegmentMap:
    found = segments.copy()
    found.cut(end)
    if found.delta() is not None:
        found.close(end)
    return found


def origin_of(segments: SegmentMap, end: int) -> int:
    """Return the first source offset without a copy before a target offset, or 0 if no record is left."""
    found = segments.inverse(TargetOffset(end))
    return 0 if isinstance(found, Unavailable) else found
