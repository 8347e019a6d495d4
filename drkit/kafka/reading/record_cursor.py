"""Reads a range of a partition once, from its start to its end, in steps of bounded size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer.offsets import OffsetForLeaderEpochRequest

from drkit.errors import Failed
from drkit.kafka.codes import error_name
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, aborted_in, ask_leaders, fetch_one, grouped
from drkit.model import TopicPartition
from drkit.wire import Piece, Record, Transformed, pieces_in, records_in, split, visible

FETCH_BYTES: Final = 1 << 20
_LEAST_BYTES: Final = 32 << 10
_NEAR: Final = 10_000
"""Offsets. Of more, an answer that is too small by one that came before costs many requests."""
NO_IDS: Final[frozenset[int]] = frozenset()
_AGAIN: Final = "check the cluster, then ask again"
Fetch = Callable[[int, int], Awaitable[Any]]
"""Fetches from an offset on, at most a number of bytes; returns the response's partition data."""


class Unreadable(Failed):
    """A partition cannot be read up to the end of the range."""

    is_empty = False
    """Whether the broker has no batch from there on that a consumer may see."""

    def __init__(self, where: str, evidence: str, hint: str = _AGAIN) -> None:
        super().__init__("partition_unreadable", where=where, evidence=evidence, hint=hint)


class FetchedRange(NamedTuple):
    """One step of a cursor."""

    position: int
    """Where it began."""
    found: Transformed
    """What a consumer sees; without any record where a step has markers alone."""
    answer: Any

    @property
    def records(self) -> Iterator[Record]:
        """The records, with the offsets at which they were fetched. Raises CorruptBatch."""
        return chain.from_iterable(map(records_in, self.found.chunks))

    def pieces(
        self, skip: frozenset[int] = NO_IDS, is_mapped: Callable[[int], bool] = lambda _: True
    ) -> list[Piece]:
        """Return the records, not taken apart. Raises CorruptBatch.

        :param skip: producers whose records are left out where the offset map does not have them
        :param is_mapped: returns whether the offset map has the record of an offset
        """
        pieces = _pieces_of(self.found)
        if skip and not all(is_mapped(piece[0]) for piece in pieces):
            end, aborted = self.found.next_source, aborted_in(self.answer)
            others = visible(self.answer.records, self.position, end, aborted=aborted, without=skip)
            offsets = {piece[0] for piece in _pieces_of(others)}
            pieces = [piece for piece in pieces if piece[0] in offsets or is_mapped(piece[0])]
        return pieces

    @property
    def first_offset(self) -> int | None:
        """The offset of the first record, or None if there is none."""
        return self.found.chunks[0].runs[0].source if self.found.chunks else None


def _pieces_of(content: Transformed) -> list[Piece]:
    return [piece for chunk in content.chunks for piece in pieces_in(chunk)]


