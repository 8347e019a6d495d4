"""Who a cluster is, when several servers are asked at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drkit.config import ClusterSettings
from drkit.config.tables.detection import DetectionSettings
from drkit.detect.awake import AwakeClock
from drkit.detect.probes import OWN, Met, Probes
from drkit.detect.seen import Address, Probe, ProbeOutcome
from tests.support.waiting import eventually

HERE, THERE = Address(OWN, "127.0.0.1:1"), Address(OWN, "127.0.0.1:2")
"""Nothing listens on these: what is heard from them, the tests say."""


@pytest.fixture
def probes() -> Iterator[Probes]:
    cluster = ClusterSettings(alias="primary", bootstrap_servers=f"{HERE.server},{THERE.server}")
    found = Probes({OWN: cluster}, DetectionSettings(probe_interval_seconds=60.0), AwakeClock())
    found.start()
    try:
        eventually(lambda: all(found.newest().values()), what="first probes")
        yield found
    finally:
        found.stop()


def test_a_stranger_that_answers_at_the_same_time_stays_one(probes: Probes):
    """Both were asked before the cluster's id was known; the second answer must not move its brokers."""
    answered = Probe(ProbeOutcome.ANSWERS, 1.0, 1.1)
    probes._heard(HERE, answered, Met("primary", ((0, HERE.server), (1, "127.0.0.1:3"))))
    probes._heard(THERE, answered, Met("stranger", ((0, THERE.server),)))
    assert probes.cluster_id == "primary"
    newest = probes.newest()
    assert set(newest) == {HERE._replace(broker=0), Address(OWN, "127.0.0.1:3", 1), THERE}
    told = newest[THERE]
    assert told is not None
    assert told.outcome is ProbeOutcome.WRONG_CLUSTER
    assert told.evidence == "cluster id stranger, expected primary"
