"""Read the records after many offsets of a cluster, each once, within a limit of bytes per second."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, NamedTuple

from drkit.copy_task.core.context import Throttle
from drkit.drill.position_rows import WINDOW, RecordDigest, RecordWindow
from drkit.failover.loss.log_cursor import LogSide, first_answers
from drkit.kafka.raw import RawCluster
from drkit.kafka.reading.record_cursor import Unreadable
from drkit.kafka.requests import EARLIEST, LATEST, leader_of, listed, metadata
from drkit.model import TopicPartition
from drkit.wire import CorruptBatch, Piece

FETCH_BYTES: Final = 4 << 10
"""Limit of one partition in a request. After a larger batch the next requests ask for as much as it has."""
_MOST_FETCH_BYTES: Final = 1 << 20
COMPACTED_WINDOW: Final = 200
"""Records of a window of a compacted topic: compaction removes others on each side."""
MOST_RECORDS: Final = 1_000
"""Records of the longest window: it grows while all its records are equal."""

ReadPoint = tuple[TopicPartition, int]
"""A partition and an offset."""


class LogSpan(NamedTuple):
    """One partition of a log, up to the end at which reading stops."""

    start: int = 0
    end: int = 0
    window: int = WINDOW
    """Records of a window, at least."""
    left_out: frozenset[int] = frozenset()
    """Producers whose records are not copied unless the offset map has them."""
    copy_of: Callable[[int], object] = lambda offset: offset
    """Returns None for a record that the offset map does not have."""


@dataclass
class _Queue:
    """The offsets of a partition whose windows are still to be read, and the records from the first on."""

    span: LogSpan
    offsets: list[int]
    """Descending."""
    next: int = 0
    """Offset of the next record to read."""
    pieces: deque[Piece] = field(default_factory=deque)
    fetch_bytes: int = FETCH_BYTES

    def window(self) -> RecordWindow | None:
        """Return the window at the first offset, or None if more must be read."""
        offset = max(self.offsets[-1], self.span.start)
        while self.pieces and self.pieces[0][0] < offset:
            self.pieces.popleft()
        self.next = max(self.next, offset)
        ahead = [*islice(self.pieces, MOST_RECORDS + 1)]
        is_whole = len(ahead) == len(self.pieces) and self.next >= self.span.end
        return take_window(ahead, is_whole=is_whole, least=self.span.window)


def take_window(pieces: Sequence[Piece], *, is_whole: bool, least: int = WINDOW) -> RecordWindow | None:
    """Return the window that some records begin, or None if more must be read.

    :param is_whole: no record follows them
    """
    differs = next((i for i, p in enumerate(pieces) if p[1:] != pieces[0][1:]), None)
    if not is_whole and len(pieces) < (MOST_RECORDS if differs is None else least):
        return None
    count = max(least, MOST_RECORDS if differs is None else differs + 1)
    records = tuple(RecordDigest(p[0], record_digest(p)) for p in pieces[:count])
    return RecordWindow(records, at_end=is_whole and len(pieces) <= count)


class RecordWindowReader:
    """Reads windows of records from one cluster.

    :param side: connected, with the metadata of the topics
    :param spans: the parts of the logs that may be read
    """

    def __init__(self, side: LogSide, spans: dict[TopicPartition, LogSpan], throttle: Throttle) -> None:
        self.side, self.spans, self._throttle = side, spans, throttle
        self.windows: dict[ReadPoint, RecordWindow] = {}
        """The windows that were read."""
        self.failures: dict[TopicPartition, str] = {}
        """Partitions that could not be read to the end, and why."""
        self.requests, self.bytes = 0, 0
        """Fetch requests, and bytes of record batches that were read."""

    @classmethod
    async def of(
        cls, cluster: RawCluster, spans: Mapping[TopicPartition, LogSpan], throttle: Throttle
    ) -> RecordWindowReader:
        """Return a reader of the partitions whose leaders answer, from their starts to their ends now.

        :param spans: how to read them
        """
        topics = await metadata(cluster, sorted({tp.topic for tp in spans}))
        led = [tp for tp in spans if leader_of(topics, tp) >= 0]
        starts = await listed(cluster, topics, led, EARLIEST)
        ends = await listed(cluster, topics, led, LATEST)
        answered = [tp for tp in led if tp in starts and tp in ends]
        whole = {tp: spans[tp]._replace(start=starts[tp], end=ends[tp]) for tp in answered}
        return cls(LogSide(cluster, topics), whole, throttle)

    async def read(self, points: Iterable[ReadPoint]) -> None:
        """Read the windows at some offsets: one offset of each partition in a round, in ascending order."""
        offsets: dict[TopicPartition, set[int]] = {}
        for tp, offset in points:
            offsets.setdefault(tp, set()).add(offset)
        queues = {
            tp: _Queue(self.spans[tp], sorted(wanted, reverse=True))
            for tp, wanted in offsets.items()
            if tp in self.spans
        }
        for tp in offsets.keys() - queues.keys():
            self.failures[tp] = f"{self.side.where(tp)} does not answer"
        while queues := {
            tp: q for tp, q in queues.items() if tp not in self.failures and self._settle(tp, q)
        }:
            await self._round(queues)

    def _settle(self, tp: TopicPartition, queue: _Queue) -> bool:
        """Keep the windows that are complete; return whether more must be read."""
        while queue.offsets:
            window = queue.window()
            if window is None:
                return True
            self.windows[tp, queue.offsets.pop()] = window
        return False

    async def _round(self, queues: Mapping[TopicPartition, _Queue]) -> None:
        by_size: dict[int, dict[TopicPartition, int]] = {}
        for tp, queue in queues.items():
            by_size.setdefault(queue.fetch_bytes, {})[tp] = queue.next
        answers: dict[TopicPartition, Any] = {}
        for size, wanted in by_size.items():
            answers |= await first_answers(self.side, wanted, size)
        each = [(tp, queue, answers.get(tp)) for tp, queue in queues.items()]
        # A broker returns a batch that is larger than the limit only for the first partition of a request.
        self.requests += len(by_size) + sum(answer is None for _, _, answer in each)
        read = sum(await self.side.cluster.loop.together(self._read_next, each))
        self.bytes += read
        self._throttle.take(read)
        await self.side.cluster.loop.sleep(self._throttle.pause())

    async def _read_next(self, each: tuple[TopicPartition, _Queue, Any]) -> int:
        """Read the next records of a partition; it is fetched alone if it has no answer. Return the bytes."""
        tp, queue, answer = each
        span = queue.span
        cursor = self.side.cursor(tp, (queue.next, span.end), fetch_bytes=queue.fetch_bytes, first=answer)
        try:
            if (read := await cursor.next()) is not None:
                queue.pieces += read.pieces(span.left_out, lambda offset: span.copy_of(offset) is not None)
        except (Unreadable, CorruptBatch) as error:
            reason = error.evidence if isinstance(error, Unreadable) else str(error)
            self.failures[tp] = f"{self.side.where(tp)}: {reason}"
        queue.next = cursor.position
        if cursor.bytes > queue.fetch_bytes:
            queue.fetch_bytes = min(_MOST_FETCH_BYTES, 1 << cursor.bytes.bit_length())
        return cursor.bytes


def record_digest(piece: Piece) -> str:
    """Return the hash of a record's timestamp, key, value and headers; 16 hexadecimal digits."""
    return blake2b(piece[1].to_bytes(8, "big", signed=True) + bytes(piece[2]), digest_size=8).hexdigest()
