"""Reading both clusters to their ends, as any consumer would, and comparing what came."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
import json
from typing import NamedTuple

from drkit.config import ClusterSettings
from drkit.demo.accounting import Payments
from drkit.demo.shop import ORDERS, PAYMENTS
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.range_reader import RangeReader
from drkit.kafka.topics import describe_topics, list_offsets
from drkit.model import ConsumedRecord, TopicPartition

Content = tuple[str, int, bytes | None]
"""Topic, partition and value of a record."""


class ReadResult(NamedTuple):
    """What a consumer got from one cluster."""

    records: int
    size: int
    """Bytes of keys and values."""
    fingerprints: dict[TopicPartition, str]
    """Of all records of a partition, in order: key, value, headers, time."""
    orders: list[int]
    """The numbers of all orders."""

    @property
    def twice(self) -> int:
        """Orders that came more than once."""
        return len(self.orders) - len(set(self.orders))


def _partitions(
    settings: ClusterSettings, topics: list[str]
) -> Iterator[tuple[TopicPartition, Iterator[ConsumedRecord]]]:
    """Yield each partition with its committed records, which are read before the next partition."""
    cluster = Cluster.connect(settings)
    tps = [TopicPartition(t.name, p) for t in describe_topics(cluster, topics).values() for p in t.leaders]
    ends = list_offsets(cluster, tps, "latest", committed=True)
    with closing(RangeReader(settings)) as reader:
        for tp in sorted(tps):
            yield tp, reader.read(tp, 0, ends[tp])


def read_all(settings: ClusterSettings, topics: list[str]) -> ReadResult:
    """Read topics from their first to their last committed record."""
    count = size = 0
    fingerprints: dict[TopicPartition, str] = {}
    orders: list[int] = []
    for tp, records in _partitions(settings, topics):
        digest = blake2b(digest_size=16)
        for record in records:
            count += 1
            size += len(record.key or b"") + len(record.value or b"")
            digest.update(repr(record[1:]).encode())
            if tp.topic == ORDERS:
                orders.append(json.loads(record.value or b"{}")["order"])
        fingerprints[tp] = digest.hexdigest()
    return ReadResult(count, size, fingerprints, orders)


def contents(settings: ClusterSettings) -> list[Content]:
    """All committed records of the shop's topics; no two of them have the same content."""
    partitions = _partitions(settings, [ORDERS, PAYMENTS])
    return [(*tp, record.value) for tp, records in partitions for record in records]


def payments(settings: ClusterSettings) -> Payments:
    """All committed payments of a cluster: those that a group must get."""
    by_partition = {
        tp.partition: [(r.key, r.value) for r in records] for tp, records in _partitions(settings, [PAYMENTS])
    }
    return {partition: records for partition, records in by_partition.items() if records}
