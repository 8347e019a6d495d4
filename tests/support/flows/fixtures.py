"""Flows between the shared clusters, or between a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.flows.flow import Flow

FlowFactory = Callable[..., Flow]


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
