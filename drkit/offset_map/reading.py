"""Reads buckets of the map topic incrementally, up to the current end."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from drkit.clock import monotonic
from drkit.control_key import Signatures
from drkit.counted import first_of
from drkit.errors import Failed
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.reading.log_tail import LogRestarted, LogTail, NoAnswerYet
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.transactions import open_in
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket
from drkit.offset_map.left_open import left_open
from drkit.offset_map.topic import find_map, made_anew
from drkit.wire import Record

_PATIENCE_SECONDS: Final = 60.0
"""Longer than the timeout of a bulk transaction."""
_MARKER_SECONDS: Final = 10.0
"""A running task writes a marker that is missing in about 3 seconds."""
_PAUSE_SECONDS: Final = 0.02
_WAIT_MS: Final = 20
"""How long a broker waits for expected records."""


async def read_on(
    cluster: RawCluster, topic: TopicMetadata, bucket: MapBucket, *, undecided: bool = True
) -> None:
    """Read a bucket up to its end at the time when reading began.

    A running replicator in bulk mode always has an open transaction: those that begin later are not
    waited for.

    :param undecided: wait for the transactions that are open now; False stops before the first of them
    :raises RawError: brokers stopped answering
    :raises Failed: the topic was recreated, a transaction stays open, or the bucket has no leader
    """
    bucket.is_partial, began, end = False, monotonic(), None
    tail, tp, checked = _tail(cluster, topic, bucket), TopicPartition(bucket.name, bucket.bucket), 0.0
    while end is None or bucket.next_offset < end:
        old_offset, evidence = bucket.next_offset, ""
        try:  # the first request does not wait: usually there is no new record
            await tail.look(cluster, 0 if end is None else _WAIT_MS)
            end = tail.high_watermark if end is None else end
        except (NoAnswerYet, LogRestarted) as error:
            evidence = str(error)
            newest = await find_map(cluster, bucket.name)
            if newest.topic_id != topic.topic_id:
                raise made_anew(bucket.name, str(topic.topic_id), newest.topic_id) from error
            if isinstance(error, LogRestarted):  # read the bucket from its start
                bucket.forget()
                tail = _tail(cluster, newest, bucket)
        bucket.next_offset, bucket.epoch = tail.next_offset, tail.epoch
        if bucket.next_offset > old_offset or (end is not None and bucket.next_offset >= end):
            continue
        if not (evidence or undecided):
            bucket.is_partial = True
            return
        waited, hanging = monotonic() - began, ""
        if not evidence and waited > checked + _MARKER_SECONDS:
            checked, leader = waited, (await find_map(cluster, tp.topic)).leaders[tp.partition]
            hanging = first_of(await left_open(cluster, partial(open_in, cluster, {tp: leader.node})))
        if hanging or waited > _PATIENCE_SECONDS:
            reason = f"a transaction of {hanging} misses its marker" if hanging else "an open transaction"
            evidence = f"stuck at offset {old_offset}: {evidence or reason}"
            raise Failed("map_unreadable", where=f"{tp} on {cluster.alias}", evidence=evidence)
        await cluster.loop.sleep(_PAUSE_SECONDS)


def _tail(cluster: RawCluster, topic: TopicMetadata, bucket: MapBucket) -> LogTail:
    def take(record: Record) -> None:
        if reason := signatures.refused(record.key, record.value, record.headers):
            bucket.refuse(record.key, record.offset, reason)
        else:
            bucket.apply(record.key, record.value, record.offset)

    tp = TopicPartition(bucket.name, bucket.bucket)
    signatures = bucket.signatures = bucket.signatures or Signatures(cluster.control, tp)
    tail = LogTail(cluster, tp, take, bucket.pass_over, signatures=signatures, in_order=True, topic=topic)
    tail.next_offset, tail.epoch = bucket.next_offset, bucket.epoch
    return tail


def load(loop: EventLoop, cluster: RawCluster, name: str, buckets: Iterable[int]) -> dict[int, MapBucket]:
    """Read whole buckets of the map, blocking. Raises Failed if the map does not exist, or cannot be read."""
    loaded = {b: MapBucket(b, name) for b in sorted(set(buckets))}

    async def read() -> None:
        await cluster.connected()
        topic = await find_map(cluster, name)
        for bucket in loaded.values():
            await read_on(cluster, topic, bucket)

    loop.run(read)
    return loaded
