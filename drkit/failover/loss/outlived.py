"""Keys that clients have deleted on the new primary and that the old one still has.

A tombstone goes ``delete.retention.ms`` after it was cleaned (KIP-534). The settings say what the cleaner may
do now, not what it did under earlier ones. So the log is asked: where it has every offset since the
promotion, the cleaner has removed nothing. Where it has not, each key of the old primary must be on the new
one, with a value or a tombstone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from drkit.counted import counted
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.loss.findings import CopyFate, DivergenceState, PartitionDivergence
from drkit.failover.loss.log_cursor import LogSide
from drkit.failover.loss.partition_check import PartitionCheck, origin_of
from drkit.journal.machine import StepName
from drkit.kafka.reading.record_cursor import Unreadable
from drkit.model import TopicPartition
from drkit.wire import CorruptBatch, Record, is_whole

MOST_KEYS: Final = 10_000_000
"""Keys of a partition of the old primary that are compared: 400 MB. With more it is unknown."""


def with_outlived(
    context: Context, checks: Sequence[PartitionCheck], tails: Sequence[PartitionDivergence],
    settled: Collection[str] = (),
) -> list[PartitionDivergence]:  # fmt: skip
    """Return the partitions; those that equal their compacted copies with the number of keys that live on.

    They are read one after the other: each takes memory for its keys.

    :param checks: in the same order
    :param settled: topics whose keys are not compared
    :raises RawError: the old primary stopped answering
    """
    results = []
    for check, tail in zip(checks, tails, strict=True):
        now = tail
        try:
            if check.at.topic not in settled and (spans := _spans(check, tail)) is not None:
                now = _Comparison(context, check, spans).judged(tail)
        except (Unreadable, CorruptBatch) as error:
            now = tail._replace(found=DivergenceState.UNKNOWN, why=error.in_short, proven=False)
        results.append(now)
    return results


class _Spans(NamedTuple):
    """The half-open offset ranges of a partition that are read."""

    since: tuple[int, int]
    """The range of the copy that clients wrote."""
    old: tuple[int, int]
    new: tuple[int, int]
    lost_start: bool
    """Whether the new primary has removed copies of records in `old` from the beginning of its log."""


def _spans(check: PartitionCheck, tail: PartitionDivergence) -> _Spans | None:
    mapped, cut = check.mapped, check.new.cuts.get(check.at)
    may_stay = tail.found is DivergenceState.CLEAN and tail.copy is CopyFate.KEPT
    if mapped is None or cut is None or not may_stay:
        return None
    copies, rules = mapped.copies, mapped.copies.rules
    if not (rules.old_compacted or rules.new_compacted):
        return None
    start, end = check.new.starts[copies.new], check.new.ends[copies.new]
    first = check.old.ends[check.at].start
    if rules.new_expires:  # records that only the old primary's retention has kept are no deletions
        first = max(first, origin_of(copies.segments, start))
    old = first, max(first, copies.old_span[1])
    return _Spans((cut, end), old, (start, end), copies.copy_from(first) < start)


class _Comparison(NamedTuple):
    """One partition."""

    context: Context
    check: PartitionCheck
    spans: _Spans

    def judged(self, tail: PartitionDivergence) -> PartitionDivergence:
        """Return the partition with the number of keys that live on."""
        tp, copy = self.check.at, self.check.new.pairs[self.check.at].target
        old, new = (self.check.old.side, tp), (self.check.new.side, copy)
        if not self.spans.lost_start and self._is_whole(*new):
            return tail
        progress = f"{self.check.at}: compaction was at work on its copy, so its keys are compared"
        self.context.tell(StepProgress(StepName.COMPARE, progress))
        from drkit.living_keys import LivingKeys  # noqa: PLC0415  loads numpy

        living = LivingKeys()
        for record in self._records(*old, self.spans.old):
            living.take(record.key, record.offset, has_value=record.value is not None)
            if living.at_most > MOST_KEYS:
                why = f"it has more than {counted(MOST_KEYS, 'key')}, and compaction was at work on its copy"
                return tail._replace(outlived=None, why=why)
        for record in self._records(*new, self.spans.new):
            living.drop(record.key)
        return tail._replace(outlived=living.number())

    def _is_whole(self, side: LogSide, tp: TopicPartition) -> bool:
        cursor = side.cursor(tp, self.spans.since)
        while (read := self.context.run(cursor.next)) is not None:
            self.context.journal.renew()
            if not is_whole(read.answer.records or b"", read.position):
                return False
        return True

    def _records(self, side: LogSide, tp: TopicPartition, span: tuple[int, int]) -> Iterator[Record]:
        cursor = side.cursor(tp, span)
        while (read := self.context.run(cursor.next)) is not None:
            self.context.journal.renew()
            yield from read.records
