"""Reads a range of a partition in steps of bounded size, as a read_committed consumer sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from drkit.errors import Failed
from drkit.kafka.codes import error_name
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import TopicMetadata, aborted_in, fetch_one, fetch_request, leader_of
from drkit.model import TopicPartition
from drkit.wire import Piece, Transformed, pieces_in, split, visible

_FETCH_BYTES: Final = 1 << 20
_LEAST_BYTES: Final = 32 << 10
_NEAR: Final = 10_000
"""Offsets. Of more, an answer that is too small by one that came before costs many requests."""
_TOGETHER_BYTES: Final = 32 << 20
NO_IDS: Final[frozenset[int]] = frozenset()


class Unreadable(Failed):
    """A partition cannot be read up to the end of the range."""


class LogSide(NamedTuple):
    """One of both clusters, and its topics as they are now."""

    cluster: RawCluster
    topics: Mapping[str, TopicMetadata]
    is_old: bool = False
    """The old primary: that it stopped answering ends the whole comparison, not that of one partition."""


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


def _unreadable(side: LogSide, at: TopicPartition, evidence: str) -> Unreadable:
    return Unreadable(
        "partition_unreadable",
        where=f"{at} on {side.cluster.alias}",
        evidence=evidence,
        hint="check the cluster, then ask again",
    )


class _Read(NamedTuple):
    """One step."""

    position: int
    """Where it began."""
    found: Transformed
    answer: Any


class LogCursor:
    """The records of a range, read once from its beginning to its end.

    :param span: offsets, half open; it ends at or before the last stable offset
    :param first: a fetch answer for its beginning; None: it is fetched
    """

    def __init__(
        self, side: LogSide, at: TopicPartition, span: tuple[int, int], first: Any | None = None
    ) -> None:
        self._side, self._at, self._first = side, at, first
        self._position, self._end = span
        self._density: float | None = None
        """Bytes for each offset, of the last answer."""
        self.bytes = 0
        """Bytes of the record batches read so far."""

    async def next(self) -> _Read | None:
        """The next records, which may be none; None at the end of the range.

        :raises Unreadable: the broker has no answer
        :raises RawError: the cluster stopped answering
        :raises CorruptBatch: a batch cannot be read
        """
        position = self._position
        if position >= self._end:
            return None
        answer, self._first = self._first if self._first is not None else await self._fetch(), None
        if answer.error_code:
            raise _unreadable(self._side, self._at, f"offset {position}: {error_name(answer.error_code)}")
        data = answer.records or b""
        found = visible(data, position, self._end, aborted=aborted_in(answer))
        if found.next_source <= position:
            raise _unreadable(self._side, self._at, f"nothing at offset {position}, before {self._end}")
        self.bytes += len(data)
        self._position = found.next_source
        self._density = _density(data)
        return _Read(position, found, answer)

    async def _fetch(self) -> Any:
        node = leader_of(self._side.topics, self._at)
        if node < 0:
            raise _unreadable(self._side, self._at, "it has no leader")
        topic = (self._at.topic, self._side.topics[self._at.topic].topic_id)
        try:
            return await fetch_one(
                self._side.cluster, node, topic, self._at.partition, self._position, max_bytes=self._enough(),
                max_wait_ms=0,
            )  # fmt: skip
        except RawError as error:
            if self._side.is_old:
                raise
            raise _unreadable(
                self._side, self._at, f"it stopped answering ({type(error).__name__})"
            ) from error

    def _enough(self) -> int:
        """How much to ask for: what the rest of the range has, by the last answer.

        The log goes on behind the range, and an answer is filled up to its limit. A compacted log may be
        sparse first and dense then: after an answer that was too small the next one is not.
        """
        left = self._end - self._position
        if self._density is None or left > _NEAR:
            return _FETCH_BYTES
        return min(_FETCH_BYTES, max(_LEAST_BYTES, round(1.25 * left * self._density)))


def _density(data: bytes) -> float | None:
    """Bytes for each offset of the whole batches of an answer, which may begin before the wanted offset."""
    batches = [*split(data)]
    if not batches:
        return None
    (first, _), (last, _) = batches[0], batches[-1]
    offsets = last.base_offset + last.last_offset_delta + 1 - first.base_offset
    return sum(len(batch) for _, batch in batches) / offsets


class PieceCursor(LogCursor):
    """The same as records that are not taken apart.

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
        super().__init__(side, at, span, first)
        self._is_mapped, self._skip = is_mapped, skip

    async def pieces(self) -> list[Piece]:
        """The next records; empty at the end of the range. Raises as :meth:`next`."""
        while (read := await self.next()) is not None:
            found = [piece for chunk in read.found.chunks for piece in pieces_in(chunk)]
            if self._skip and not all(self._is_mapped(piece[0]) for piece in found):
                others = self._of_others(read)
                found = [p for p in found if p[0] in others or self._is_mapped(p[0])]
            if found:
                return found
        return []

    def _of_others(self, read: _Read) -> set[int]:
        """The offsets of records that no producer of these wrote."""
        left = visible(
            read.answer.records, read.position, read.found.next_source, aborted=aborted_in(read.answer),
            without=self._skip,
        )  # fmt: skip
        return {offset for chunk in left.chunks for offset, _, _ in pieces_in(chunk)}


async def count_visible(
    side: LogSide, at: TopicPartition, spans: Iterable[tuple[int, int]], most_bytes: int
) -> tuple[int, int | None]:
    """Count the records that a consumer sees in some ranges; and the offset of the first, None without one.

    :param most_bytes: it stops after this number of bytes: then the count is a lower bound
    :raises: as :meth:`LogCursor.next`
    """
    number, first, left = 0, None, most_bytes
    for span in spans:
        cursor = LogCursor(side, at, span)
        while left > cursor.bytes and (read := await cursor.next()) is not None:
            number += sum(chunk.count for chunk in read.found.chunks)
            if first is None and read.found.chunks:
                first = read.found.chunks[0].runs[0].source
        left -= cursor.bytes
        if left <= 0:
            break
    return number, first
