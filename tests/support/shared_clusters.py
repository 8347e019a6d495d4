"""The two plain brokers of a run, the clusters of single tests, and their end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from drkit.config import ClusterSettings
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import delete_topics, topic_names
from drkit.local.cluster import LocalCluster
from tests.support.waiting import eventually

ClusterFactory = Callable[..., LocalCluster]


class SharedClusters(NamedTuple):
    """A source and a target for all tests that neither kill nor freeze them."""

    source: LocalCluster
    target: LocalCluster


SHARED = pytest.StashKey[SharedClusters]()
"""The plain brokers of the whole run, once a test has asked for them."""
KEPT_LOGS = pytest.StashKey[list[Path]]()
"""Folders of brokers that stay after a failure."""


def stop(clusters: list[LocalCluster], session: pytest.Session) -> None:
    """Stop them all; after a failure their logs stay, and the summary says where."""
    failed = session.testsfailed > 0
    for cluster in clusters:
        cluster.stop(keep_logs=failed)
        if failed:
            session.config.stash.setdefault(KEPT_LOGS, []).append(cluster.folder)


def remove_flows(shared: LocalCluster) -> None:
    """Delete the state and the heartbeats of all flows, and wait until they are gone."""
    cluster = Cluster.connect(ClusterSettings(alias="shared", bootstrap_servers=shared.bootstrap()))
    delete_topics(cluster, _left(cluster))
    eventually(lambda: not _left(cluster), what="end of what the flows left")


def _left(cluster: Cluster) -> list[str]:
    return [t for t in topic_names(cluster) if t.startswith("drkit-state.") or t.endswith("heartbeats")]
