"""Copied topics that drkit may not see on the source, or not read there: never "nothing is lost"."""

from __future__ import annotations

from contextlib import closing

from drkit.clock import wall_ms
from drkit.config import Settings
from drkit.kafka.access.acls import create_acls, delete_acls
from drkit.local.cluster import LocalCluster
from drkit.status.model import FlowStatus
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector
from drkit.topology.acls import Acl, AclOperation, PatternKind, Permission, ResourceKind
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.known_flow import remember
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ClusterFactory
from tests.support.waiting import eventually

_HOUR_MS = 3_600_000


def fault(status: FlowStatus, code: str) -> str:
    """Return the text of a fault, or an empty one."""
    return next((f.text for f in status.faults if f.code == code), "")


def test_a_topic_that_drkit_may_not_see_or_read_is_a_fault(
    cluster_factory: ClusterFactory, target: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> None:
    source = cluster_factory("shy", authorizer=True)
    late, hidden, gone = f"{topic_name}-late", topic_name, f"{topic_name}-gone"
    flow = flow_factory(source, target, topics=(f"{topic_name}.*",), emit_heartbeats=False)
    for name in (late, hidden, gone):
        flow.create_both(name, 1)
    remember(flow, late, hidden, gone)
    flow.delete(flow.source, gone)
    fill(flow.source, hidden, 30)
    settings = Settings(clusters={c.alias: c for c in (flow.source, flow.target)}, flows=(flow.settings,))

    def deny(operation: AclOperation) -> Acl:
        subject = ResourceKind.TOPIC, PatternKind.LITERAL, hidden, "User:ANONYMOUS", "*"
        rule = Acl(*subject, operation, Permission.DENY)
        assert create_acls(flow.source, [Acl(*subject, AclOperation.ALL, Permission.ALLOW), rule]) == {}
        return rule

    with closing(PairedCollector(settings, flow.settings, groups=False)) as collector:
        eventually(lambda: collector.look().loss.records == 30, what="the records that wait")
        assert {t.topic for t in collector.look().topics} == {late, hidden}, "one is deleted"

        rule = deny(AclOperation.ALL)
        eventually(lambda: collector.look().loss.records is None, what="a loss that is unknown")
        status = collector.look()
        reason = "drkit may not see the topic on the source"
        assert fault(status, "lag_unknown") == (
            f"the lag of 1 partition is unknown, such as {hidden}-0: {reason}"
        )
        assert (status.loss.exact, status.unanswered, status.copied_ms) == (False, {hidden: (0,)}, None)
        assert status.pair is not None
        [topic] = [t for t in status.pair.topics if t.topic == hidden]
        assert topic.state is not PairState.PROTECTED
        collector.remember_source()
        assert delete_acls(flow.source, [rule]) == {}
        eventually(lambda: collector.look().loss.records == 30, what="the records, seen again")

        # A known wait is named beside one of unknown age.
        deny(AclOperation.READ)
        fill(flow.source, late, 5, timestamp=lambda _: wall_ms() - _HOUR_MS)
        with closing(PairedCollector(settings, flow.settings, groups=False)) as fresh:
            eventually(lambda: fault(fresh.look(), "lag_unknown"), what="a lag of unknown age")
            status = fresh.look()
        assert "TopicAuthorizationFailed" in fault(status, "lag_unknown")
        assert "is at least 360" in fault(status, "rpo_exceeded")
        assert (status.loss.records, status.loss.seconds) == (35, None)
