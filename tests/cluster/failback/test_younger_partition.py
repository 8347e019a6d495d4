"""A topic gets a partition on both sides after the failover, with records of its own on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.failback.pair import Pair
from tests.support.failback.tail import PARTITIONS, Case, DeadPrimary
from tests.support.failover.truth import values
from tests.support.flows.produce import producer, put
from tests.support.shared_clusters import ModuleClusters

RECORDS = 10


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    cases = {"wider": Case("replay", tail=0)}
    found = DeadPrimary(Pair(primary, target, tmp_path / "journal"), primary, cases)
    found.die()
    yield found
    found.close()


@pytest.mark.wide
def test_what_the_old_primary_has_there_is_saved_and_emptied(home: DeadPrimary, tmp_path: Path) -> None:
    side, [topic] = home.side, home.topics
    for cluster, name in ((side.source, b"old"), (side.target, b"new")):
        side.grow(cluster, topic, PARTITIONS + 1)
        out = producer(cluster)
        for i in range(RECORDS):
            put(out, topic, b"%s %d" % (name, i), b"k%d" % i, partition=PARTITIONS)
        assert out.flush(30) == 0
    home.come_home(home.request(tmp_path / "saved"))
    home.copied_back()
    home.nothing_is_lost()
    assert home.same_on_both() > 100
    found = Counter(values(side.records(side.source, topic)[PARTITIONS]))
    assert found == Counter(b"%s %d" % (name, i) for name in (b"old", b"new") for i in range(RECORDS))
