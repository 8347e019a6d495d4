"""A target with a control key, and the flow whose topics tests write to it."""

from __future__ import annotations

import uuid

import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from tests.support.flow_state.keys import KEYS


@pytest.fixture
def settings(target: LocalCluster) -> ClusterSettings:
    return ClusterSettings(alias="b", bootstrap_servers=target.bootstrap()).with_control(KEYS)


@pytest.fixture
def cluster(settings: ClusterSettings) -> Cluster:
    return Cluster.connect(settings)


@pytest.fixture
def flow() -> FlowSettings:
    return FlowSettings(source=f"a{uuid.uuid4().hex[:8]}", target="b", buckets=1)
