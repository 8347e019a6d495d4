"""What would be done with the ACLs of some flows' targets, without doing it. Needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from drkit import observe
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import DrkitError
from drkit.flow_state.names import state_topic
from drkit.flow_state.records import AclsRecord
from drkit.flow_state.reverse_flow import OppositeFlows
from drkit.flow_state.topic import StateTopic
from drkit.kafka.access.acls import NoAuthorizer
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import describe_topics, topic_names
from drkit.topic_sync.acl_sync import AclSync
from drkit.topology.topic_plan import ChangeRow


def acl_plan(settings: Settings, flows: Sequence[FlowSettings]) -> list[dict[str, Any]]:
    """One row for each change of the targets' ACLs, in order; then those held back or left out.

    :raises DrkitError: a cluster does not answer
    """
    rows = []
    for flow in (f for f in flows if f.sync_topic_acls):
        source, target = (Cluster.connect(c) for c in settings.sides(flow))
        rows += acl_plan_rows(flow, source, target, settings.task_sides(flow)[1])
    return rows


def acl_plan_rows(
    flow: FlowSettings, source: Cluster, target: Cluster, writer: ClusterSettings | None = None
) -> list[dict[str, Any]]:
    """The rows of one flow; a reason why there is no plan is a row too.

    :param writer: how copy tasks reach the target, if that differs
    """
    with StateTopic(target.settings, flow.source) as state:
        if describe_topics(target, [state_topic(flow.source)]):
            state.load()
        opposite = OppositeFlows(source, target, flow, state, 0.0)
        try:
            opposite.find()
            sync = AclSync(
                source,
                target,
                flow,
                state,
                effects=False,
                opposite=partial(opposite.records, AclsRecord),
                writer=writer,
                waiting=opposite.promoted,
            )
            rows = list(sync.plan(topic_names(source)).rows())
        except NoAuthorizer as error:
            observe.event("acl_sync_off", flow=flow.name, reason=error.what)
            rows = []
        except DrkitError as error:
            rows = [ChangeRow("", "no acl sync", "", None, None, f"{error.what} ({error.evidence})")]
        finally:
            opposite.close()
    return [
        {"flow": flow.name, "topic": r.topic, "what": r.what, "setting": r.setting,
         "from": r.before, "to": r.after, "why": r.why}
        for r in rows
    ]  # fmt: skip
