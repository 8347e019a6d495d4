"""One connection to the shared source broker for all of these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.wire.partition import Broker, Partition


@pytest.fixture(scope="session")
def broker(source: LocalCluster) -> Iterator[Broker]:
    broker = Broker(source.bootstrap())
    yield broker
    broker.close()


@pytest.fixture
def topic(broker: Broker, topic_name: str) -> Callable[..., Partition]:
    """Creates the test's topic."""
    return lambda suffix="", **config: broker.create(topic_name + suffix, **config)
