"""Transaction markers written straight to partitions' leaders; the principal needs ALTER on the cluster.

Such a marker makes the leader know a producer's epoch: from then on it refuses every older one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

from drkit.kafka.raw import RawCluster
from drkit.model import TopicPartition

_TIMEOUT_MS = 10_000


class Marker(NamedTuple):
    """The end of one producer's transaction on some partitions that one broker leads."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    """As the leader remembers it; 0 where it knows none. A smaller one is refused."""
    partitions: tuple[TopicPartition, ...]
    commits: bool = False
    """An abort, if not."""


async def write_markers(
    cluster: RawCluster, node: int, markers: Iterable[Marker]
) -> Mapping[tuple[int, TopicPartition], int]:
    """Write markers; Kafka's error codes by producer id and partition.

    An answer without error means that the marker is replicated. May be repeated: each costs one offset.

    :raises RawError: no answer
    """
    marker_of = WriteTxnMarkersRequest.WritableTxnMarker
    wanted = []
    for m in markers:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in m.partitions:
            by_topic.setdefault(topic, []).append(partition)
        topics = [
            marker_of.WritableTxnMarkerTopic(name=t, partition_indexes=p) for t, p in sorted(by_topic.items())
        ]
        wanted.append(
            marker_of(
                producer_id=m.producer_id,
                producer_epoch=m.epoch,
                transaction_result=m.commits,
                topics=topics,
                coordinator_epoch=m.coordinator_epoch,
            )
        )
    answer = await cluster.send(WriteTxnMarkersRequest(markers=wanted), node, timeout_ms=_TIMEOUT_MS)
    return {
        (m.producer_id, TopicPartition(t.name, p.partition_index)): p.error_code
        for m in answer.markers
        for t in m.topics
        for p in t.partitions
    }
