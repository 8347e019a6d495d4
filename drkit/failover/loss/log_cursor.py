"""Reads a range of a partition in steps of bounded size, as a read_committed consumer sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.reading.record_cursor import (
    FETCH_BYTES,
    NO_IDS,
    Fetch,
    RecordCursor,
    Unreadable,
    leader_fetch,
)
from drkit.kafka.requests import TopicMetadata, fetch_request, leader_of, metadata
from drkit.model import TopicPartition
from drkit.wire import Piece

_TOGETHER_BYTES: Final = 32 << 20
_FIRST_BYTES: Final = 64 << 10
_REPROTECT: Final = "check the cluster, then: drkit reprotect, with --resume where a run is under way"


class LogSide(NamedTuple):
    """One of both clusters, with its current topics."""

    cluster: RawCluster
    topics: Mapping[str, TopicMetadata]
    is_old: bool = False
    """Whether it is the old primary: if that stops answering, the whole comparison ends."""

    def fetch(self, tp: TopicPartition) -> Fetch:
        """Return the function that fetches from a partition."""
        ask = leader_fetch(self.cluster, self.topics.get(tp.topic), tp)

        async def fetch(offset: int, most_bytes: int) -> Any:
            try:
                return await ask(offset, most_bytes)
            except RawError as error:
                if self.is_old:
                    raise
                evidence = f"it stopped answering ({error})"
                raise Unreadable(self.where(tp), evidence) from error

        return fetch

    def where(self, tp: TopicPartition) -> str:
        """Return partition and cluster, for errors."""
        return f"{tp} on {self.cluster.alias}"

    def cursor(
        self,
        tp: TopicPartition,
        span: tuple[int, int],
        without: frozenset[int] = NO_IDS,
        fetch_bytes: int = FETCH_BYTES,
        first: Any | None = None,
    ) -> RecordCursor:
        """Return a cursor over a range of a partition."""
        where, fetch = self.where(tp), self.fetch(tp)
        return RecordCursor(where, fetch, span, without=without, fetch_bytes=fetch_bytes, first=first)


async def first_answers(
    side: LogSide, wanted: Mapping[TopicPartition, int], partition_bytes: int
) -> dict[TopicPartition, Any]:
    """Return the first fetch answer of many partitions, in one request per topic and leader.

    :param wanted: partition → where to begin
    :param partition_bytes: limit of each partition
    :raises RawError: a broker does not answer
    """
    offsets: dict[tuple[int, str], dict[int, int]] = {}
    for tp, offset in wanted.items():
        if (node := leader_of(side.topics, tp)) >= 0:
            offsets.setdefault((node, tp.topic), {})[tp.partition] = offset

    async def ask(each: tuple[int, str]) -> dict[TopicPartition, Any]:
        node, topic = each
        request = fetch_request(
            (topic, side.topics[topic].topic_id), offsets[each], committed=True, max_bytes=_TOGETHER_BYTES,
            partition_bytes=partition_bytes,
        )  # fmt: skip
        try:
            answer = await side.cluster.send(request, node)
        except RawError:
            if side.is_old:
                raise
            return {}
        some = answer.responses[0].partitions if answer.responses else ()
        return {TopicPartition(topic, p.partition_index): p for p in some if p.records}

    answers: dict[TopicPartition, Any] = {}
    for of_leader in await side.cluster.loop.together(ask, offsets):
        answers |= of_leader
    return answers


class PieceCursor(RecordCursor):
    """The records of a range, not taken apart.

    :param skip: producers whose records do not count where the map knows of none
    :param is_mapped: whether the map knows of a record
    """

    def __init__(
        self,
        side: LogSide,
        tp: TopicPartition,
        span: tuple[int, int],
        skip: frozenset[int] = NO_IDS,
        is_mapped: Callable[[int], bool] = lambda _: True,
        first: Any | None = None,
    ) -> None:
        super().__init__(side.where(tp), side.fetch(tp), span, first=first)
        self._is_mapped, self._skip = is_mapped, skip

    async def pieces(self) -> list[Piece]:
        """Return the next records; empty at the end of the range. Raises as :meth:`next`."""
        while (read := await self.next()) is not None:
            if pieces := read.pieces(self._skip, self._is_mapped):
                return pieces
        return []


async def count_visible(
    side: LogSide, tp: TopicPartition, spans: Iterable[tuple[int, int]], most_bytes: int
) -> tuple[int, int | None]:
    """Count the records that a consumer sees in some ranges; and the offset of the first, None without one.

    :param most_bytes: it stops after this number of bytes: then the count is a lower bound
    :raises: as :meth:`RecordCursor.next`
    """
    number, first, left = 0, None, most_bytes
    for span in spans:
        cursor = side.cursor(tp, span)
        while left > cursor.bytes and (read := await cursor.next()) is not None:
            number += sum(chunk.count for chunk in read.found.chunks)
            first = read.first_offset if first is None else first
        left -= cursor.bytes
        if left <= 0:
            break
    return number, first


async def first_record(cluster: RawCluster, tp: TopicPartition, span: tuple[int, int]) -> int | None:
    """Return the offset of the first committed record in a range of a partition, or None if it holds none.

    :param span: the range, half open; it begins at or after the log start
    :raises Failed: the partition cannot be read
    :raises RawError: the cluster stopped answering
    """
    fetch = leader_fetch(cluster, (await metadata(cluster, [tp.topic]))[tp.topic], tp)
    cursor = RecordCursor(f"{tp} on {cluster.alias}", fetch, span, fetch_bytes=_FIRST_BYTES, hint=_REPROTECT)
    try:
        while (step := await cursor.next()) is not None:
            if step.first_offset is not None:
                return step.first_offset
    except Unreadable as error:
        if not error.is_empty:
            raise
    return None  # also where what follows is not committed yet
