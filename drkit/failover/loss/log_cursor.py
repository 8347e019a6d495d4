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
    """One of both clusters, and its topics as they are now."""

    cluster: RawCluster
    topics: Mapping[str, TopicMetadata]
    is_old: bool = False
    """The old primary: that it stopped answering ends the whole comparison, not that of one partition."""

    def fetch(self, at: TopicPartition) -> Fetch:
        """Return what fetches from a partition."""
        ask = leader_fetch(self.cluster, self.topics.get(at.topic), at)

        async def fetch(offset: int, most_bytes: int) -> Any:
            try:
                return await ask(offset, most_bytes)
            except RawError as error:
                if self.is_old:
                    raise
                evidence = f"it stopped answering ({type(error).__name__})"
                raise Unreadable(self.where(at), evidence) from error

        return fetch

    def where(self, at: TopicPartition) -> str:
        """Return partition and cluster, for errors."""
        return f"{at} on {self.cluster.alias}"

    def cursor(
        self,
        at: TopicPartition,
        span: tuple[int, int],
        without: frozenset[int] = NO_IDS,
        fetch_bytes: int = FETCH_BYTES,
    ) -> RecordCursor:
        """Return a cursor over a range of a partition."""
        where, fetch = self.where(at), self.fetch(at)
        return RecordCursor(where, fetch, span, without=without, fetch_bytes=fetch_bytes)


async def first_answers(
    side: LogSide, wanted: Mapping[TopicPartition, int], partition_bytes: int
) -> dict[TopicPartition, Any]:
    """The first fetch answer of many partitions, in one request per topic and leader.

    :param wanted: partition → where to begin
    :param partition_bytes: limit of each partition
    :raises RawError: a broker does not answer
    """
    asked: dict[tuple[int, str], dict[int, int]] = {}
    for at, offset in wanted.items():
        if (node := leader_of(side.topics, at)) >= 0:
            asked.setdefault((node, at.topic), {})[at.partition] = offset

    async def ask(each: tuple[int, str]) -> dict[TopicPartition, Any]:
        node, topic = each
        request = fetch_request(
            (topic, side.topics[topic].topic_id), asked[each], committed=True, max_bytes=_TOGETHER_BYTES,
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

    found: dict[TopicPartition, Any] = {}
    for some in await side.cluster.loop.together(ask, asked):
        found |= some
    return found


class PieceCursor(RecordCursor):
    """The records of a range, not taken apart.

    :param skip: producers whose records do not count where the map knows of none
    :param is_mapped: whether the map knows of a record
    """

    def __init__(
        self,
        side: LogSide,
        at: TopicPartition,
        span: tuple[int, int],
        skip: frozenset[int] = NO_IDS,
        is_mapped: Callable[[int], bool] = lambda _: True,
        first: Any | None = None,
    ) -> None:
        super().__init__(side.where(at), side.fetch(at), span, first=first)
        self._is_mapped, self._skip = is_mapped, skip

    async def pieces(self) -> list[Piece]:
        """The next records; empty at the end of the range. Raises as :meth:`next`."""
        while (read := await self.next()) is not None:
            if pieces := read.pieces(self._skip, self._is_mapped):
                return pieces
        return []


async def count_visible(
    side: LogSide, at: TopicPartition, spans: Iterable[tuple[int, int]], most_bytes: int
) -> tuple[int, int | None]:
    """Count the records that a consumer sees in some ranges; and the offset of the first, None without one.

    :param most_bytes: it stops after this number of bytes: then the count is a lower bound
    :raises: as :meth:`RecordCursor.next`
    """
    number, first, left = 0, None, most_bytes
    for span in spans:
        cursor = side.cursor(at, span)
        while left > cursor.bytes and (read := await cursor.next()) is not None:
            number += sum(chunk.count for chunk in read.found.chunks)
            first = read.first_offset if first is None else first
        left -= cursor.bytes
        if left <= 0:
            break
    return number, first


async def first_record(cluster: RawCluster, at: TopicPartition, span: tuple[int, int]) -> int | None:
    """Return the offset of the first committed record in a range of a partition, or None if it holds none.

    :param span: the range, half open; it begins at or after the log start
    :raises Failed: the partition cannot be read
    :raises RawError: the cluster stopped answering
    """
    fetch = leader_fetch(cluster, (await metadata(cluster, [at.topic]))[at.topic], at)
    cursor = RecordCursor(f"{at} on {cluster.alias}", fetch, span, fetch_bytes=_FIRST_BYTES, hint=_REPROTECT)
    try:
        while (step := await cursor.next()) is not None:
            if step.first_offset is not None:
                return step.first_offset
    except Unreadable as error:
        if not error.is_empty:
            raise
    return None  # also where what follows is not committed yet
