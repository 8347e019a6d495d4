"""Reads a range of a partition from its leader, until every offset belongs to a record or a hole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any, Final, NamedTuple

from drkit.clock import Seconds, monotonic
from drkit.config import ClusterSettings
from drkit.errors import Failed, NotAuthorized, Refused
from drkit.export.manifest import TailRange
from drkit.export.record import ExportedRecord, Hole, HoleKind, Item, TimestampType
from drkit.kafka import codes
from drkit.kafka.codes import error_name
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.requests import (
    EARLIEST,
    LATEST,
    TopicMetadata,
    aborted_in,
    fetch_one,
    list_offsets,
    metadata,
)
from drkit.model import TopicPartition
from drkit.wire import CorruptBatch, records_in, split, visible
from drkit.wire.chunk import DropReason, Transformed

_KINDS: Final = {
    DropReason.CONTROL: HoleKind.MARKER,
    DropReason.ABORTED: HoleKind.ABORTED,
    DropReason.LOOP: HoleKind.COPIED_BACK,
    DropReason.EMPTY: HoleKind.COMPACTED,
}
_FETCH_BYTES: Final = 4 << 20
_WAIT_MS: Final = 100
_PAUSE_SECONDS: Final = 0.2
PATIENCE_SECONDS: Final = 60.0
"""Without any progress: longer than the election of a leader."""


class Contents(NamedTuple):
    """The contents of an answer; the batches are unpacked one after another, as the items are taken."""

    items: Iterator[Item]
    next_offset: int
    """The next offset to fetch; the requested one if the answer holds no complete batch."""


def contents(
    buffer: bytes, position: int, end: int, *, aborted: Sequence[tuple[int, int]], skip: frozenset[int]
) -> Contents:
    """Return every offset from a position up to the end of the answer, or `end`, as a record or in a hole.

    :param buffer: the record batches as fetched; the last may be cut off
    :param end: first offset not wanted
    :param aborted: the answer's aborted transactions: producer id, first offset
    :param skip: producers whose records drkit itself had copied there
    :raises CorruptBatch: a batch cannot be read
    """
    out = visible(buffer, position, end, aborted=aborted, without=skip)
    return Contents(_items(out, buffer, position), out.next_source)


def _items(out: Transformed, buffer: bytes, position: int) -> Iterator[Item]:
    """Yield records and holes in order. A gap was compacted: a log has no other gaps after its start."""
    drops = (drop for drop in out.drops if drop.reason is not DropReason.BEFORE_POSITION)
    holes: Iterator[Item] = (Hole(drop.start, drop.end, _KINDS[drop.reason]) for drop in drops)
    records: Iterator[Item] = _records(out, buffer)
    for item in merge(records, holes, key=itemgetter(0)):  # by their first offsets
        first, end = (item.first, item.end) if isinstance(item, Hole) else (item.offset, item.offset + 1)
        if first > position:
            yield Hole(position, first, HoleKind.COMPACTED)
        yield item
        position = end
    if out.next_source > position:
        yield Hole(position, out.next_source, HoleKind.COMPACTED)


def _records(out: Transformed, buffer: bytes) -> Iterator[ExportedRecord]:
    headers = (header for header, _ in split(buffer) if not header.is_control)
    header = next(headers, None)
    for chunk in out.chunks:
        for record in records_in(chunk):
            while header is not None and header.last_offset < record.offset:
                header = next(headers, None)
            assert header is not None, "a record outside of every batch"  # noqa: S101  a programming error
            yield ExportedRecord(
                offset=record.offset,
                timestamp=record.timestamp,
                timestamp_type=TimestampType(header.is_log_append_time),
                key=record.key,
                value=record.value,
                headers=record.headers,
                producer_id=header.producer_id,
            )


class TailReader:
    """Connections to one cluster, to read ranges by the protocol itself.

    :param patience: seconds without progress after which a range is given up
    """

    def __init__(
        self, settings: ClusterSettings, *, patience: float = PATIENCE_SECONDS, clock: Seconds = monotonic
    ) -> None:
        self._loop = EventLoop()
        self._cluster = RawCluster(self._loop, settings, "export")
        self._patience, self._clock = patience, clock
        self._topics: dict[str, TopicMetadata] = {}

    def read(self, wanted: TailRange, skip: frozenset[int]) -> Iterator[Item]:
        """Yield the records and holes of a range, in the order of their offsets.

        :param skip: producers whose records become holes of the kind ``copied_back``
        :raises Refused: the topic is another one, or its log ends before the range does
        :raises Failed: the cluster has no answer for a minute, or a batch cannot be read
        """
        self._loop.run(self._cluster.connected)
        position, heard, trouble = wanted.first, self._clock(), ""
        while position < wanted.end:
            try:
                answer = self._loop.run(self._fetch, wanted, position)
                if answer.error_code == codes.NONE:
                    content = contents(
                        bytes(answer.records or b""), position, wanted.end,
                        aborted=aborted_in(answer), skip=skip,
                    )  # fmt: skip
                    yield from content.items
                    after, trouble = content.next_offset, "it returns no records"
                else:
                    after, trouble = position, error_name(answer.error_code)
                if after == position:
                    for hole in self._loop.run(self._unread, wanted, position, answer.error_code):
                        yield hole
                        after = hole.end
            except CorruptBatch as error:
                raise Failed(
                    "export_batch_damaged",
                    where=f"{wanted.topic}-{wanted.partition}",
                    evidence=f"offset {error.offset}: {error.reason}",
                ) from error
            except RawError as error:
                after, trouble = position, str(error)
            if after > position:
                position, heard = after, self._clock()
                continue
            if self._clock() - heard > self._patience:
                evidence = f"no progress at offset {position} for {self._patience:.0f} s: {trouble}"
                raise Failed("export_leader_silent", where=self._where(wanted), evidence=evidence)
            self._topics.pop(wanted.topic, None)
            self._loop.run(self._loop.sleep, _PAUSE_SECONDS)

    def close(self) -> None:
        """Leave the cluster."""
        self._cluster.close()
        self._loop.close()

    async def _fetch(self, wanted: TailRange, position: int, *, committed: bool = True) -> Any:
        leader = await self._leader(wanted)
        return await fetch_one(
            self._cluster, leader, (wanted.topic, wanted.topic_id), wanted.partition, position,
            committed=committed, max_bytes=_FETCH_BYTES, max_wait_ms=_WAIT_MS,
        )  # fmt: skip

    async def _leader(self, wanted: TailRange) -> int:
        topic = self._topics.get(wanted.topic)
        if topic is None:
            topic = (await metadata(self._cluster, [wanted.topic]))[wanted.topic]
            if topic.error == codes.NONE and topic.topic_id != wanted.topic_id:
                evidence = f"topic id {topic.topic_id}, {wanted.topic_id} was to be exported"
                raise Refused("export_topic_recreated", where=self._where(wanted), evidence=evidence)
            if topic.error == codes.NONE:
                self._topics[wanted.topic] = topic
        leader = topic.leaders.get(wanted.partition)
        if leader is None or leader.node < 0:
            raise RawError(error_name(topic.error) if topic.error else "the partition has no leader")
        return leader.node

    async def _unread(self, wanted: TailRange, position: int, code: int) -> list[Hole]:
        """Return the hole that explains an empty answer, or none to retry. Raises Refused if none can."""
        if code in codes.NOT_AUTHORIZED:
            raise NotAuthorized("export_not_authorized", where=self._where(wanted), evidence=error_name(code))
        if code not in {codes.NONE, codes.OFFSET_OUT_OF_RANGE}:
            return []
        leader, at = await self._leader(wanted), TopicPartition(wanted.topic, wanted.partition)
        start = (await list_offsets(self._cluster, leader, {at: EARLIEST}, committed=True))[at]
        end = (await list_offsets(self._cluster, leader, {at: LATEST}, committed=True))[at]
        if start.error or end.error:
            return []
        if position < start.offset:
            return [Hole(position, min(start.offset, wanted.end), HoleKind.REMOVED)]
        if end.offset < wanted.end:
            evidence = f"its last stable offset is {end.offset}, offset {position} comes next"
            raise Refused("export_range_short", where=self._where(wanted), evidence=evidence)
        return await self._nothing_left(wanted, position)

    async def _nothing_left(self, wanted: TailRange, position: int) -> list[Hole]:
        """Return the rest of the range as a hole if no batch begins or ends there: compaction removed it all.

        A committed read shows no record after the last stable offset, so an empty answer proves nothing.
        """
        answer = await self._fetch(wanted, position, committed=False)
        if answer.error_code != codes.NONE:
            return []
        batches = [header for header, _ in split(bytes(answer.records or b""))]
        if any(header.next_offset > position and header.base_offset < wanted.end for header in batches):
            return []
        return [Hole(position, wanted.end, HoleKind.COMPACTED)]

    def _where(self, wanted: TailRange) -> str:
        return f"{self._cluster.alias}: {wanted.topic}-{wanted.partition}"
