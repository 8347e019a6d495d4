"""The two plain brokers of a run, the clusters of single tests, and their end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from drkit.config import ClusterSettings
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import delete_topics, topic_names
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.support.waiting import eventually

ClusterFactory = Callable[..., LocalCluster]

_BACK_SOON: Final = {"broker.session.timeout.ms": "1300"}
"""A killed broker may come back when its session has ended, and asks after 0.1, 0.3, 0.7, 1.5, 3.1, 6.3 s."""


class SharedClusters(NamedTuple):
    """A source and a target for all tests that neither kill nor freeze them."""

    source: LocalCluster
    target: LocalCluster


SHARED = pytest.StashKey[SharedClusters]()
"""The plain brokers of the whole run, once a test has asked for them."""
KEPT_LOGS = pytest.StashKey[list[Path]]()
"""Folders of brokers that stay after a failure."""


def own_cluster(name: str, **fields: Any) -> LocalCluster:
    """A cluster that tests may kill, not started; the fields of ``ClusterSpec`` as keywords."""
    properties = {**_BACK_SOON, **fields.pop("properties", {})}
    return LocalCluster(ClusterSpec(name, **fields, properties=properties))


class ModuleClusters:
    """The clusters of one file's tests, which kill their brokers: each test gets them whole again."""

    def __init__(self) -> None:
        self.made: dict[str, LocalCluster] = {}

    def __call__(self, name: str, **fields: Any) -> LocalCluster:
        """The cluster of this name, started at the first use; the fields of ``ClusterSpec`` as keywords."""
        self.ready({name: fields})
        return self.made[name]

    def ready(self, wanted: Mapping[str, Mapping[str, Any]]) -> list[LocalCluster]:
        """Several of them, by name; those that are new start together."""
        new = [own_cluster(name, **fields) for name, fields in wanted.items() if name not in self.made]
        start_together(*new)
        self.made |= {cluster.spec.name: cluster for cluster in new}
        for cluster in (found := [self.made[name] for name in wanted]):
            cluster.resume()
            for role in cluster.spec.linked:
                cluster.link(role).restore()
            cluster.restart()
        return found


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
