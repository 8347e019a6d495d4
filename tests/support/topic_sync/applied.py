"""A broker knows some moments later what the controller has accepted; tests wait for it before they look.

A broker applies changes of metadata in their order: when it shows a later one, it knows all before it.
Without this a test on a busy machine reads its own write too early.
"""

from __future__ import annotations

import uuid

from drkit.config import ClusterSettings
from drkit.kafka.access.acls import create_acls, delete_acls, list_acls
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, alter_topic_configs, create_topics, topic_configs
from drkit.topology.acls import Acl, AclOperation, PatternKind, Permission, ResourceKind
from tests.support.waiting import eventually

_SETTING = "retention.ms"


def acls_applied(admin: ClusterSettings) -> None:
    """Wait until the authorizer has all ACLs that were accepted before."""
    name = f"applied-{uuid.uuid4().hex}"
    later = Acl(ResourceKind.TOPIC, PatternKind.LITERAL, name, "User:nobody", "*", AclOperation.READ,
                Permission.ALLOW)  # fmt: skip
    assert create_acls(admin, [later]) == {}
    eventually(lambda: later in list_acls(admin).acls, what="a later ACL")
    delete_acls(admin, [later])


class TopicsApplied:
    """Waits for a cluster to know all topics and settings that were accepted before."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._name = f"applied-{uuid.uuid4().hex}"
        self._turn = 0

    def wait(self) -> None:
        self._turn += 1
        wanted = str(86_400_000 + self._turn)
        if self._turn == 1:
            assert not create_topics(self._cluster, [TopicPlan(self._name, 1, 1, {_SETTING: wanted})])
        else:
            assert not alter_topic_configs(self._cluster, {self._name: {_SETTING: wanted}})
        eventually(lambda: self._now() == wanted, what="a later change of a topic")

    def _now(self) -> str | None:
        found = topic_configs(self._cluster, [self._name]).get(self._name)
        return found[_SETTING].value if found else None
