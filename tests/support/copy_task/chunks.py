"""Chunks of batches for the cursor of a partition."""

from __future__ import annotations

from drkit.offsets import History
from drkit.wire import Chunk, How, OffsetRun, Record, encode

HISTORY, NOW_MS, NONCE = History(7, 0), 1000, 5


def chunk(first: int, count: int, epoch: int) -> Chunk:
    data = encode([Record(i, NOW_MS, None, b"x", ()) for i in range(count)], 0)
    return Chunk(data, (OffsetRun(first, count),), count, NOW_MS, first + count, epoch, How.FORWARDED)
