"""The metrics that dashboards of MirrorMaker 2 ask for."""

from __future__ import annotations

import pytest

from drkit.monitoring.metrics import TABLE

PREFIX = "kafka_connect_mirror_mirrorsourceconnector_"
SPREADS = ("record_age_ms", "replication_latency_ms")
NAMES = ["record_count", "record_rate", "byte_count", "byte_rate"] + [
    name + suffix for name in SPREADS for suffix in ("", "_min", "_max", "_avg")
]


@pytest.mark.parametrize("name", NAMES)
def test_the_metrics_of_mirror_maker_are_there(name: str):
    """P20: records, bytes, rates, age and latency by partition, under MirrorMaker 2's names."""
    assert TABLE[PREFIX + name].labels == ("source", "target", "topic", "partition")
