"""What would be done with the ACLs of some flows' targets, without doing it. Needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drkit import observe
from drkit.config import FlowSettings, Settings
from drkit.errors import DrkitError
from drkit.kafka.acls import NoAuthorizer
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import describe_topics, topic_names
from drkit.replicate.acl_sync import ACLS, AclSync
from drkit.replicate.opposite import OppositeFlows
from drkit.replicate.state_topic import StateTopic, topic_name
from drkit.topology.topic_plan import Row


def acl_plan(settings: Settings, flows: Sequence[FlowSettings]) -> list[dict[str, Any]]:
    """One row for each change of the targets' ACLs, in order; then those held back or left out.

    :raises DrkitError: a cluster does not answer
    """
    flows = [f for f in flows if f.sync_topic_acls]
    aliases = dict.fromkeys(a for f in flows for a in (f.source, f.target))
    clusters = {alias: Cluster.connect(settings.cluster(alias)) for alias in aliases}
    return [row for flow in flows for row in acl_plan_rows(flow, clusters)]


def acl_plan_rows(flow: FlowSettings, clusters: dict[str, Cluster]) -> list[dict[str, Any]]:
    """The rows of one flow; a reason why there is no plan is a row too.

    :param clusters: connected, by alias
    """
    source, target = clusters[flow.source], clusters[flow.target]
    with StateTopic(target.settings, flow.source) as state:
        if describe_topics(target, [topic_name(flow.source)]):
            state.load()
        opposite = OppositeFlows(source, target, flow, state, 0.0)
        try:
            opposite.find()
            sync = AclSync(source, target, flow, state, effects=False, opposite=lambda: opposite.values(ACLS))
            rows = list(sync.plan(topic_names(source)).rows())
        except NoAuthorizer as error:
            observe.event("acl_sync_off", flow=flow.name, reason=error.what)
            rows = []
        except DrkitError as error:
            rows = [Row("", "no acl sync", "", None, None, f"{error.what} ({error.evidence})")]
        finally:
            opposite.close()
    return [
        {"flow": flow.name, "topic": r.topic, "what": r.what, "setting": r.setting,
         "from": r.before, "to": r.after, "why": r.why}
        for r in rows
    ]  # fmt: skip
