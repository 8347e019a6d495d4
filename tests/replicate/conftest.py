"""Flows between the shared clusters, or between a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drkit.config import ClusterSettings
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import delete_topics, topic_names
from drkit.local.cluster import LocalCluster
from tests.conftest import SHARED
from tests.replicate.flow import Flow
from tests.replicate.process import eventually

FlowFactory = Callable[..., Flow]


@pytest.fixture(scope="module", autouse=True)
def _no_flows_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every flow looks at all flows of its source, and copies its heartbeats: none of an earlier file's."""
    yield
    for shared in request.session.stash.get(SHARED, None) or ():
        settings = ClusterSettings(alias="shared", bootstrap_servers=shared.bootstrap())
        cluster = Cluster.connect(settings)
        _remove_flows(cluster)


def _remove_flows(cluster: Cluster) -> None:
    delete_topics(cluster, _left(cluster))
    eventually(lambda: not _left(cluster), what="end of what the flows left")


def _left(cluster: Cluster) -> list[str]:
    return [t for t in topic_names(cluster) if t.startswith("drkit-state.") or t.endswith("heartbeats")]


@pytest.fixture
def flow_factory() -> Iterator[FlowFactory]:
    """A function that makes a flow between two clusters; settings of ``FlowSettings`` as keywords."""
    made: list[Flow] = []

    def make(source: LocalCluster, target: LocalCluster, **settings: Any) -> Flow:
        made.append(Flow(source, target, **settings))
        return made[-1]

    yield make
    for flow in made:
        flow.close()


@pytest.fixture
def flow(flow_factory: FlowFactory, source: LocalCluster, target: LocalCluster) -> Flow:
    """A flow between the two shared clusters."""
    return flow_factory(source, target)
