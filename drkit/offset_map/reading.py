"""Reads buckets of the map topic from where they were read to, up to the end at that moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from drkit.clock import monotonic
from drkit.control_key import Signatures
from drkit.errors import Failed
from drkit.kafka import codes
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.requests import EARLIEST, TopicMetadata, aborted_in, fetch_one, list_offsets
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket
from drkit.offset_map.topic import find_map, made_anew
from drkit.wire import records_in, visible

_PATIENCE_SECONDS: Final = 60.0
"""Longer than a bulk transaction stays open after its task was lost."""
_PAUSE_SECONDS: Final = 0.02
_WAIT_MS: Final = 20
"""How long a broker waits for records that are known to come."""


async def read_on(
    cluster: RawCluster, topic: TopicMetadata, bucket: MapBucket, *, undecided: bool = True
) -> None:
    """Read a bucket up to its end at the time when reading began.

    Beside a running replicator in bulk mode there is always another open transaction: those that begin
    later are not waited for.

    :param undecided: wait for the transactions that are open now; False stops before the first of them
    :raises Failed: the topic was recreated, a transaction stays open, or the bucket has no leader
    """
    deadline, end, name = monotonic() + _PATIENCE_SECONDS, None, bucket.name
    while end is None or bucket.next_offset < end:
        leader = topic.leaders[bucket.bucket].node
        before = bucket.next_offset
        wait_ms = 0 if end is None else _WAIT_MS  # mostly the bucket has no new record
        answer = await fetch_one(
            cluster, leader, (name, topic.topic_id), bucket.bucket, before, max_wait_ms=wait_ms
        )
        if not answer.error_code:
            end = answer.high_watermark if end is None else end
            _take(bucket, answer, cluster)
            if bucket.next_offset == before and not undecided:
                return
        elif answer.error_code == codes.OFFSET_OUT_OF_RANGE:
            await _from_the_start(cluster, leader, bucket)
        else:
            topic = await _same_topic(cluster, name, topic, answer.error_code)
        if bucket.next_offset == before and (end is None or bucket.next_offset < end):
            if monotonic() > deadline:
                raise Failed(
                    "map_unreadable",
                    where=f"{name}-{bucket.bucket} on {cluster.alias}",
                    evidence=f"stuck at offset {before}, Kafka error code {answer.error_code}"
                    " (0: an open transaction)",
                )
            await cluster.loop.sleep(_PAUSE_SECONDS)


def signatures_of(bucket: MapBucket, cluster: RawCluster) -> Signatures:
    """Return the signatures of a bucket, which verify its next records and sign new ones."""
    bucket.signatures = bucket.signatures or cluster.signatures(bucket.name)
    return bucket.signatures


def _take(bucket: MapBucket, answer: Any, cluster: RawCluster) -> None:
    out = visible(answer.records or b"", bucket.next_offset, aborted=aborted_in(answer))
    signatures = signatures_of(bucket, cluster)
    for chunk in out.chunks:
        for record in records_in(chunk):
            why = signatures.refused(record.key, record.value, record.headers)
            if why:
                bucket.refuse(record.key, record.offset, why)
            else:
                bucket.apply(record.key, record.value, record.offset)
    bucket.next_offset = max(bucket.next_offset, out.next_source)


async def _from_the_start(cluster: RawCluster, leader: int, bucket: MapBucket) -> None:
    """The log does not reach to where the bucket was read, or begins after it: all of it is read again."""
    bucket.forget()
    at = TopicPartition(bucket.name, bucket.bucket)
    listed = (await list_offsets(cluster, leader, {at: EARLIEST}, committed=False))[at]
    if not listed.error:
        bucket.next_offset = listed.offset


async def _same_topic(cluster: RawCluster, name: str, topic: TopicMetadata, code: int) -> TopicMetadata:
    found = await find_map(cluster, name)
    if code in codes.NO_SUCH_TOPIC and found.topic_id != topic.topic_id:
        raise made_anew(name, str(topic.topic_id), found.topic_id)
    return found


def load(loop: EventLoop, cluster: RawCluster, name: str, buckets: Iterable[int]) -> dict[int, MapBucket]:
    """Read whole buckets of the map, blocking. Raises Failed if the map does not exist, or cannot be read."""

    async def read() -> dict[int, MapBucket]:
        await cluster.connected()
        topic = await find_map(cluster, name)
        out = {b: MapBucket(b, name) for b in sorted(set(buckets))}
        for bucket in out.values():
            await read_on(cluster, topic, bucket)
        return out

    result: dict[int, MapBucket] = loop.run(read)
    return result
