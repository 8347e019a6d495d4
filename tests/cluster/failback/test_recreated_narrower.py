"""Somebody recreates a topic of the old primary with fewer partitions: the return adds the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.kafka.admin import Cluster
from drkit.kafka.topics import delete_topics
from drkit.local.cluster import LocalCluster
from tests.support.failback.pair import Pair
from tests.support.failback.tail import PARTITIONS, Case, DeadPrimary
from tests.support.failover.truth import values
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    pair = Pair(primary, target, tmp_path / "journal")
    found = DeadPrimary(pair, primary, {"narrow": Case("discard", tail=0)})
    found.die()
    yield found
    found.close()


@pytest.mark.wide
def test_the_partitions_that_are_missing_are_added(home: DeadPrimary, tmp_path: Path) -> None:
    side, [topic] = home.side, home.topics
    assert PARTITIONS > 1
    assert not delete_topics(Cluster.connect(side.source), [topic])
    side.create(side.source, topic, 1, {"retention.ms": "-1"})
    fill(side.source, topic, 7, first=5000)
    home.come_home(home.request(tmp_path / "saved"))
    home.copied_back()
    theirs, ours = (home.back.records(c, topic) for c in (home.back.source, home.back.target))
    assert len(ours) == PARTITIONS
    assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}
    assert home.back.exact([topic]) > 0
