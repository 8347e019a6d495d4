"""Two clusters with authorizers on which drkit is no super user: it has rights on everything by ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
import pytest

from drkit.config import ClusterSettings
from drkit.kafka.clients import confluent_config
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.support.failback.pair import Pair
from tests.support.failover.application import CANARY
from tests.support.topic_sync.acl_world import World as Rights
from tests.support.topic_sync.applied import acls_applied

DRKIT = "User:drkit"
CLUSTER = ResourceType.BROKER, "kafka-cluster"
_EVERYTHING = (
    (ResourceType.TOPIC, "*"), (ResourceType.GROUP, "*"), (ResourceType.TRANSACTIONAL_ID, "*"), CLUSTER,
)  # fmt: skip


@pytest.fixture(scope="module")
def locked() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    both = [
        LocalCluster(ClusterSpec(name, sasl=True, authorizer=True, mechanisms=("PLAIN",)))
        for name in ("left", "right")
    ]
    start_together(*both)
    yield both[0], both[1]
    for cluster in both:
        cluster.stop()


@pytest.fixture
def rights(locked: tuple[LocalCluster, LocalCluster]) -> Iterator[Rights]:
    found = Rights(*locked)
    for side in (0, 1):
        allow(found.admins[side].settings, DRKIT, [(*what, AclOperation.ALL) for what in _EVERYTHING])
    yield found
    found.close()


def allow(
    cluster: ClusterSettings, principal: str, what: list[tuple[ResourceType, str, AclOperation]]
) -> None:
    admin = AdminClient(confluent_config(cluster))
    done = admin.create_acls(
        [
            AclBinding(kind, name, ResourcePatternType.LITERAL, principal, "*", do, AclPermissionType.ALLOW)
            for kind, name, do in what
        ]
    )
    for future in done.values():
        future.result(30)
    acls_applied(cluster)


def take_cluster_rights(cluster: ClusterSettings) -> None:
    """Take away what drkit may do on the cluster itself, as listing its ACLs."""
    every = AclBindingFilter(
        *CLUSTER, ResourcePatternType.LITERAL, DRKIT, "*", AclOperation.ANY, AclPermissionType.ANY
    )
    admin = AdminClient(confluent_config(cluster))
    for future in admin.delete_acls([every]).values():
        future.result(30)
    acls_applied(cluster)


def give_cluster_rights(cluster: ClusterSettings) -> None:
    """Give them back."""
    allow(cluster, DRKIT, [(*CLUSTER, AclOperation.ALL)])


def fenced_by_acls(locked: tuple[LocalCluster, LocalCluster], rights: Rights, folder: Path) -> Pair:
    """Return a pair whose fences are ACLs, each proven by a client of the application."""
    pair = Pair(*locked, folder / "journal", user="drkit")
    rights.tag = pair.now.tag
    for side in (pair.now, pair.other):
        side.failover_fields["fence"] = {"canary": CANARY, "transaction_wait_seconds": 0.5}
    return pair
