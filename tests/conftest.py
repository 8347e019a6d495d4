"""Real clusters for all tests: started when the first test asks for them, gone when the run ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
import re
from typing import Any, NamedTuple
import uuid

import pytest

from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec

ClusterFactory = Callable[..., LocalCluster]


class _Clusters(NamedTuple):
    source: LocalCluster
    target: LocalCluster


@pytest.fixture(scope="session")
def _clusters() -> Iterator[_Clusters]:
    both = _Clusters(LocalCluster(ClusterSpec("source")), LocalCluster(ClusterSpec("target")))
    start_together(*both)
    try:
        yield both
    finally:
        for cluster in both:
            cluster.stop()


@pytest.fixture(scope="session")
def source(_clusters: _Clusters) -> LocalCluster:
    """One plain broker, shared by the whole run: never kill it; for that use ``cluster_factory``."""
    return _clusters.source


@pytest.fixture(scope="session")
def target(_clusters: _Clusters) -> LocalCluster:
    """A second plain broker, shared by the whole run."""
    return _clusters.target


@pytest.fixture
def cluster_factory() -> Iterator[ClusterFactory]:
    """A function that starts a cluster of this test's own: the fields of ``ClusterSpec`` as keywords."""
    with ExitStack() as stack:

        def start(name: str = "own", **fields: Any) -> LocalCluster:
            return stack.enter_context(LocalCluster(ClusterSpec(name, **fields)))

        yield start


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name nobody else uses, telling which test it is of."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:60]
    return f"{test}-{uuid.uuid4().hex[:8]}"
