"""Clusters of a module's own, and flows whose own questions go past the links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from drkit.local.cluster import LocalCluster, start_together
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.fixtures import flow_factory as flow_factory
from tests.support.flows.flow import Flow
from tests.support.shared_clusters import own_cluster, stop


class Pair(NamedTuple):
    source: LocalCluster
    target: LocalCluster


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Both clusters of a module, as its constants SOURCE and TARGET (fields of ``ClusterSpec``) want them.

    Tests may kill and restart them; each leaves them as it found them. Where a constant is None the cluster
    is the one that the whole run shares.
    """
    fields = {side: getattr(request.module, side.upper(), {}) for side in Pair._fields}
    shared = {side: request.getfixturevalue(side) for side, own in fields.items() if own is None}
    own = {side: own_cluster(f"exact-{side}", **of) for side, of in fields.items() if of is not None}
    start_together(*own.values())
    yield Pair(**own, **shared)
    stop([*own.values()], request.session)


@pytest.fixture
def flow(pair: Pair, flow_factory: FlowFactory) -> Flow:
    """A flow between the module's clusters; what it asks itself goes through no link."""
    return flow_factory(*pair, role="PROBE")
