"""Worlds to fail over in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.failover.orchestrator import Orchestrators
from tests.support.failover.world import World

WorldFactory = Callable[..., World]


@pytest.fixture
def world_factory(tmp_path: Path) -> Iterator[WorldFactory]:
    """A function that makes a world between two clusters; settings of ``FlowSettings`` as keywords."""
    made: list[World] = []

    def make(source: LocalCluster, target: LocalCluster, **flow: Any) -> World:
        made.append(World(source, target, tmp_path / "journal", **flow))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(world_factory: WorldFactory, source: LocalCluster, target: LocalCluster) -> World:
    """A world between the two shared clusters."""
    return world_factory(source, target)


@pytest.fixture
def orchestrators() -> Iterator[Orchestrators]:
    """Processes that run failovers and can be killed at each boundary."""
    with Orchestrators() as warm:
        yield warm
