"""Long random walks through everything that may happen to a copy; nothing lost, doubled, moved or altered.

A seed of one's own: ``DRKIT_TEST_SEED=7``. The steps are printed as they begin.
"""

from __future__ import annotations

import os

import pytest

from drkit.local.cluster import start_together
from tests.support.exactness.cleaning import CLEANING
from tests.support.exactness.fixtures import Pair
from tests.support.exactness.fixtures import pair as pair
from tests.support.exactness.recorded_load import KINDS, Kind
from tests.support.exactness.schedule import ELECTIONS, schedule
from tests.support.exactness.unclean import PLAIN, THREE, UncleanWalker
from tests.support.exactness.walker import LINKED, Walker
from tests.support.flows.fixtures import FlowFactory
from tests.support.shared_clusters import ClusterFactory

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
SOURCE = {"properties": CLEANING}
TARGET = {"properties": {**CLEANING, "compression.type": "gzip"}, "linked": LINKED}
SEEDS = [int(os.environ["DRKIT_TEST_SEED"])] if "DRKIT_TEST_SEED" in os.environ else [1, 2, 3]
COMPACTED = tuple(Kind(f"compacted{i}", transactional=True, compacted=True) for i in range(3))
KILLS = 50
KILLS_WHEN_COMPACTED = 20
KILLS_WITH_ELECTIONS = 15


@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_random_walk(flow_factory: FlowFactory, pair: Pair, topic_name: str, seed: int) -> None:
    flow = flow_factory(*pair, role="PROBE", bulk_commit_seconds=0.3)
    walker = Walker(flow, *pair, topic_name[-10:], seed=seed)
    counted = walker.walk(schedule(seed, KILLS))
    assert counted["records"] > 10_000


@pytest.mark.parametrize("seed", SEEDS)
def test_sources_compacted_all_the_time(
    flow_factory: FlowFactory, pair: Pair, topic_name: str, seed: int
) -> None:
    """Two tasks may see different records at the same offsets; no cleaner touches the map itself."""
    flow = flow_factory(*pair, role="PROBE", bulk_commit_seconds=0.3)
    walker = Walker(flow, *pair, topic_name[-10:], seed=seed, kinds=COMPACTED, partitions=3, clean_map=False)
    counted = walker.walk(schedule(seed, KILLS_WHEN_COMPACTED))
    assert counted["records"] > 1000


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("side", ["source", "target"])
def test_unclean_elections_again_and_again(
    cluster_factory: ClusterFactory, flow_factory: FlowFactory, topic_name: str, side: str, seed: int
) -> None:
    three = cluster_factory("three", brokers=3, properties=THREE, start=False)
    one = cluster_factory("one", start=False)
    start_together(three, one)
    on_source = side == "source"
    source, target = (three, one) if on_source else (one, three)
    flow = flow_factory(source, target, role="PROBE", bulk_commit_seconds=0.3)
    kinds = PLAIN if on_source else KINDS
    walker = UncleanWalker(flow, source, target, topic_name[-8:], on_source=on_source, seed=seed, kinds=kinds)
    counted = walker.walk(schedule(seed, KILLS_WITH_ELECTIONS, kinds_of_step=ELECTIONS))
    assert counted["records"] > 1000
