"""What would be done with the topics of some flows, without doing it. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster, refuse_same_cluster
from drkit.pair.reverse_flow import OppositeFlows
from drkit.topic_sync.rivals import refuse_shared
from drkit.topic_sync.rules import TopicSyncResult
from drkit.topic_sync.sync import TopicSync
from drkit.topology.topic_plan import ChangeRow


def check(settings: Settings, flows: Sequence[FlowSettings]) -> dict[str, Cluster]:
    """Connect to every cluster of the flows before anything is started.

    :raises DrkitError: unreachable, not authenticated, two aliases that are one cluster, or two flows that
        would write one topic
    """
    clusters = {alias: Cluster.connect(c) for alias, c in as_admin(settings, flows).items()}
    for flow in flows:
        refuse_same_cluster(clusters[flow.source], clusters[flow.target])
    refuse_shared(clusters, flows)
    return clusters


def as_admin(settings: Settings, flows: Sequence[FlowSettings]) -> dict[str, ClusterSettings]:
    """The clusters of some flows, with connections that only read.

    Each flow's job connects as that flow says; the settings of the first one suffice to read.
    """
    properties: dict[str, dict[str, str]] = {}
    for flow in flows:
        properties.setdefault(flow.source, flow.source_admin)
        properties.setdefault(flow.target, flow.target_admin)
    return {alias: settings.cluster(alias).with_client(p) for alias, p in properties.items()}


def dry_run(settings: Settings, flows: Sequence[FlowSettings]) -> list[dict[str, Any]]:
    """One row for each topic: what would be done with it, and why not."""
    rows = []
    for flow, found in _looks(settings, flows):
        for topic in sorted(set(found.actions) | set(found.left_out)):
            action = found.actions.get(topic, "leave out")
            reason = found.left_out.get(topic, "")
            rows.append({"flow": flow.name, "topic": topic, "action": action, "reason": reason})
    return rows


def topic_plan(settings: Settings, flows: Sequence[FlowSettings]) -> list[dict[str, Any]]:
    """One row for each change of a target topic in its order, each delayed change, each topic left out."""
    rows: list[dict[str, Any]] = []
    for flow, found in _looks(settings, flows):
        told = [row for change in found.changes for row in change.rows()]
        told += found.delayed
        told += [ChangeRow(t, "leave out", "", None, None, why) for t, why in sorted(found.left_out.items())]
        rows += [row.of(flow.name) for row in told]
    return rows


def _looks(
    settings: Settings, flows: Sequence[FlowSettings]
) -> Iterator[tuple[FlowSettings, TopicSyncResult]]:
    clusters = check(settings, flows)
    for flow in flows:
        source, target = clusters[flow.source], clusters[flow.target]
        with StateTopic(target.settings, flow.source) as state:
            state.load_existing(target)
            world = source, target, flow, state
            with OppositeFlows(*world, 0.0) as opposite:
                unexplained = partial(opposite.unexplained, both_ways=flow.has_opposite_in(flows))
                claims, held = opposite.claims, opposite.held
                sync = TopicSync(*world, effects=False, claims=claims, unexplained=unexplained, held=held)
                yield flow, sync.look()
