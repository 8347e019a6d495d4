"""Topics to export, made once for each file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.export.topics import Topics
from tests.support.flows.flow import Flow
from tests.support.shared_clusters import ModuleClusters


@pytest.fixture(scope="module")
def topics(module_cluster: ModuleClusters, target: LocalCluster) -> Iterator[Topics]:
    """Topics of all kinds on a cluster whose cleaner runs all the time."""
    source = module_cluster("export", properties={"log.cleaner.backoff.ms": "200"})
    flow = Flow(source, target)
    made = Topics(flow, f"e{flow.source.alias}")
    made.fill()
    yield made
    flow.close()
