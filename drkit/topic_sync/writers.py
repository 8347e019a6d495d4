"""Principals that may write to the topics that control drkit: its own, and those of heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from drkit.config import FlowSettings, Settings
from drkit.errors import DrkitError
from drkit.flow_state.names import (
    CANARY_TOPIC,
    fence_topic,
    journal_topic,
    offset_map_topic,
    state_topic,
    watch_topic,
)
from drkit.kafka.access.acls import NoAuthorizer, is_open, list_acls, own_principals
from drkit.kafka.admin import Cluster
from drkit.mm2_topics.heartbeats import TOPIC as HEARTBEATS
from drkit.topology.acl_scope import ANY_CLIENT, writers

UNSEEN: Final = (
    "besides drkit, super users, and principals that may ALTER the cluster: no ACL on a topic shows them"
)
_Ask = Callable[[str], tuple[str, ...]]


def topic_writers(settings: Settings, clusters: Mapping[str, Cluster]) -> list[dict[str, Any]]:
    """One row for each such topic, there or not: its cluster, its name, who may write there.

    :param clusters: those of the configuration, by alias
    """
    wanted = dict.fromkeys(pair for flow in settings.flows for pair in _topics(settings, flow))
    asked: dict[str, _Ask] = {}
    rows = []
    for alias, topic in wanted:
        if alias not in asked:
            asked[alias] = _asking(settings, clusters[alias])
        rows.append({"cluster": alias, "topic": topic, "writers": list(asked[alias](topic))})
    return rows


def _topics(settings: Settings, flow: FlowSettings) -> Iterator[tuple[str, str]]:
    """Clusters and topics of one flow. State of an opposite flow is on its source."""
    source, target = flow.source, flow.target
    for topic in (
        state_topic(source),
        offset_map_topic(source),
        journal_topic(source),
        watch_topic(source, target),
        flow.naming_policy.downstream(HEARTBEATS),
    ):
        yield target, topic
    yield source, HEARTBEATS
    yield source, CANARY_TOPIC
    yield source, fence_topic(source, target)
    for alias in flow.opposite_flows or ():
        yield source, state_topic(alias)
    if settings.watch.third is not None:
        yield settings.watch.third, watch_topic(source, target)


def _asking(settings: Settings, cluster: Cluster) -> _Ask:
    """Answers who may write to a topic of a cluster, whose ACLs are listed once."""
    flows = [f for f in settings.flows if cluster.alias in {f.source, f.target}]
    sides = [s for f in flows for s in (*settings.sides(f), *settings.task_sides(f))]
    own = own_principals(*(s for s in (cluster.settings, *sides) if s.alias == cluster.alias))
    try:
        acls, opened = list_acls(cluster.settings).acls, is_open(cluster)
    except NoAuthorizer as error:
        without = f"{ANY_CLIENT}: {error.what}"
        return lambda _topic: (without,)
    except DrkitError as error:
        unknown = f"not known: {error.in_short}"
        return lambda _topic: (unknown,)
    return lambda topic: writers(topic, acls, own, is_open=opened)
