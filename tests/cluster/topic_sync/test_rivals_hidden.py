"""On a locked target: what drkit may not read is said, and what it may not see stops no flow."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError, NotAuthorized
from drkit.flow_state.events import TopicEvents
from drkit.flow_state.names import state_topic
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import confluent_config
from drkit.kafka.codes import TOPIC_AUTHORIZATION_FAILED, error_name
from drkit.kafka.reading.compacted import newest_values
from drkit.kafka.topics import topic_names
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ADMIN, ClusterSpec
from drkit.topic_sync.rivals import Rivals
from tests.support.stored import stored
from tests.support.waiting import eventually

OTHER, MM2 = state_topic("other"), "mm2-configs.primary.internal"
FLOW = FlowSettings(source="primary", target="standby")


class Locked:
    """One locked cluster on which drkit owns its state and may do nothing else yet."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._admin = AdminClient(confluent_config(self.settings(ADMIN)))
        names = [state_topic("primary"), OTHER, MM2]
        for made in self._admin.create_topics([NewTopic(n, 1, 1) for n in names]).values():
            made.result(30)
        for operation in (AclOperation.READ, AclOperation.WRITE):
            self.allow(ResourceType.TOPIC, state_topic("primary"), operation)
        self.target = Cluster.connect(self.settings("drkit"))

    def settings(self, user: str) -> ClusterSettings:
        return ClusterSettings(
            alias="standby",
            bootstrap_servers=self._cluster.bootstrap(),
            client=self._cluster.client_properties(user),
        )

    def allow(self, kind: ResourceType, name: str, operation: AclOperation) -> None:
        literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        acl = AclBinding(kind, name, literal, "User:drkit", "*", operation, allow)
        for done in self._admin.create_acls([acl]).values():
            done.result(30)

    def may_read_other(self) -> bool:
        try:
            return newest_values(self.target, [OTHER]) == {OTHER: {}}
        except NotAuthorized:  # brokers learn of an ACL within moments
            return False

    def look(self, state: StateTopic) -> dict[str, DrkitError]:
        events = TopicEvents(FLOW, state, effects=True)
        return Rivals(self.target, FLOW, state, events).refused(["orders"])


@pytest.fixture
def locked() -> Iterator[Locked]:
    users = {ADMIN: "admin-password", "drkit": "drkit-password"}
    cluster = LocalCluster(ClusterSpec("locked", sasl=True, authorizer=True, users=users))
    cluster.start()
    yield Locked(cluster)
    cluster.stop()


@pytest.mark.wide
def test_rivals_that_may_not_be_read_are_said_and_stop_nothing(locked: Locked):
    """P7: the same topic twice is refused, as far as drkit may see; least permissions are enough."""
    eventually(lambda: topic_names(locked.target) == [state_topic("primary")], what="its own topic only")
    with StateTopic(locked.target.settings, "primary") as state:
        state.load()
        assert not locked.look(state)
        assert not [k for k in stored(state) if "unknown" in k], "what is invisible is no finding"

        for name in (OTHER, MM2):
            locked.allow(ResourceType.TOPIC, name, AclOperation.DESCRIBE)
        eventually(lambda: {OTHER, MM2} <= set(topic_names(locked.target)), what="both are visible")
        assert not locked.look(state)

        other = stored(state)[f"event/rival_unknown/{OTHER}/-1"]
        assert error_name(TOPIC_AUTHORIZATION_FAILED) in other["evidence"]
        assert "grant drkit DESCRIBE and READ" in other["hint"]
        mm2 = stored(state)[f"event/mm2_unknown/{MM2}/-1"]
        assert "primary-mm2" in mm2["evidence"]
        assert "DESCRIBE" in mm2["hint"]

    locked.allow(ResourceType.TOPIC, OTHER, AclOperation.READ)
    eventually(locked.may_read_other, what="no group is needed to read")
