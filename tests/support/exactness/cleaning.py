"""Kafka's log cleaner at work on the offset map, in seconds instead of days."""

from __future__ import annotations

from collections.abc import Mapping
import zlib

from drkit.config import ClusterSettings
from drkit.local.cluster import LocalCluster
from tests.support.flows.clusters import Clusters
from tests.support.flows.flow import Flow
from tests.support.flows.produce import now_ms
from tests.support.waiting import eventually

CLEANING: Mapping[str, str] = {"log.cleaner.backoff.ms": "200"}
"""Broker properties: the cleaner looks five times a second."""
QUICK: Mapping[str, str] = {
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "1000",
}


def clean_often(clusters: Clusters, cluster: ClusterSettings, topic: str) -> None:
    """From now on a segment is closed after a second, and cleaned soon after."""
    for name, value in QUICK.items():
        clusters.configure(cluster, topic, name, value)


def cleaned_to(cluster: LocalCluster, topic: str, partition: int) -> int:
    """The offset up to which the cleaner has cleaned a partition, as the broker wrote it down."""
    best = 0
    for broker in cluster.brokers:
        file = broker.folder / "data" / "cleaner-offset-checkpoint"
        lines = file.read_text().splitlines()[2:] if file.exists() else []
        found = [line.rsplit(" ", 2) for line in lines]
        best = max([best, *(int(o) for name, p, o in found if (name, int(p)) == (topic, partition))])
    return best


class MapCleaning:
    """The partition of a flow's offset map that speaks of partition 0 of a topic."""

    def __init__(self, flow: Flow, target: LocalCluster, topic: str) -> None:
        self._flow, self._target = flow, target
        self._bucket = zlib.crc32(f"{topic}/0".encode()) % flow.settings.buckets

    @property
    def end(self) -> int:
        return self._flow.offsets(self._flow.target, self._flow.map_topic)[self._bucket]

    @property
    def cleaned(self) -> int:
        return cleaned_to(self._target, self._flow.map_topic, self._bucket)

    def wait(self, offset: int, seconds: float = 60.0) -> None:
        """Until everything before this offset of the map is cleaned."""
        eventually(lambda: self.cleaned >= offset, seconds, f"cleaning of the map up to {offset}")


def segment_is_full(since_ms: int) -> None:
    """Until the segment that was written last is old enough to be closed by the next append."""
    eventually(lambda: now_ms() > since_ms + int(QUICK["segment.ms"]) + 200)
