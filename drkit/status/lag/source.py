"""The source's records that are not on the target yet: counted from batches, not from offsets alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from drkit.counted import counted, total
from drkit.flow_state.kinds.run import NOTHING_HELD as NOTHING_HELD
from drkit.flow_state.kinds.run import Ends as Ends
from drkit.flow_state.kinds.run import HeldBack as HeldBack
from drkit.flow_state.left_out import LeftOut
from drkit.kafka import codes
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import (
    EARLIEST,
    LATEST,
    TopicMetadata,
    aborted_in,
    by_leader,
    fetch_one,
    list_offsets,
    partitions_of,
)
from drkit.model import TopicPartition
from drkit.wire import CorruptBatch, read_header, visible

_LOOK_BYTES: Final = 16 << 20
"""Of the records of all partitions in one look: the link between both sites carries them."""
_LARGEST_SAMPLE: Final = 512 << 10
_SMALLEST_SAMPLE: Final = 64 << 10
_MOST_SEGMENTS: Final = 8
_AT_ONCE: Final = 16
MOST_SAMPLES: Final = 256
"""Maximum number of partitions whose waiting records are read; the others are estimated."""


class UncopiedRange(NamedTuple):
    """Source offsets from the frontier up to the end."""

    at: TopicPartition
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class UncopiedRecords:
    """Records that are not copied yet. An estimate when not exact."""

    records: int
    bytes: int | None
    oldest_ms: int | None
    """Timestamp of the first one, or None without any, or if it is unknown."""
    exact: bool
    reason: str = ""
    """Why their age is unknown; empty also if they were not requested."""


async def ends_of(
    cluster: RawCluster, topics: Mapping[str, TopicMetadata], names: Iterable[str]
) -> dict[TopicPartition, Ends]:
    """Return begin and end of every partition of some topics; one whose leader does not answer is left out.

    The high watermark is requested first: records that arrive between two requests are not held back.
    """
    out = {}
    for node, tps in by_leader(topics, partitions_of(topics, names)).items():
        marks = await list_offsets(cluster, node, dict.fromkeys(tps, LATEST), committed=False)
        starts = await list_offsets(cluster, node, dict.fromkeys(tps, EARLIEST), committed=True)
        ends = await list_offsets(cluster, node, dict.fromkeys(tps, LATEST), committed=True)
        for tp in tps:
            if not starts[tp].error and not ends[tp].error and not marks[tp].error:
                end = ends[tp].offset
                out[tp] = Ends(starts[tp].offset, end, max(marks[tp].offset, end))
    return out


async def waiting(
    cluster: RawCluster, topics: Mapping[str, TopicMetadata], gaps: list[UncopiedRange], skip: LeftOut
) -> dict[TopicPartition, UncopiedRecords]:
    """Return the records to copy in each gap, without markers; exact only if one answer has the whole gap."""
    out = {gap.at: UncopiedRecords(gap.end - gap.start, None, None, exact=False) for gap in gaps}
    largest = sorted(gaps, key=lambda g: g.start - g.end)
    sample = sample_bytes(len(gaps))

    async def look(gap: UncopiedRange) -> None:
        try:
            out[gap.at] = await _around_cut(cluster, topics, gap, skip, sample)
        except RawError as error:
            out[gap.at] = replace(out[gap.at], reason=error.in_short)

    await cluster.loop.some_at_once(look, largest[:MOST_SAMPLES], _AT_ONCE)
    return out


def sample_bytes(partitions: int) -> int:
    """Return the bytes to read of each partition in a look at some of them.

    One batch is read whatever its size: a look at many partitions with large batches may take more.
    """
    share = _LOOK_BYTES // max(1, min(partitions, MOST_SAMPLES))
    return max(_SMALLEST_SAMPLE, min(_LARGEST_SAMPLE, share))


async def _around_cut(
    cluster: RawCluster, topics: Mapping[str, TopicMetadata], gap: UncopiedRange, skip: LeftOut, sample: int
) -> UncopiedRecords:
    """Count a gap in parts: before and after a cut, different records are left out."""
    total = UncopiedRecords(0, 0, None, exact=True)
    for start, end, ids in skip.parts(gap.at, gap.start, gap.end):
        total = joined(total, await _sample(cluster, topics, UncopiedRange(gap.at, start, end), ids, sample))
    return total


def joined(before: UncopiedRecords, after: UncopiedRecords) -> UncopiedRecords:
    """Return the sum of two ranges, one after the other."""
    volume = None if before.bytes is None or after.bytes is None else before.bytes + after.bytes
    exact = before.exact and after.exact
    first = before if before.records else after
    return UncopiedRecords(before.records + after.records, volume, first.oldest_ms, exact, first.reason)


async def _sample(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    gap: UncopiedRange,
    skip: frozenset[int],
    most_bytes: int,
    segments: int = _MOST_SEGMENTS,
) -> UncopiedRecords:
    """Count the records of a gap, by its first bytes.

    :param segments: the number to read; an answer ends with a segment, however small that is
    """
    if gap.start >= gap.end:
        return UncopiedRecords(0, 0, None, exact=True)
    topic, number = topics[gap.at.topic], gap.at.partition
    answer = await fetch_one(
        cluster, topic.leaders[number].node, (gap.at.topic, topic.topic_id), number, gap.start,
        max_bytes=most_bytes, max_wait_ms=0,
    )  # fmt: skip
    if answer.error_code:
        reason = f"its records cannot be read: {codes.error_name(answer.error_code)}"
        return UncopiedRecords(gap.end - gap.start, None, None, exact=False, reason=reason)
    data, aborted = bytes(answer.records or b""), aborted_in(answer)
    records = counted_gap(gap, data, aborted, skip)
    if records.exact or records.bytes is None or segments == 1 or len(data) > most_bytes // 2:
        return records
    end = visible(data, gap.start, gap.end, aborted=aborted, without=skip).next_source
    rest = await _sample(cluster, topics, gap._replace(start=end), skip, most_bytes, segments - 1)
    return joined(counted_gap(gap._replace(end=end), data, aborted, skip), rest)


def counted_gap(
    gap: UncopiedRange, data: bytes, aborted: list[tuple[int, int]], skip: frozenset[int]
) -> UncopiedRecords:
    """Count the uncopied records of a gap, from a fetch response that begins there."""
    size = gap.end - gap.start
    unread = UncopiedRecords(size, None, None, exact=False, reason="no whole batch of it could be read")
    try:
        out = visible(data, gap.start, gap.end, aborted=aborted, without=skip)
    except CorruptBatch:
        return unread
    seen = out.next_source - gap.start
    if seen <= 0:
        return unread
    records, volume = sum(c.count for c in out.chunks), sum(c.size for c in out.chunks)
    oldest = read_header(out.chunks[0].data).base_timestamp if out.chunks else None
    if seen >= size:
        return UncopiedRecords(records, volume, oldest, exact=True)
    return UncopiedRecords(records * size // seen, volume * size // seen, oldest, exact=False)


def held_total(held: Iterable[HeldBack]) -> HeldBack:
    """Return the sum over partitions; the oldest time is unknown if it is unknown for one partition."""
    partitions = [h for h in held if h.records]
    times = [h.oldest_ms for h in partitions if h.acknowledged]
    known = [t for t in times if t is not None]
    return HeldBack(
        sum(h.records for h in partitions),
        sum(h.acknowledged for h in partitions),
        min(known, default=None) if len(known) == len(times) else None,
        total(h.bytes for h in partitions),
    )


def held_text(records: int, acknowledged: int) -> str:
    """Return what open transactions hold back as a text, or an empty one if nothing."""
    some = counted(records, "record")
    return f"up to {some} held back by open transactions ({acknowledged:,} acknowledged)" if records else ""


_MOST_AHEAD_MS: Final = 2000
"""A time that is further ahead of this machine's clock is not used: one of two clocks is wrong."""
_FUTURE: Final = "its oldest record has a time in the future"


