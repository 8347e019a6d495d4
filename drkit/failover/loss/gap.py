"""Counts the records between the copy's frontier and the source's end exactly: it reads every batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from drkit.flow_state.left_out import LeftOut
from drkit.kafka.raw import RawCluster
from drkit.kafka.reading.record_cursor import RecordCursor, Unreadable, leader_fetch
from drkit.kafka.requests import TopicMetadata, metadata
from drkit.model import TopicPartition
from drkit.status.lag.source import UncopiedRange

_FETCH_BYTES: Final = 4 << 20
_AT_ONCE: Final = 8
MOST_BYTES: Final = 512 << 20
"""Maximum bytes read from one partition; later records are not counted, and the result shows that."""


class Counted(NamedTuple):
    """The records of a gap."""

    records: int
    bytes: int
    oldest_ms: int | None
    newest_ms: int | None
    next_offset: int
    """The first source offset that was not read; the end of the gap when all of it was."""


async def count_gaps(
    source: RawCluster, gaps: Iterable[UncopiedRange], skip: LeftOut
) -> dict[TopicPartition, Counted]:
    """Return the records in each gap, without markers, aborted records and records that the flow skips.

    :raises RawError: the source stopped answering
    """
    wanted = list(gaps)
    topics = await metadata(source, sorted({g.at.topic for g in wanted})) if wanted else {}
    out: dict[TopicPartition, Counted] = {}
    for i in range(0, len(wanted), _AT_ONCE):
        some = wanted[i : i + _AT_ONCE]
        counted = await source.loop.together(lambda gap: _count(source, topics, gap, skip), some)
        out |= {gap.at: found for gap, found in zip(some, counted, strict=True)}
    return out


async def _count(
    source: RawCluster, topics: Mapping[str, TopicMetadata], gap: UncopiedRange, skip: LeftOut
) -> Counted:
    records = size = 0
    times: list[int] = []
    position, fetch = gap.start, leader_fetch(source, topics.get(gap.at.topic), gap.at)
    try:
        for start, end, without in skip.parts(gap.at, gap.start, gap.end):
            cursor = RecordCursor(str(gap.at), fetch, (start, end), without=without, fetch_bytes=_FETCH_BYTES)
            while size < MOST_BYTES and (step := await cursor.next()) is not None:
                found = [r.timestamp for r in step.records]
                times = [min(times + found), max(times + found)] if found else times
                records, position = records + len(found), cursor.position
                size += sum(chunk.size for chunk in step.found.chunks)
    except Unreadable:  # as of a topic that the source does not have any more
        pass
    oldest, newest = times or (None, None)
    return Counted(records, size, oldest, newest, position)
