"""Read the records after many offsets of a cluster, each once, within a limit of bytes per second."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final, NamedTuple

from drkit.clock import Seconds, monotonic
from drkit.drill.position_rows import WINDOW, RecordDigest, RecordWindow
from drkit.failover.loss.log_cursor import LogSide, first_answers
from drkit.kafka.codes import error_name
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.reading.record_cursor import FetchedRange
from drkit.kafka.requests import (
    EARLIEST,
    LATEST,
    TopicMetadata,
    aborted_in,
    fetch_one,
    leader_of,
    listed,
    metadata,
)
from drkit.model import TopicPartition
from drkit.wire import CorruptBatch, Piece, visible

FETCH_BYTES: Final = 4 << 10
"""Limit of one partition in a request. After a larger batch the next requests ask for as much as it has."""
_MOST_FETCH_BYTES: Final = 1 << 20
COMPACTED_WINDOW: Final = 200
"""Records of a window of a compacted topic: compaction removes others on each side."""
MOST_RECORDS: Final = 1_000
"""Records of the longest window: it grows while all its records are equal."""
_KEPT_RECORDS: Final = 10_000
"""Records before the first offset that are kept, at most."""
_TIMEOUT_MS: Final = 10_000

ReadPoint = tuple[TopicPartition, int]
"""A partition and an offset."""


class ByteRateLimit:
    """Delays requests so that a number of bytes per second is not exceeded on average."""

    def __init__(self, bytes_per_second: float, clock: Seconds = monotonic) -> None:
        self._rate, self._clock = bytes_per_second, clock
        self._due = clock()
        self.bytes = 0
        """Bytes that were read so far."""

    def delay(self, size: int) -> float:
        """Count bytes that were read; return the seconds to wait before the next request."""
        self.bytes += size
        now = self._clock()
        self._due = max(self._due, now) + size / self._rate
        return self._due - now


class LogSpan(NamedTuple):
    """One partition of a log, up to the end at which reading stops."""

    start: int
    end: int
    window: int = WINDOW
    """Records of a window, at least."""
    left_out: frozenset[int] = frozenset()
    """Producers whose records are not copied unless the offset map has them."""
    copy_of: Callable[[int], object] = lambda offset: offset
    """Returns None for a record that the offset map does not have."""


@dataclass
class _Queue:
    """The offsets of a partition whose windows are still to be read, and what was read after the first."""

    span: LogSpan
    offsets: list[int]
    """Descending."""
    next: int = 0
    """Offset of the next record to read."""
    pieces: list[Piece] = field(default_factory=list)
    fetch_bytes: int = FETCH_BYTES
    _first: int = 0
    """Index of the first record at or after the first offset."""

    def window(self) -> RecordWindow | None:
        """Return the window at the first offset, or None if more must be read."""
        offset = max(self.offsets[-1], self.span.start)
        self._first = bisect_left(self.pieces, offset, lo=self._first, key=itemgetter(0))
        if self.next < offset or self._first > _KEPT_RECORDS:
            self.pieces, self._first = self.pieces[self._first :], 0
            self.next = max(self.next, offset)
        ahead = self.pieces[self._first : self._first + MOST_RECORDS + 1]
        is_last = self._first + len(ahead) == len(self.pieces)
        is_whole = is_last and self.next >= self.span.end
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

    def __init__(self, side: LogSide, spans: Mapping[TopicPartition, LogSpan], limit: ByteRateLimit) -> None:
        self._side, self._spans, self._limit = side, spans, limit
        self.windows: dict[ReadPoint, RecordWindow] = {}
        """The windows that were read."""
        self.failures: dict[TopicPartition, str] = {}
        """Partitions that could not be read to the end, and why."""
        self.requests = 0

    async def read(self, points: Iterable[ReadPoint]) -> None:
        """Read the windows at some offsets: one offset of each partition in a round, in ascending order."""
        offsets: dict[TopicPartition, set[int]] = {}
        for tp, offset in points:
            if (tp, offset) not in self.windows:
                offsets.setdefault(tp, set()).add(offset)
        queues = {
            tp: _Queue(self._spans[tp], sorted(wanted, reverse=True))
            for tp, wanted in offsets.items()
            if tp in self._spans
        }
        for tp in offsets.keys() - queues.keys():
            self.failures[tp] = f"{tp} on {self._side.cluster.alias} does not answer"
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
            answers |= await first_answers(self._side, wanted, size)
        # A broker returns a batch that is larger than the limit only for the first partition of a request.
        alone = [(tp, queue) for tp, queue in queues.items() if tp not in answers]
        fetched = await self._side.cluster.loop.together(self._fetch, alone)
        for (tp, queue), answer in zip(alone, fetched, strict=True):
            answers[tp] = answer
            if answer is not None and (size := len(answer.records or b"")) > queue.fetch_bytes:
                queue.fetch_bytes = min(_MOST_FETCH_BYTES, 1 << size.bit_length())
        self.requests += len(by_size) + len(alone)
        read = sum(len(a.records or b"") for a in answers.values() if a is not None)
        for tp, queue in queues.items():
            self._take(tp, queue, answers[tp])
        await self._side.cluster.loop.sleep(self._limit.delay(read))

    async def _fetch(self, each: tuple[TopicPartition, _Queue]) -> Any:
        (tp, queue), raw, topics = each, self._side.cluster, self._side.topics
        if (node := leader_of(topics, tp)) < 0:
            self.failures[tp] = f"{tp} on {raw.alias} has no leader"
            return None
        topic, begin, size = (tp.topic, topics[tp.topic].topic_id), queue.next, queue.fetch_bytes
        try:
            return await fetch_one(
                raw, node, topic, tp.partition, begin, max_bytes=size, max_wait_ms=0, timeout_ms=_TIMEOUT_MS
            )
        except RawError as error:
            self.failures[tp] = f"{tp} on {raw.alias} does not answer: {error}"
            return None

    def _take(self, tp: TopicPartition, queue: _Queue, answer: Any) -> None:
        if answer is None:
            return
        where = f"{tp}@{queue.next} on {self._side.cluster.alias}"
        if answer.error_code:
            self.failures[tp] = f"{where}: {error_name(answer.error_code)}"
            return
        try:
            read = _visible_range(answer, queue.next, queue.span.end)
            pieces = read.pieces(queue.span.left_out, lambda offset: queue.span.copy_of(offset) is not None)
        except CorruptBatch as error:
            self.failures[tp] = f"{where}: {error}"
            return
        if read.found.next_source <= queue.next:
            self.failures[tp] = f"{where}: no records before the end, {queue.span.end}"
            return
        queue.pieces += pieces
        queue.next = read.found.next_source


async def log_spans(
    cluster: RawCluster, partitions: Iterable[TopicPartition]
) -> tuple[dict[str, TopicMetadata], dict[TopicPartition, LogSpan]]:
    """Return the topics, and the spans of the partitions whose leaders answer."""
    wanted = list(partitions)
    topics = await metadata(cluster, sorted({tp.topic for tp in wanted}))
    led = [tp for tp in wanted if leader_of(topics, tp) >= 0]
    starts = await listed(cluster, topics, led, EARLIEST)
    ends = await listed(cluster, topics, led, LATEST)
    return topics, {tp: LogSpan(starts[tp], ends[tp]) for tp in led if tp in starts and tp in ends}


def record_digest(piece: Piece) -> str:
    """Return the hash of a record's timestamp, key, value and headers; 16 hexadecimal digits."""
    return blake2b(piece[1].to_bytes(8, "big", signed=True) + bytes(piece[2]), digest_size=8).hexdigest()


def _visible_range(answer: Any, position: int, end: int) -> FetchedRange:
    content = visible(answer.records or b"", position, end, aborted=aborted_in(answer))
    return FetchedRange(position, content, answer)
