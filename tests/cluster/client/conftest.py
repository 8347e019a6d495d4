from __future__ import annotations

from pathlib import Path

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.client.world import World


@pytest.fixture
def world(source: LocalCluster, target: LocalCluster, topic_name: str, tmp_path: Path) -> World:
    return World(source, target, topic_name, tmp_path)
