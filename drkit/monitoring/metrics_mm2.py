"""Metrics under MirrorMaker 2's names: records, bytes, rates, age and latency of each partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from drkit.min_max_mean import MinMaxMean
from drkit.model import TopicPartition
from drkit.monitoring.metrics_pair import Sample
from drkit.status.progress import Moved

_PARTITION: Final = ("source", "target", "topic", "partition")
MM2: Final = "kafka_connect_mirror_mirrorsourceconnector_"
"""The JMX exporter's prefix for MirrorMaker 2's MBeans, as in existing dashboards."""
MM2_ROWS: Final = (
    (MM2 + "record_count", "gauge", _PARTITION, "Records copied since the start, by the target's topic."),
    (MM2 + "record_rate", "gauge", _PARTITION, "Records copied per second, between two looks."),
    (MM2 + "byte_count", "gauge", _PARTITION, "Bytes copied since the start."),
    (MM2 + "byte_rate", "gauge", _PARTITION, "Bytes copied per second between the two last looks."),
    *(
        (MM2 + name + suffix, "gauge", _PARTITION, f"{meaning}: {which} of the last epoch, ms.")
        for name, meaning in (
            ("record_age_ms", "Age of batches when they were fetched"),
            ("replication_latency_ms", "Age of batches when they stood on the target"),
        )
        for suffix, which in (("", "mean"), ("_min", "least"), ("_max", "most"), ("_avg", "mean"))
    ),
)


@dataclass(slots=True)
class Count:
    """Records and bytes of one partition, also between two reports of its task."""

    first_end: int
    records: float = 0.0
    bytes: float = 0.0
    records_per_second: float = 0.0
    bytes_per_second: float = 0.0

    def see(self, end: int, moved: Moved | None, seconds: float) -> None:
        """Take the target's current end; between reports its growth counts as copied.

        :param seconds: since the last call
        """
        records, size = float(max(0, end - self.first_end)), 0.0
        if moved is not None and moved.target_end >= 0:
            grown = max(0, end - moved.target_end)
            each = moved.bytes / moved.records if moved.records else 0.0
            records, size = moved.records + grown, moved.bytes + grown * each
        before = (self.records, self.bytes)
        # Gaps of the target (markers) counted as records until the report: never count down.
        self.records, self.bytes = max(records, self.records), max(size, self.bytes)
        if seconds > 0:
            self.records_per_second = (self.records - before[0]) / seconds
            self.bytes_per_second = (self.bytes - before[1]) / seconds


def mm2_samples(
    flow: tuple[str, str],
    names: Mapping[TopicPartition, str],
    counts: Mapping[TopicPartition, Count],
    moved: Mapping[TopicPartition, Moved],
) -> Iterator[Sample]:
    """Yield every value of the partitions of one flow.

    :param names: of the copies of partitions
    """
    for at, count in counts.items():
        labels = (*flow, names.get(at, at.topic), str(at.partition))
        yield MM2 + "record_count", labels, count.records
        yield MM2 + "record_rate", labels, count.records_per_second
        yield MM2 + "byte_count", labels, count.bytes
        yield MM2 + "byte_rate", labels, count.bytes_per_second
        for name, spread in _spreads(moved.get(at)):
            yield MM2 + name, labels, spread.mean
            yield MM2 + name + "_avg", labels, spread.mean
            yield MM2 + name + "_min", labels, spread.least
            yield MM2 + name + "_max", labels, spread.most


def _spreads(moved: Moved | None) -> Iterator[tuple[str, MinMaxMean]]:
    if moved is not None and moved.latency_ms.count:
        yield "record_age_ms", moved.age_ms
        yield "replication_latency_ms", moved.latency_ms
