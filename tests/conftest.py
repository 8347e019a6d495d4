"""Real clusters for all tests: started when the first test asks for them, gone when the run ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
import re
from typing import Any, NamedTuple
import uuid

from hypothesis import settings as hypothesis_settings
import pytest

from drkit.config import ClusterSettings
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import delete_topics, topic_names
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.crashes import pytest_runtest_protocol as pytest_runtest_protocol
from tests.crashes import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler
from tests.replicate.process import eventually

# Brokers and Spark work beside the pure tests: how long an example takes says nothing about it.
hypothesis_settings.register_profile("drkit", deadline=None)
hypothesis_settings.load_profile("drkit")

_ROOT = Path(__file__).parent
_LONGEST_FIRST = (
    "demo/test_story.py",
    "watch/test_automatic.py",
    "replicate/test_copy_killed.py",
    "replicate/test_copy_ages.py",
    "watch/test_detection.py",
    "replicate/test_copy_gone.py",
    "replicate/test_status.py",
    "replicate/test_mm2_clients.py",
    "replicate/test_takeover.py",
    "replicate/test_takeover_command.py",
    "replicate/test_topologies.py",
    "replicate/test_loops.py",
    "replicate/test_permissions.py",
    "replicate/test_acl_sync.py",
    "replicate/test_job.py",
    "replicate/test_stop_while_starting.py",
    "replicate/test_other_groups.py",
    "replicate/test_job_command.py",
    "replicate/test_internal_topics_command.py",
    "replicate/test_groups_at_rest.py",
    "replicate/test_checkpoint_job.py",
    "replicate/test_copy_brokers.py",
    "replicate/test_spark_checkpoint.py",
    "replicate/test_verify.py",
    "replicate/test_reload.py",
    "failover/test_fence.py",
    "failover/test_held_back.py",
    "failover/test_primary_lost.py",
    "failover/test_killed.py",
    "failover/test_lock.py",
    "failover/test_refused.py",
    "failover/test_frozen_brokers.py",
    "failover/test_fence_authorizer.py",
    "failover/test_abort.py",
    "failover/test_debt.py",
    "failover/test_switchover.py",
    "failover/test_opening.py",
    "client/test_consumer.py",
    "replicate/test_copy_foreign.py",
    "replicate/test_offset_syncs.py",
    "replicate/test_rivals.py",
    "exactness/test_random_walk.py",
    "exactness/test_unclean.py",
    "exactness/test_map_cleaned.py",
    "exactness/test_claims_not_appended.py",
    "exactness/test_target_lost_tail.py",
)
"""Files that take most of a minute or more."""
ClusterFactory = Callable[..., LocalCluster]
_KEPT_LOGS = pytest.StashKey[list[Path]]()


class _Clusters(NamedTuple):
    source: LocalCluster
    target: LocalCluster


SHARED = pytest.StashKey[_Clusters]()
"""The plain brokers of the whole run, once a test has asked for them."""


def _stop(clusters: list[LocalCluster], session: pytest.Session) -> None:
    """Stop them all; after a failure their logs stay, and the summary says where."""
    failed = session.testsfailed > 0
    for cluster in clusters:
        cluster.stop(keep_logs=failed)
        if failed:
            session.config.stash.setdefault(_KEPT_LOGS, []).append(cluster.folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files begin first: with several processes the last ones to end end together.

    For that, pytest-xdist must keep this order: ``--no-loadscope-reorder``.
    """
    rank = {_ROOT / name: number for number, name in enumerate(_LONGEST_FIRST)}
    assert all(path.exists() for path in rank), "a file that is no more"
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for folder in config.stash.get(_KEPT_LOGS, []):
        terminalreporter.write_line(f"broker logs of a run with failures: {folder}")


@pytest.fixture(scope="session")
def _clusters(request: pytest.FixtureRequest) -> Iterator[_Clusters]:
    both = _Clusters(LocalCluster(ClusterSpec("source")), LocalCluster(ClusterSpec("target")))
    start_together(*both)
    request.session.stash[SHARED] = both
    yield both
    _stop([*both], request.session)


@pytest.fixture(scope="session")
def source(_clusters: _Clusters) -> LocalCluster:
    """One plain broker, shared by the whole run: never kill it; for that use ``cluster_factory``."""
    return _clusters.source


@pytest.fixture(scope="session")
def target(_clusters: _Clusters) -> LocalCluster:
    """A second plain broker, shared by the whole run."""
    return _clusters.target


@pytest.fixture(scope="module", autouse=True)
def _no_flows_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every flow looks at all flows of its source, and copies its heartbeats: none of an earlier file's."""
    yield
    for shared in request.session.stash.get(SHARED, None) or ():
        _remove_flows(Cluster.connect(ClusterSettings(alias="shared", bootstrap_servers=shared.bootstrap())))


def _remove_flows(cluster: Cluster) -> None:
    delete_topics(cluster, _left(cluster))
    eventually(lambda: not _left(cluster), what="end of what the flows left")


def _left(cluster: Cluster) -> list[str]:
    return [t for t in topic_names(cluster) if t.startswith("drkit-state.") or t.endswith("heartbeats")]


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
    _stop(made, request.session)


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name nobody else uses, telling which test it is of."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:60]
    return f"{test}-{uuid.uuid4().hex[:8]}"
