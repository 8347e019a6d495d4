"""Real clusters for all tests: started when the first test asks for them, gone when the run ends."""

from __future__ import annotations

from collections.abc import Iterator
import gc
from pathlib import Path
import re
from typing import Any, Final
import uuid

import pytest

from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.support import order
from tests.support.circles import mark_neighbours
from tests.support.crashes import pytest_runtest_protocol as pytest_runtest_protocol
from tests.support.crashes import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler
from tests.support.examples import load_profiles
from tests.support.order import pytest_addoption as pytest_addoption
from tests.support.order import pytest_configure as pytest_configure
from tests.support.shared_clusters import (
    KEPT_LOGS,
    SHARED,
    ClusterFactory,
    ModuleClusters,
    SharedClusters,
    remove_flows,
    stop,
)

load_profiles()

_THREADS: Final = Path("/proc/self/task")
_MANY_THREADS: Final = 60
"""Half a dozen clients have so many."""
_LIVING = pytest.StashKey[int]()
"""The fewest threads since a collection: of clients that are still used, such as those of a session."""

# What several tests hold true is in modules of support: pytest shows the values of those assertions, too.
pytest.register_assert_rewrite("tests.support.failover.lost_primary", "tests.support.failover.switchover")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before ``-m`` selects: marks that depend on the file, and the order."""
    mark_neighbours(items)
    order.pytest_collection_modifyitems(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for folder in config.stash.get(KEPT_LOGS, []):
        terminalreporter.write_line(f"broker logs of a run with failures: {folder}")


def pytest_collection_finish() -> None:
    """What was collected stays until the end: no collection of garbage has to look through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def _clusters(request: pytest.FixtureRequest) -> Iterator[SharedClusters]:
    # No test waits for these to come back: four heartbeats a second are a third of what an idle one works.
    # And on a busy machine they are late: a broker that is fenced for it has no leaders for a moment.
    # Retention looks each second, not every five minutes: a test whose records are too old for their topic
    # fails each time, not once in sixty runs.
    properties = {
        "broker.heartbeat.interval.ms": "1000",
        "broker.session.timeout.ms": "30000",
        "log.initial.task.delay.ms": "1000",
        "log.retention.check.interval.ms": "1000",
    }
    both = SharedClusters(
        *(LocalCluster(ClusterSpec(name, properties=properties)) for name in ("source", "target"))
    )
    start_together(*both)
    request.session.stash[SHARED] = both
    yield both
    stop([*both], request.session)


@pytest.fixture(scope="session")
def source(_clusters: SharedClusters) -> LocalCluster:
    """One plain broker, shared by the whole run: never kill it; for that use ``cluster_factory``."""
    return _clusters.source


@pytest.fixture(scope="session")
def target(_clusters: SharedClusters) -> LocalCluster:
    """A second plain broker, shared by the whole run."""
    return _clusters.target


@pytest.fixture(scope="module", autouse=True)
def _no_flows_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every flow looks at all flows of its source, and copies its heartbeats: none of an earlier file's."""
    yield
    for shared in request.session.stash.get(SHARED, None) or ():
        remove_flows(shared)


@pytest.fixture(autouse=True)
def _clients_are_gone(request: pytest.FixtureRequest) -> Iterator[None]:
    """A client that is in a cycle of references lives until the collector finds it; its threads ask on.

    A collection takes up to two seconds of a processor. So where threads stay, it is not asked for after each
    test that follows, but when half as many have been added.
    """
    yield
    stash = request.session.stash
    before, now = stash.get(_LIVING, 0), _threads()
    if now > max(_MANY_THREADS, before + _MANY_THREADS // 2):
        gc.collect()
        before = now = _threads()
    stash[_LIVING] = min(before, now)


def _threads() -> int:
    return len(list(_THREADS.iterdir()))


@pytest.fixture
def cluster_factory(request: pytest.FixtureRequest) -> Iterator[ClusterFactory]:
    """A function that starts a cluster of this test's own: the fields of ``ClusterSpec`` as keywords.

    With ``start=False`` it only makes the cluster, for ``start_together``.
    """
    made: list[LocalCluster] = []

    def make(name: str = "own", *, start: bool = True, **fields: Any) -> LocalCluster:
        cluster = LocalCluster(ClusterSpec(name, **fields))
        made.append(cluster)
        return cluster.start() if start else cluster

    yield make
    stop(made, request.session)


@pytest.fixture(scope="module")
def module_cluster(request: pytest.FixtureRequest) -> Iterator[ModuleClusters]:
    """A function that starts a cluster for all tests of a file, by its name, for those that kill brokers.

    One that is frozen belongs to a test alone: a broker that wakes up is cast out for a moment, and takes no
    request for a new topic.
    """
    clusters = ModuleClusters()
    yield clusters
    stop([*clusters.made.values()], request.session)


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses; it names the test."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:60]
    return f"{test}-{uuid.uuid4().hex[:8]}"
