"""A flow between clusters with authorizers, and what each user may do on its target."""

from __future__ import annotations

from functools import partial
from typing import Any, Self
import uuid

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from drkit.config import ClusterSettings, FlowSettings
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.topic import StateTopic
from drkit.kafka.access.acls import create_acls, delete_acls, list_acls
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import confluent_config
from drkit.kafka.topics import TopicPlan, create_topics, describe_topics
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ADMIN, ClusterSpec
from drkit.pair.reverse_flow import OppositeFlows
from drkit.topic_sync.acl_sync import AclSync
from drkit.topology.acls import Acl, AclOperation, PatternKind, Permission, ResourceKind
from tests.support.stored import stored
from tests.support.topic_sync.applied import acls_applied
from tests.support.waiting import eventually

OPEN = {"allow.everyone.if.no.acl.found": "true"}


class Shared:
    """A locked source and target, and a target that is open where no ACL exists."""

    def __init__(self) -> None:
        self.source, self.locked, self.open = (
            LocalCluster(
                ClusterSpec(name, sasl=True, authorizer=True, mechanisms=("PLAIN",), properties=more)
            )
            for name, more in (("source", {}), ("locked", {}), ("open", OPEN))
        )
        self._all = self.source, self.locked, self.open

    def __enter__(self) -> Self:
        start_together(*self._all)
        return self

    def __exit__(self, *_: object) -> None:
        for cluster in self._all:
            cluster.stop()


def connect(cluster: LocalCluster, alias: str, user: str, **more: Any) -> Cluster:
    client = cluster.client_properties(user, "PLAIN")
    return Cluster.connect(
        ClusterSettings(alias=alias, bootstrap_servers=cluster.bootstrap(), client=client, **more)
    )


class World:
    """A flow with unique names, administered by the super user, run by drkit's own."""

    def __init__(self, source: LocalCluster, target: LocalCluster, *, user: str = ADMIN, **more: Any) -> None:
        self.tag = uuid.uuid4().hex[:8]
        self._clusters = source, target
        self.admins = connect(source, "primary", ADMIN), connect(target, "standby", ADMIN)
        alias = f"p{self.tag}"
        self.source = connect(source, alias, ADMIN)
        self.target = connect(target, "standby", user, **more)
        ensure_state_topic(self.admins[1], self.flow())
        self.state = StateTopic(self.admins[1].settings, alias)

    def flow(self, **more: Any) -> FlowSettings:
        return FlowSettings(source=f"p{self.tag}", target="standby", topics=(f"{self.tag}-.*",),
                            groups=(f"{self.tag}-.*",), **more)  # fmt: skip

    def sync(self, **more: Any) -> AclSync:
        cluster, writer = more.pop("source", self.source), more.pop("writer", None)
        world = cluster, self.target, self.flow(**more), self.state
        return AclSync(*world, opposite=OppositeFlows(*world, 0.0), writer=writer)

    def name(self, rest: str) -> str:
        return f"{self.tag}-{rest}"

    def acl(self, name: str, operation: str = "READ", principal: str = "User:app", *, kind: str = "TOPIC",
            prefixed: bool = False, deny: bool = False) -> Acl:  # fmt: skip
        return Acl(ResourceKind(kind), PatternKind.PREFIXED if prefixed else PatternKind.LITERAL, name,
                   principal, "*", AclOperation(operation),
                   Permission.DENY if deny else Permission.ALLOW)  # fmt: skip

    def give(self, side: int, *acls: Acl) -> None:
        assert create_acls(self.admins[side].settings, acls) == {}
        acls_applied(self.admins[side].settings)

    def has(self, side: int = 1) -> set[Acl]:
        """The ACLs that name this world."""
        acls_applied(self.admins[side].settings)
        return {a for a in list_acls(self.admins[side].settings).acls if self.tag in a.name}

    def topic(self, rest: str) -> str:
        for cluster in self.admins:
            assert create_topics(cluster, [TopicPlan(self.name(rest), 1, 1, {})]) == {}
            eventually(partial(describe_topics, cluster, [self.name(rest)]), what=rest)
        return self.name(rest)

    def event(self, kind: str, at: str = "") -> dict[str, Any] | None:
        return stored(self.state).get(f"event/{kind}/{at}/-1")

    def as_user(self, user: str) -> dict[str, Any]:
        client = self._clusters[1].client_properties(user, "PLAIN")
        settings = ClusterSettings(alias="x", bootstrap_servers=self._clusters[1].bootstrap(), client=client)
        return {**confluent_config(settings), "log_level": 0}

    def write(self, user: str, topic: str) -> KafkaError | None:
        """The target's answer to one record."""
        acls_applied(self.admins[1].settings)
        heard: list[KafkaError | None] = []
        producer = Producer({**self.as_user(user), "message.timeout.ms": 10_000})
        producer.produce(topic, b"canary", on_delivery=lambda error, _: heard.append(error))
        producer.flush(15)
        return heard[0]

    def may_write(self, user: str, topic: str) -> bool:
        error = self.write(user, topic)
        assert error is None or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error
        return error is None

    def read(self, user: str, topic: str) -> bytes | None:
        acls_applied(self.admins[1].settings)
        consumer = Consumer({**self.as_user(user), "group.id": self.name("g"), "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        try:
            found = consumer.consume(1, 15)
        finally:
            consumer.close()
        assert found
        assert not found[0].error(), found[0].error()
        return found[0].value()

    def close(self) -> None:
        self.state.close()
        for side, admin in enumerate(self.admins):
            delete_acls(admin.settings, sorted(self.has(side)))
