"""Records that open transactions hold back above the last stable offset, and their producers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from drkit.flow_state.left_out import LeftOut
from drkit.kafka.raw import IncompatibleBrokerVersion, RawCluster
from drkit.kafka.requests import TopicMetadata, fetch_one, metadata
from drkit.kafka.transactions import Ongoing, OpenProducer, ongoing, open_in
from drkit.model import TopicPartition
from drkit.status.lag.source import MOST_SAMPLES, Ends, HeldBack, ends_of, sample_bytes
from drkit.wire import CorruptBatch, split

_AT_ONCE: Final = 16


class Holder(NamedTuple):
    """An open transaction of one partition."""

    opened: OpenProducer
    known: Ongoing | None
    """The coordinator's description, or None if no coordinator knows it, or drkit may not see it."""
    is_current: bool
    """The partition belongs to the transaction that the coordinator describes: it will end this one."""


class HeldInPartition(NamedTuple):
    """The records that open transactions hold back in one partition."""

    back: HeldBack
    holders: tuple[Holder, ...]
    """The open transactions, the first one first: it decides the last stable offset."""


async def held_back(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    ends: Mapping[TopicPartition, Ends],
    skip: LeftOut,
) -> dict[TopicPartition, HeldInPartition]:
    """Return each partition whose last stable offset is below its high watermark. Without one, send nothing.

    :param skip: producers whose records the flow leaves out
    :raises RawError: no answer; a note of half a look would be wrong for as long as the source is gone
    """
    above = {at: e for at, e in ends.items() if e.held_offsets}
    leaders = {at: topics[at.topic].leaders[at.partition].node for at in above}
    holders = await _holders(cluster, leaders)
    largest = sorted(above, key=lambda at: -above[at].held_offsets)
    out = {at: HeldInPartition(_unseen(e), holders.get(at, ())) for at, e in above.items()}
    sample = sample_bytes(len(above))

    async def look(tp: TopicPartition) -> None:
        topic, producers = topics[tp.topic], (skip, _undecided(out[tp].holders))
        held = await _sample(cluster, (tp, leaders[tp], topic), above[tp], producers, sample)
        out[tp] = out[tp]._replace(back=held)

    await cluster.loop.some_at_once(look, largest[:MOST_SAMPLES], _AT_ONCE)
    return out


async def held_by_others(
    cluster: RawCluster, names: Iterable[str], own: frozenset[int]
) -> dict[TopicPartition, HeldInPartition]:
    """Return partitions of some topics in which a producer other than drkit has an open transaction.

    :param own: producer ids of drkit
    :raises RawError: no answer
    """
    requested = sorted(names)
    topics = await metadata(cluster, requested) if requested else {}
    ends = await ends_of(cluster, topics, [n for n, t in topics.items() if not t.error])
    above = {at: e for at, e in ends.items() if e.held_offsets}
    leaders = {at: topics[at.topic].leaders[at.partition].node for at in above}
    found: dict[TopicPartition, HeldInPartition] = {}
    for at, holders in (await _holders(cluster, leaders)).items():
        others = tuple(h for h in holders if h.opened.producer_id not in own)
        if others:
            found[at] = HeldInPartition(_unseen(above[at]), others)
    return found


def with_held(
    ends: Mapping[TopicPartition, Ends], held: Mapping[TopicPartition, HeldInPartition]
) -> dict[TopicPartition, Ends]:
    """Return the ends, each with what is held back there."""
    return {at: e._replace(held=held[at].back) if at in held else e for at, e in ends.items()}


async def _holders(
    cluster: RawCluster, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[Holder, ...]]:
    """Return open transactions by partition, or none if the brokers do not report them (before Kafka 2.8)."""
    if not leaders:
        return {}
    try:
        found = await open_in(cluster, leaders)
    except IncompatibleBrokerVersion:
        return {}
    known = await ongoing(cluster, {o.producer_id for some in found.values() for o in some})
    return {
        at: tuple(
            _holder(at, o, known.get(o.producer_id)) for o in sorted(some, key=lambda o: o.state.open_since)
        )
        for at, some in found.items()
    }


def _holder(at: TopicPartition, opened: OpenProducer, known: Ongoing | None) -> Holder:
    return Holder(opened, known, known is not None and at in known.partitions)


def _undecided(holders: tuple[Holder, ...]) -> dict[int, int]:
    return {
        h.opened.producer_id: h.opened.state.open_since
        for h in holders
        if not (h.is_current and h.known is not None and h.known.owner.commits)
    }


async def _sample(
    cluster: RawCluster,
    where: tuple[TopicPartition, int, TopicMetadata],
    ends: Ends,
    producers: tuple[LeftOut, Mapping[int, int]],
    most_bytes: int,
) -> HeldBack:
    at, node, topic = where
    answer = await fetch_one(
        cluster, node, (at.topic, topic.topic_id), at.partition, ends.end,
        committed=False, max_bytes=most_bytes, max_wait_ms=0,
    )  # fmt: skip
    skip, undecided = producers
    left_out = skip.ids_before_cut(at)
    return counted_held(ends, bytes(answer.records or b""), left_out, undecided, skip.cuts.get(at))


def counted_held(
    ends: Ends, data: bytes, skip: frozenset[int], undecided: Mapping[int, int], cut: int | None = None
) -> HeldBack:
    """Count the records held back in a fetch response that begins at the last stable offset. Pure.

    Offsets beyond the response count as acknowledged records.

    :param skip: producers whose records before the cut are left out
    :param undecided: producer id → first offset of its open transaction
    :param cut: the offset at which a return began to copy, or None if all of them are left out
    """
    end = ends.end + ends.held_offsets
    records = acknowledged = size = 0
    seen, first_ms, oldest = ends.end, None, None
    try:
        for header, _ in split(data):
            if header.base_offset >= end:
                break
            seen = max(seen, min(header.next_offset, end))
            left_out = header.producer_id in skip and (cut is None or header.base_offset < cut)
            if header.is_control or left_out:
                continue
            records, size = records + header.count, size + header.size
            first_ms = header.base_timestamp if first_ms is None else first_ms
            since = undecided.get(header.producer_id)
            if since is None or not header.is_transactional or header.base_offset < since:
                acknowledged += header.count
                oldest = header.base_timestamp if oldest is None else min(oldest, header.base_timestamp)
    except CorruptBatch:
        return _unseen(ends)
    rest = end - seen
    if rest:  # younger than what was seen, so no older than its first record
        oldest = first_ms if oldest is None else oldest
    return HeldBack(records + rest, acknowledged + rest, oldest, None if rest else size)


def _unseen(ends: Ends) -> HeldBack:
    return HeldBack(ends.held_offsets, ends.held_offsets, None, None)
