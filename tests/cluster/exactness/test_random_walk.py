"""A short random walk through everything that may happen to a copy; the long one is a soak run."""

from __future__ import annotations

import os

import pytest

from tests.support.circles import in_soak
from tests.support.exactness.cleaning import CLEANING
from tests.support.exactness.fixtures import Pair
from tests.support.exactness.schedule import schedule
from tests.support.exactness.walker import LINKED, Walker
from tests.support.flows.fixtures import FlowFactory

SOURCE = {"properties": CLEANING}
TARGET = {"properties": {**CLEANING, "compression.type": "gzip"}, "linked": LINKED}
SEED = int(os.environ.get("DRKIT_TEST_SEED", "1"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [5, in_soak(10)])
def test_a_random_walk_ends_exact(flow_factory: FlowFactory, pair: Pair, topic_name: str, kills: int) -> None:
    flow = flow_factory(*pair, role="PROBE", bulk_commit_seconds=0.3)
    walker = Walker(flow, *pair, topic_name[-20:], seed=SEED)
    # A recreated topic waits until all is copied, twice: test_copy_gone has one, and the soak runs.
    counted = walker.walk(schedule(SEED, kills=kills, without={"recreated"}))
    assert counted["records"] > 100 * kills
