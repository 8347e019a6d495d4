"""On the way back only what clients wrote since the switchover crosses the link: its bytes are counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.local.cluster import LocalCluster, start_together
from drkit.local.link import Direction
from drkit.local.spec import ClusterSpec
from tests.support.failback.pair import Pair
from tests.support.failover.truth import values
from tests.support.flows.produce import aged, fill
from tests.support.waiting import eventually

SIZE = 1000
RECORDS, DELTA = 20_000, 2000
LINK = "CLIENT"
"""Readers and writers of the test go through the link as well; what they move is not counted."""
OVERHEAD = 2_000_000
"""Metadata, positions, the state, and the last batch of each partition, asked for again and again."""
LAST = 6_500_000
"""The last records of each copy are compared with the old primary's: one or two batches of up to 1 MB in each
of three partitions."""
OLD_MS = 2 * 86_400_000


@pytest.fixture(scope="module")
def linked() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    both = [LocalCluster(ClusterSpec(name, linked=(LINK,))) for name in ("left", "right")]
    start_together(*both)
    yield both[0], both[1]
    for cluster in both:
        cluster.stop()


@pytest.mark.wide
def test_only_the_delta_crosses_on_the_way_back(
    linked: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    pair = Pair(*linked, tmp_path / "journal")
    try:
        _walked(pair, linked)
    finally:
        pair.close()


def _walked(pair: Pair, linked: tuple[LocalCluster, LocalCluster]) -> None:
    there, back = pair.now, pair.other
    topic = there.name("orders")
    there.create(there.source, topic, 3, {"retention.ms": "-1"})
    # Copied in transactions, so the map is whole at once; of live records it lags up to 15 s.
    fill(there.source, topic, RECORDS, size=SIZE, compression_type="none", timestamp=aged(OLD_MS))
    there.replicate()
    there.copied([topic])
    assert linked[0].link(LINK).passed[Direction.TO_CLIENT] > RECORDS * SIZE, "the first copy is whole"
    assert pair.switch()["state"] == "done"
    fill(there.target, topic, DELTA, size=SIZE, compression_type="none", first=RECORDS)
    link = linked[1].link(LINK)
    begun = link.passed[Direction.TO_CLIENT]
    assert pair.reprotect()["state"] == "done"
    crossed = link.passed[Direction.TO_CLIENT] - begun
    assert crossed < OVERHEAD + LAST, f"the return reads {crossed:,} bytes: the log of the new primary"
    ends = sum(back.offsets(back.target, topic).values())
    back.replicate()
    # The old primary is asked for its ends: the test itself must not read what is counted.
    eventually(lambda: sum(back.offsets(back.target, topic).values()) == ends + DELTA, 60, back.said)
    back.copied([topic])
    assert pair.switch()["state"] == "done"
    crossed = link.passed[Direction.TO_CLIENT] - begun
    assert DELTA * SIZE * 0.8 < crossed < DELTA * SIZE + OVERHEAD + LAST, f"{crossed:,} bytes"
    theirs, ours = back.records(back.source, topic), back.records(back.target, topic)
    assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}
    assert sum(map(len, ours.values())) == RECORDS + DELTA
