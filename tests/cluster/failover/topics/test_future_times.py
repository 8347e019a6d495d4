"""Producers whose clocks are ahead: the age of their records is unknown, so it hides no loss."""

from __future__ import annotations

import pytest

from drkit.clock import wall_ms
from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failover.fixtures import WorldFactory
from tests.support.flows.produce import fill, producer

AHEAD_MS = 30 * 60 * 1000
"""Brokers accept records of up to an hour ahead."""


@pytest.mark.wide
def test_records_from_the_future_are_not_lost_without_acceptance(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster
) -> None:
    world = world_factory(source, target)
    topic = world.name("orders")
    world.create(world.source, topic, 1, {"retention.ms": "-1"})
    fill(world.source, topic, 20)
    world.replicate()
    world.copied([topic])
    world.stop_replicating()
    out = producer(world.source)
    for number in range(10):
        out.produce(topic, b"%d" % number, timestamp=wall_ms() + AHEAD_MS)
    assert out.flush(30) == 0
    with world.desk() as desk, pytest.raises(Refused, check=coded("loss_unknown")) as refused:
        desk.begin([], RunRequest())
    assert "10 records known to be missing" in refused.value.evidence
