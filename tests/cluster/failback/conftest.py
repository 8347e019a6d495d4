"""Pairs of flows that turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.failback.locked import locked as locked
from tests.support.failback.locked import rights as rights
from tests.support.failback.pair import Pair
from tests.support.failover.fixtures import orchestrators as orchestrators


@pytest.fixture
def pair(source: LocalCluster, target: LocalCluster, tmp_path: Path) -> Iterator[Pair]:
    """A pair of flows between the two shared clusters."""
    found = Pair(source, target, tmp_path / "journal")
    yield found
    found.close()
