"""Reading both clusters to their ends, as any consumer would, and comparing what came."""

from __future__ import annotations

from hashlib import blake2b
import json
from typing import NamedTuple

from drkit.config import ClusterSettings
from drkit.demo.accounting import Payments
from drkit.demo.shop import ORDERS, PAYMENTS
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.range_reader import RangeReader
from drkit.kafka.topics import describe_topics, list_offsets
from drkit.model import TopicPartition

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


def read_all(settings: ClusterSettings, topics: list[str]) -> ReadResult:
    """Read topics from their first to their last committed record."""
    cluster = Cluster.connect(settings)
    where = [TopicPartition(t.name, p) for t in describe_topics(cluster, topics).values() for p in t.leaders]
    ends = list_offsets(cluster, where, "latest", committed=True)
    reader = RangeReader(settings)
    records = size = 0
    fingerprints: dict[TopicPartition, str] = {}
    orders: list[int] = []
    try:
        for at in sorted(where):
            digest = blake2b(digest_size=16)
            for seen in reader.read(at, 0, ends[at]):
                records += 1
                size += len(seen.key or b"") + len(seen.value or b"")
                digest.update(repr(seen[1:]).encode())
                if at.topic == ORDERS:
                    orders.append(json.loads(seen.value or b"{}")["order"])
            fingerprints[at] = digest.hexdigest()
    finally:
        reader.close()
    return ReadResult(records, size, fingerprints, orders)


def contents(settings: ClusterSettings) -> list[Content]:
    """All committed records of the shop's topics; no two of them have the same content."""
    cluster = Cluster.connect(settings)
    topics = describe_topics(cluster, [ORDERS, PAYMENTS])
    where = [TopicPartition(t.name, p) for t in topics.values() for p in t.leaders]
    ends = list_offsets(cluster, where, "latest", committed=True)
    reader = RangeReader(settings)
    try:
        return [
            (at.topic, at.partition, s.value) for at in sorted(where) for s in reader.read(at, 0, ends[at])
        ]
    finally:
        reader.close()


def payments(settings: ClusterSettings) -> Payments:
    """All committed payments of a cluster: those that a group must get."""
    cluster = Cluster.connect(settings)
    where = [TopicPartition(PAYMENTS, p) for p in describe_topics(cluster, [PAYMENTS])[PAYMENTS].leaders]
    ends = list_offsets(cluster, where, "latest", committed=True)
    reader = RangeReader(settings)
    try:
        found = {
            at.partition: [(s.key, s.value) for s in reader.read(at, 0, ends[at])] for at in sorted(where)
        }
    finally:
        reader.close()
    return {partition: records for partition, records in found.items() if records}
