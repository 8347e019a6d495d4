"""Keys that clients have deleted on the new primary and that live on on the old one.

A tombstone goes ``delete.retention.ms`` after it was cleaned (KIP-534). The settings say what the cleaner may
do now, not what it did under earlier ones. So the log is asked: where it has every offset since the
promotion, the cleaner has removed nothing. Where it has not, each key of the old primary must be on the new
one, with a value or a tombstone.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from drkit.counted import counted
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.machine import StepName
from drkit.failover.loss.content import Copies
from drkit.failover.loss.findings import CopyFate, DivergenceState, PartitionDivergence
from drkit.failover.loss.log_cursor import LogCursor, LogSide, Unreadable
from drkit.failover.loss.partition_check import PartitionCheck
from drkit.model import SourceOffset, TargetOffset, TopicPartition
from drkit.offsets import Unavailable
from drkit.wire import CorruptBatch, Record, is_whole, records_in

MOST_RECORDS: Final = 10_000_000
"""Records of a partition of the old primary whose keys are compared: 400 MB. With more it is unknown."""
_HASH_BYTES: Final = 8
_AT_ONCE: Final = 100_000
_Hashes = npt.NDArray[np.uint64]


def with_outlived(
    context: Context, checks: Sequence[PartitionCheck], tails: Sequence[PartitionDivergence],
    settled: Collection[str] = (), most: int = MOST_RECORDS,
) -> list[PartitionDivergence]:  # fmt: skip
    """The same partitions; those that equal their compacted copies with the number of keys that live on.

    One is read after the other: each takes memory for its keys.

    :param checks: in the same order
    :param settled: topics of which it does not matter
    :param most: records of a partition whose keys are compared
    :raises RawError: the old primary stopped answering
    """
    found = []
    for check, tail in zip(checks, tails, strict=True):
        now = tail
        try:
            if check.at.topic not in settled and (spans := _spans(check, tail)) is not None:
                now = _Comparison(context, check, spans).judged(tail, most)
        except (Unreadable, CorruptBatch) as error:
            now = tail._replace(found=DivergenceState.UNKNOWN, why=error.in_short, proven=False)
        found.append(now)
    return found


class _Spans(NamedTuple):
    """What is read of a partition, as offsets, half open."""

    since: tuple[int, int]
    """Of the copy: what clients wrote there."""
    old: tuple[int, int]
    new: tuple[int, int]
    lost_start: bool
    """Whether the new primary has removed copies of records in `old` from the beginning of its log."""


def _spans(check: PartitionCheck, tail: PartitionDivergence) -> _Spans | None:
    """What is to be read; None: nothing, for its records do not simply stay, or it is not compacted."""
    mapped, cut = check.mapped, check.new.cuts.get(check.at)
    may_stay = tail.found is DivergenceState.CLEAN and tail.copy is CopyFate.KEPT
    if mapped is None or cut is None or not may_stay:
        return None
    copies, rules = mapped.copies, mapped.copies.rules
    if not (rules.old_compacted or rules.new_compacted):
        return None
    start, end = check.new.starts[copies.new], check.new.ends[copies.new]
    first = check.old.ends[check.at].start
    if rules.new_expires:  # what only the old primary's retention has left is no deletion
        first = max(first, _origin(copies, start))
    old = first, max(first, copies.old_span[1])
    return _Spans((cut, end), old, (start, end), _copy(copies, first) < start)


def _copy(copies: Copies, old: int) -> int:
    """Where the copies of the records from an offset of the old primary on begin."""
    found = copies.segments.translate(SourceOffset(old), copies.new_span[1])
    return copies.new_span[1] if isinstance(found, Unavailable) else found


def _origin(copies: Copies, new: int) -> int:
    """Where the records of the old primary begin whose copies are at or after an offset."""
    found = copies.segments.inverse(TargetOffset(new))
    return 0 if isinstance(found, Unavailable) else found


class _Comparison(NamedTuple):
    """One partition."""

    context: Context
    check: PartitionCheck
    spans: _Spans

    def judged(self, tail: PartitionDivergence, most: int) -> PartitionDivergence:
        """The partition with the number of keys that live on."""
        old, new = (self.check.old.side, self.check.at), (self.check.new.side, self._copy)
        if not self.spans.lost_start and self._is_whole(*new):
            return tail
        said = f"{self.check.at}: compaction was at work on its copy, so its keys are compared"
        self.context.tell(StepProgress(StepName.COMPARE, said))
        keys = _Keys()
        for record in self._records(*old, self.spans.old):
            keys.take(record)
            if len(keys) > most:
                why = f"it has more than {counted(most, 'record')}, and compaction was at work on its copy"
                return tail._replace(outlived=None, why=why)
        living = _Living(keys.living())
        for record in self._records(*new, self.spans.new):
            living.drop(record)
        return tail._replace(outlived=living.number())

    @property
    def _copy(self) -> TopicPartition:
        return self.check.new.pairs[self.check.at].target

    def _is_whole(self, side: LogSide, at: TopicPartition) -> bool:
        """Whether no offset is missing that clients wrote. Raises as :meth:`LogCursor.next`."""
        cursor = LogCursor(side, at, self.spans.since)
        while (read := self.context.run(cursor.next)) is not None:
            self.context.journal.renew()
            if not is_whole(read.answer.records or b"", read.position):
                return False
        return True

    def _records(self, side: LogSide, at: TopicPartition, span: tuple[int, int]) -> Iterator[Record]:
        """The committed records of a range. Raises as :meth:`LogCursor.next`."""
        cursor = LogCursor(side, at, span)
        while (read := self.context.run(cursor.next)) is not None:
            self.context.journal.renew()
            for chunk in read.found.chunks:
                yield from records_in(chunk)


class _Keys:
    """What the records of a log make of their keys, in order."""

    def __init__(self) -> None:
        self._hashes, self._live = array("Q"), bytearray()

    def __len__(self) -> int:
        return len(self._live)

    def take(self, record: Record) -> None:
        """Take the next record."""
        if record.key is not None:
            self._hashes.append(_hash(record.key))
            self._live.append(record.value is not None)

    def living(self) -> _Hashes:
        """The keys whose newest record has a value, sorted."""
        newest_first = np.frombuffer(self._hashes, np.uint64)[::-1]
        keys, newest = np.unique(newest_first, return_index=True)
        found: _Hashes = keys[np.frombuffer(self._live, np.bool_)[::-1][newest]]
        return found


class _Living:
    """Keys, of which another log may have some."""

    def __init__(self, keys: _Hashes) -> None:
        self._keys, self._left, self._seen = keys, np.ones(len(keys), np.bool_), array("Q")

    def drop(self, record: Record) -> None:
        """Take a record of the other log."""
        if record.key is not None:
            self._seen.append(_hash(record.key))
            if len(self._seen) >= _AT_ONCE:
                self._flush()

    def number(self) -> int:
        """The number of keys of which it has no record."""
        self._flush()
        return int(self._left.sum())

    def _flush(self) -> None:
        seen = np.frombuffer(self._seen, np.uint64)
        at = np.searchsorted(self._keys, seen)
        at = at[at < len(self._keys)] if len(self._keys) else at[:0]
        known = np.isin(self._keys[at], seen)
        self._left[at[known]] = False
        self._seen = array("Q")


def _hash(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=_HASH_BYTES).digest(), "big")
