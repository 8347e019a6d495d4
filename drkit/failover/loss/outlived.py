"""Keys that clients have deleted on the new primary and that live on on the old one.

A tombstone goes ``delete.retention.ms`` after it was cleaned (KIP-534). The settings say what the cleaner may
do now, not what it did under earlier ones. So the log is asked: where it has every offset since the
promotion, the cleaner has removed nothing. Where it has not, each key of the old primary must be on the new
one, with a value or a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final

from drkit.counted import counted
from drkit.failover.loss.content import Copies
from drkit.failover.loss.findings import CopyFate, DivergenceState, PartitionDivergence
from drkit.failover.loss.log_cursor import LogCursor, LogSide, Unreadable
from drkit.failover.loss.partition_check import PartitionCheck
from drkit.model import TopicPartition
from drkit.wire import CorruptBatch, Record, is_whole, records_in

MOST_KEYS: Final = 2_000_000
"""Keys of a partition that are compared, about 200 MB of memory. With more it is unknown."""
_HASH_BYTES: Final = 8


async def with_outlived(
    checks: Sequence[PartitionCheck], tails: Sequence[PartitionDivergence], most: int = MOST_KEYS
) -> list[PartitionDivergence]:
    """The same partitions; those that equal their compacted copies with the number of keys that live on.

    One is read after the other: each takes memory for its keys.

    :param checks: in the same order
    :param most: keys of a partition that are compared
    :raises RawError: the old primary stopped answering
    """
    found = []
    for check, tail in zip(checks, tails, strict=True):
        try:
            found.append(await _judged(check, tail, most))
        except (Unreadable, CorruptBatch) as error:
            found.append(tail._replace(found=DivergenceState.UNKNOWN, why=error.in_short, proven=False))
    return found


async def _judged(check: PartitionCheck, tail: PartitionDivergence, most: int) -> PartitionDivergence:
    mapped, cut = check.mapped, check.new.cuts.get(check.at)
    may_stay = tail.found is DivergenceState.CLEAN and tail.copy is CopyFate.KEPT
    if mapped is None or cut is None or not (may_stay and mapped.copies.rules.new_compacted):
        return tail
    copies = mapped.copies
    start, end = check.new.starts[copies.new], check.new.ends[copies.new]
    if not _lost_its_start(copies, start) and await _is_whole(check.new.side, copies.new, (cut, end)):
        return tail
    living: dict[int, None] = {}
    await _read(
        check.old.side, copies.old, copies.old_span, lambda r: _live(living, r), lambda: len(living) > most
    )
    if len(living) > most:
        why = f"it has more than {counted(most, 'key')}, and the new primary has compacted its copy"
        return tail._replace(outlived=None, why=why)
    await _read(check.new.side, copies.new, (start, end), lambda r: _drop(living, r), lambda: not living)
    return tail._replace(outlived=len(living))


def _lost_its_start(copies: Copies, start: int) -> bool:
    """Whether the new primary has removed copies of records that the old one still has."""
    return copies.copy_from(copies.old_span[0]) < start


async def _is_whole(side: LogSide, at: TopicPartition, span: tuple[int, int]) -> bool:
    """Whether no offset of a range is missing. Raises as :meth:`LogCursor.next`."""
    cursor = LogCursor(side, at, span)
    while (read := await cursor.next()) is not None:
        if not is_whole(read.answer.records or b"", read.position):
            return False
    return True


async def _read(
    side: LogSide, at: TopicPartition, span: tuple[int, int], take: Callable[[Record], None],
    is_enough: Callable[[], bool],
) -> None:  # fmt: skip
    """Pass the records of a range to `take` until it is enough. Raises as :meth:`LogCursor.next`."""
    cursor = LogCursor(side, at, span)
    while not is_enough() and (read := await cursor.next()) is not None:
        for chunk in read.found.chunks:
            for record in records_in(chunk):
                take(record)


def _live(living: dict[int, None], record: Record) -> None:
    """Note what a record makes of its key on the old primary."""
    if record.key is None:
        return
    if record.value is None:
        living.pop(_hash(record.key), None)
    else:
        living[_hash(record.key)] = None


def _drop(living: dict[int, None], record: Record) -> None:
    """Note that the new primary has a key."""
    if record.key is not None:
        living.pop(_hash(record.key), None)


def _hash(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=_HASH_BYTES).digest(), "big")
