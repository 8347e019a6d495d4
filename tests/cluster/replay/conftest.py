"""New primaries, alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.replay.world import ReplayWorld


@pytest.fixture(scope="module")
def world(target: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplayWorld]:
    """A new primary for the tests of a file: a topic each, one flow."""
    found = ReplayWorld(target, Path(tmp_path_factory.mktemp("exports")))
    yield found
    found.close()