class RecordCursor:
    """The records of a range as a consumer sees them. Markers, aborted records and gaps are passed over.

    :param where: partition and cluster, for errors
    :param fetch: see :func:`leader_fetch`
    :param span: offsets, half open; it ends at or before the end of what `fetch` may return
    :param committed: leave out records of aborted transactions
    :param without: producers whose records are left out
    :param fetch_bytes: of one request
    :param first: a fetch answer for the start of the range, or None if it is to be fetched
    :param hint: of the errors
    """

    def __init__(
        self,
        where: str,
        fetch: Fetch,
        span: tuple[int, int],
        *,
        committed: bool = True,
        without: frozenset[int] = NO_IDS,
        fetch_bytes: int = FETCH_BYTES,
        first: Any | None = None,
        hint: str = _AGAIN,
    ) -> None:
        self._hint, self._where, self._fetch, self._first = hint, where, fetch, first
        self._committed, self._without, self._fetch_bytes = committed, without, fetch_bytes
        self.position, self._end = span
        self._density: float | None = None
        """Bytes for each offset, of the last answer."""
        self.bytes = 0
        """Bytes of the record batches read so far."""

    async def next(self) -> FetchedRange | None:
        """Return the next records, which may be none, or None at the end of the range.

        :raises Unreadable: the broker refuses, or has no batch before the end of the range
        :raises RawError: the cluster stopped answering
        :raises CorruptBatch: a batch cannot be read
        """
        position = self.position
        if position >= self._end:
            return None
        answer, self._first = self._first, None
        if answer is None:
            answer = await self._fetch(position, self._enough())
        if answer.error_code:
            evidence = f"offset {position}: {error_name(answer.error_code)}"
            raise Unreadable(self._where, evidence, self._hint)
        data = answer.records or b""
        aborted = aborted_in(answer) if self._committed else ()
        found = visible(data, position, self._end, aborted=aborted, without=self._without)
        if found.next_source <= position:
            evidence = f"nothing at offset {position}, before {self._end}"
            error = Unreadable(self._where, evidence, self._hint)
            error.is_empty = True
            raise error
        self.bytes += len(data)
        self.position = found.next_source
        self._density = _density(data)
        return FetchedRange(position, found, answer)

    def _enough(self) -> int:
        """Return the number of bytes to ask for: those of the rest of the range, by the last answer.

        The log continues behind the range, and an answer is filled up to its limit. A compacted log may be
        sparse first and dense then: after an answer that was too small the next one is large enough.
        """
        left = self._end - self.position
        if self._density is None or left > _NEAR:
            return self._fetch_bytes
        return min(self._fetch_bytes, max(_LEAST_BYTES, round(1.25 * left * self._density)))


def _density(data: bytes) -> float | None:
    """Bytes for each offset of the whole batches of an answer, which may begin before the wanted offset."""
    batches = [*split(data)]
    if not batches:
        return None
    (first, _), (last, _) = batches[0], batches[-1]
    offsets = last.base_offset + last.last_offset_delta + 1 - first.base_offset
    return sum(len(batch) for _, batch in batches) / offsets


def leader_fetch(cluster: RawCluster, topic: TopicMetadata | None, at: TopicPartition) -> Fetch:
    """Return what fetches committed records from the leader of a partition; it does not wait for any.

    It raises Unreadable without a leader, and RawError without an answer.
    """

    async def fetch(offset: int, most_bytes: int) -> Any:
        leader = topic.leaders.get(at.partition) if topic is not None else None
        if topic is None or leader is None or leader.node < 0:
            raise Unreadable(f"{at} on {cluster.alias}", "it has no leader")
        name = at.topic, topic.topic_id
        return await fetch_one(
            cluster, leader.node, name, at.partition, offset, max_bytes=most_bytes, max_wait_ms=0
        )

    return fetch


_CONSUMER: Final = -1
_ANY_EPOCH: Final = -1


class EpochEnd(NamedTuple):
    """The answer for one partition; both are −1 where the log has never heard of the epoch."""

    epoch: int
    """The epoch asked for, or the last one before it."""
    end: int
    """First offset of a later epoch, or the log's end."""


async def epoch_ends(
    cluster: RawCluster, topics: Mapping[str, TopicMetadata], epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd]:
    """Return the ends of leader epochs; partitions without an answer are left out.

    :param epochs: partition → leader epoch
    :raises RawError: a broker does not answer
    """
    topic_of = OffsetForLeaderEpochRequest.OffsetForLeaderTopic

    def row(topic: str, number: int) -> Any:
        return topic_of.OffsetForLeaderPartition(
            partition=number,
            current_leader_epoch=_ANY_EPOCH,
            leader_epoch=epochs[TopicPartition(topic, number)],
        )

    async def ask(node: int, led: list[TopicPartition]) -> dict[TopicPartition, EpochEnd]:
        rows = [topic_of(topic=t, partitions=[row(t, n) for n in numbers]) for t, numbers in grouped(led)]
        answer = await cluster.send(OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=rows), node)
        return {
            TopicPartition(topic.topic, p.partition): EpochEnd(p.leader_epoch, p.end_offset)
            for topic in answer.topics
            for p in topic.partitions
            if not p.error_code
        }

    return await ask_leaders(cluster, topics, epochs, ask)
