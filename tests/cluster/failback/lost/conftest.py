"""A pair whose clusters die."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.failback.dying_pair import DyingPair
from tests.support.shared_clusters import ModuleClusters


@pytest.fixture
def lab(module_cluster: ModuleClusters, tmp_path: Path) -> Iterator[DyingPair]:
    """A pair with clusters of its own."""
    primary, standby = module_cluster.ready({"primary": {}, "standby": {}})
    pair = DyingPair(primary, standby, tmp_path)
    yield pair
    pair.pair.close()
