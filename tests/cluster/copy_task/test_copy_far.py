"""A copy over a link with a round trip of 100 ms is complete, and keeps the link filled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
import time

import pytest

from drkit.kafka.requests import metadata
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.support.circles import in_soak
from tests.support.flows.compare import check_copy
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.produce import aged, fill

ONE_WAY_MS = 50.0
ROUND_TRIP_SECONDS = 2 * ONE_WAY_MS / 1000


@pytest.fixture(scope="module")
def far() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    with ExitStack() as stack:
        both = [LocalCluster(ClusterSpec(n, linked=("CLIENT",))) for n in ("far-source", "far-target")]
        for each in both:
            stack.callback(each.stop)
        start_together(*both)
        yield both[0], both[1]


@contextmanager
def distant(cluster: LocalCluster) -> Iterator[None]:
    cluster.link("CLIENT").slow(delay_ms=ONE_WAY_MS)
    try:
        yield
    finally:
        cluster.link("CLIENT").restore()


@pytest.mark.wide
def test_the_link_takes_what_it_says(far, flow_factory):
    flow = flow_factory(*far)
    flow.ask_once(flow.source, metadata, [])  # opens the connection
    with distant(far[0]):
        began = time.monotonic()
        for _ in range(5):
            flow.ask_once(flow.source, metadata, [])
        took = (time.monotonic() - began) / 5
    assert ROUND_TRIP_SECONDS <= took < 2 * ROUND_TRIP_SECONDS


@pytest.mark.wide
@pytest.mark.parametrize(
    ("age_days", "side"),
    [in_soak(0, "source"), (0, "target"), (30, "source"), in_soak(30, "target")],
    ids=["fresh-source", "fresh-target", "old-source", "old-target"],
)
def test_a_copy_over_a_long_link_is_complete(far, flow_factory, topic_name, side: str, age_days: int):
    """P22, P24: whole with 100 ms between drkit and either cluster."""
    flow: Flow = flow_factory(*far)
    flow.create_both(topic_name, 2, retention_ms="-1")
    times = aged(age_days * DAY_MS) if age_days else None
    fill(flow.source, topic_name, 5000, size=200, batch_size=16_000, timestamp=times)
    lease = flow.lease(topic_name)

    with distant(far[side == "target"]):
        report = flow.copy(lease=lease)

    assert report.records == 5000
    check_copy(flow, topic_name)
    assert not flow.events("resync")


@pytest.mark.wide
@pytest.mark.parametrize("age_days", [0, in_soak(30)], ids=["fresh", "old"])
def test_more_than_five_batches_of_a_partition_are_on_their_way(far, flow_factory, topic_name, age_days: int):
    # Kafka's own producers stop at five; drkit's recovery asks the leader instead of repeating.
    """P22: a long link is kept filled by more requests in flight."""
    flow: Flow = flow_factory(*far, produce_in_flight=40, merge_below_bytes=0)
    flow.create_both(topic_name, retention_ms="-1")
    times = aged(age_days * DAY_MS) if age_days else None
    fill(flow.source, topic_name, 20_000, size=200, batch_size=16_000, timestamp=times)
    lease = flow.lease(topic_name)

    with distant(far[1]):
        report = flow.copy(lease=lease)

    check_copy(flow, topic_name)
    assert report.resyncs == 0
    assert report.batches >= 200
    # Five at a time take a round trip for every five batches at least, on any machine.
    assert report.seconds - report.startup_seconds < report.batches / 5 * ROUND_TRIP_SECONDS
