"""A topic that drkit may not write to in a transaction is named, and so is what refuses it."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka.admin import AclOperation, ResourceType
import pytest

from drkit.config import ClusterSettings
from drkit.errors import NotAuthorized
from drkit.kafka.access.acls import create_acls
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.kafka.transactions import Transactions
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ADMIN, ClusterSpec
from drkit.model import TopicPartition
from drkit.topology.acls import Acl, Permission, topic_acl
from drkit.topology.acls import AclOperation as Operation
from tests.support.errors import coded
from tests.support.failback.locked import DRKIT, allow
from tests.support.topic_sync.applied import acls_applied

pytestmark = pytest.mark.wide
OPEN, SHUT = "a-open", "b-shut"


@pytest.fixture(scope="module")
def locked() -> Iterator[LocalCluster]:
    spec = ClusterSpec("locked", sasl=True, authorizer=True, mechanisms=("PLAIN",))
    with LocalCluster(spec) as cluster:
        yield cluster


def _as(cluster: LocalCluster, user: str) -> ClusterSettings:
    client = cluster.client_properties(user, "PLAIN")
    return ClusterSettings(alias="standby", bootstrap_servers=cluster.bootstrap(), client=client)


def _deny(topic: str) -> Acl:
    return topic_acl(topic, "User:*", Operation.WRITE, Permission.DENY)


async def _adds(cluster: RawCluster) -> None:
    transactions = Transactions(cluster, "drkit.test")
    await transactions.begin_epoch()
    await transactions.add([TopicPartition(topic, 0) for topic in (OPEN, SHUT)])


def test_the_topic_is_named_and_a_deny_as_the_reason(locked: LocalCluster) -> None:
    admin = _as(locked, ADMIN)
    assert not create_topics(Cluster.connect(admin), [TopicPlan(t, 1, 1, {}) for t in (OPEN, SHUT)])
    every = ((ResourceType.TOPIC, "*"), (ResourceType.TRANSACTIONAL_ID, "*"))
    allow(admin, DRKIT, [(*what, AclOperation.ALL) for what in every])
    ask_once(_as(locked, "drkit"), "adds", _adds, what="add partitions")
    assert create_acls(admin, [_deny(SHUT)]) == {}
    acls_applied(admin)
    with pytest.raises(NotAuthorized, check=coded("not_authorized_to_write")) as refused:
        ask_once(_as(locked, "drkit"), "adds", _adds, what="add partitions")
    assert f"{SHUT} on standby" in str(refused.value)
    assert OPEN not in refused.value.evidence
    assert "WRITE on the topic; a DENY on it, also of User:*" in refused.value.hint
