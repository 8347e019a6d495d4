"""A random walk over several flows, files and machines: P32, P33 and P41 with more than one flow.

``DRKIT_TEST_SEED=7`` begins with another seed, ``DRKIT_TEST_WALKS=200`` is how many `make soak` walks.
"""

from __future__ import annotations

from collections.abc import Iterator
import os
from pathlib import Path

import pytest

from drkit.exercise.processes import ProcessParent
from drkit.local.cluster import LocalCluster
from tests.support.shared_clusters import ModuleClusters
from tests.support.soak.flows_walk import FlowsWalk

SEED = int(os.environ.get("DRKIT_TEST_SEED", "1"))
WALKS = int(os.environ.get("DRKIT_TEST_WALKS", "100"))


@pytest.fixture(scope="module")
def parent() -> Iterator[ProcessParent]:
    """The parent of commands that can be killed."""
    with ProcessParent() as found:
        yield found


@pytest.fixture
def clusters(module_cluster: ModuleClusters) -> dict[str, LocalCluster]:
    """Three small clusters, whole again."""
    module_cluster.ready({name: {} for name in "abc"})
    return {name: module_cluster(name) for name in "abc"}


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_a_walk_over_several_flows(
    clusters: dict[str, LocalCluster], parent: ProcessParent, tmp_path: Path
) -> None:
    counted = FlowsWalk(clusters, tmp_path, parent, SEED).run(2)
    print(f"seed {SEED}: {counted}")  # noqa: T201


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(SEED, SEED + WALKS))
def test_many_walks_over_several_flows(
    clusters: dict[str, LocalCluster], parent: ProcessParent, tmp_path: Path, seed: int
) -> None:
    counted = FlowsWalk(clusters, tmp_path, parent, seed).run(3)
    print(f"seed {seed}: {counted}")  # noqa: T201