def age_of(at_ms: int | None, now_ms: int) -> float | None:
    """Return the age in seconds of a time by another machine's clock, or None if unknown."""
    return None if at_ms is None or at_ms > now_ms + _MOST_AHEAD_MS else max(0, now_ms - at_ms) / 1000


_LOOKS: Final = 8
_MOST_MS: Final = 30_000
"""Maximum age of a look that counts: an older one gives no useful upper bound of a record's age."""


class EarlierEnds:
    """The ends of the last looks at a source."""

    def __init__(self) -> None:
        self._looks: deque[tuple[int, dict[TopicPartition, int]]] = deque(maxlen=_LOOKS)

    def dated(
        self,
        began_ms: int,
        now_ms: int,
        ends: Mapping[TopicPartition, Ends],
        gaps: Iterable[UncopiedRange],
        records: Mapping[TopicPartition, UncopiedRecords],
    ) -> dict[TopicPartition, UncopiedRecords]:
        """Return the records; those of unknown age get the time of the last look before them.

        :param began_ms: when this look began
        :param ends: of this look
        """
        out = dict(records)
        for gap in gaps:
            waits = out.get(gap.at)
            if waits is not None and waits.records and age_of(waits.oldest_ms, now_ms) is None:
                reason = waits.reason or (_FUTURE if waits.oldest_ms is not None else "")
                oldest_ms = self._before(gap, now_ms)
                out[gap.at] = replace(waits, oldest_ms=oldest_ms, exact=False, reason=reason)
        # What a transaction holds back was there, too: it is behind the end when it is decided.
        self._looks.append((began_ms, {tp: max(e.end, e.high_watermark or 0) for tp, e in ends.items()}))
        return out

    def _before(self, gap: UncopiedRange, now_ms: int) -> int | None:
        beyond = gap.start + 1
        copied = (at_ms for at_ms, ends in self._looks if ends.get(gap.at, beyond) <= gap.start)
        return max((at_ms for at_ms in copied if 0 <= now_ms - at_ms <= _MOST_MS), default=None)
