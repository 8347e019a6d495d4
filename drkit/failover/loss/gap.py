"""Counts the records between the copy's frontier and the source's end exactly: it reads every batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from drkit.flow_state.left_out import LeftOut
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, aborted_in, fetch_one, metadata
from drkit.model import TopicPartition
from drkit.status.lag.source import UncopiedRange
from drkit.wire import decode, read_header, visible

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
    topic, position = topics.get(gap.at.topic), gap.start
    if topic is None or gap.at.partition not in topic.leaders:
        return Counted(0, 0, None, None, gap.start)  # the source does not have it any more
    records = size = 0
    oldest: int | None = None
    newest: int | None = None
    while position < gap.end and size < MOST_BYTES:
        answer = await fetch_one(
            source, topic.leaders[gap.at.partition].node, (gap.at.topic, topic.topic_id), gap.at.partition,
            position, max_bytes=_FETCH_BYTES, max_wait_ms=0,
        )  # fmt: skip
        if answer.error_code:
            break
        # Up to the cut other records are left out than after it.
        end = skip.divides(gap.at, position, gap.end) or gap.end
        without = skip.ids_at(gap.at, position)
        out = visible(answer.records or b"", position, end, aborted=aborted_in(answer), without=without)
        for chunk in out.chunks:
            times = [r.timestamp for r in decode(read_header(chunk.data), chunk.data)]
            records, size = records + chunk.count, size + chunk.size
            oldest = min(times) if oldest is None else min(oldest, *times)
            newest = max(times) if newest is None else max(newest, *times)
        if out.next_source <= position:
            break
        position = out.next_source
    return Counted(records, size, oldest, newest, min(position, gap.end))
