"""A topic of drkit's own that exists before drkit's first start, as automatic creation makes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.detect.noticeboard import ensure_board
from drkit.detect.noticeboard import topic_name as board_of
from drkit.errors import Failed, NotAuthorized
from drkit.flow_state.creation import KEPT_MS, ensure_state_topic
from drkit.flow_state.names import fence_topic, journal_topic, state_topic
from drkit.flow_state.source_fence.entries import FenceMark
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.kafka import topics
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import (
    ALL_KEPT,
    TopicPlan,
    alter_topic_configs,
    create_topics,
    ensure_own_topic,
    topic_configs,
)
from drkit.local.cluster import LocalCluster
from tests.support.flow_state.keys import KEYS
from tests.support.waiting import eventually

KINDS = ("state", "journal", "notes", "fences")


def record_fence(cluster: Cluster, flow: FlowSettings) -> None:
    with FenceTopic(cluster.settings, flow) as fences:
        fences.append(fences.entry(FenceMark.RAISED, "run", 1))


def refusal(ensure: Callable[[], object]) -> Failed | None:
    try:
        ensure()
    except Failed as error:
        return error
    return None


def hinted(refused: Failed) -> dict[str, str]:
    pairs = str(refused.hint).split()[1]  # set NAME=VALUE,NAME=VALUE on …
    return dict(pair.split("=") for pair in pairs.split(","))


@pytest.mark.parametrize("kind", KINDS)
def test_settings_that_delete_records_are_refused(target: LocalCluster, topic_name: str, kind: str) -> None:
    """With Kafka's defaults a promotion was gone after seven days, and drkit copied behind it."""
    alias = topic_name[-8:]
    flow = FlowSettings(source=alias, target="b")
    cluster = Cluster.connect(ClusterSettings(alias="b", bootstrap_servers=target.bootstrap()))
    name, ensure = {
        "state": (state_topic(alias), lambda: ensure_state_topic(cluster, flow)),
        "journal": (journal_topic(alias), lambda: ensure_own_topic(cluster, journal_topic(alias), ALL_KEPT)),
        "notes": (board_of(flow), lambda: ensure_board(cluster, flow)),
        "fences": (fence_topic(alias, "b"), lambda: record_fence(cluster, flow)),
    }[kind]
    assert not create_topics(cluster, [TopicPlan(name, 1, 1, {})])

    refused = eventually(lambda: refusal(ensure), what="every broker knows the topic")
    assert refused.code == "own_topic_settings"
    assert name in str(refused.hint)

    settings = hinted(refused)
    assert settings.keys() <= topic_configs(cluster, [name])[name].keys()
    assert not alter_topic_configs(cluster, {name: settings})
    eventually(lambda: refusal(ensure) is None, what="every broker knows its settings")


@pytest.mark.parametrize("kind", ["state", "notes"])
def test_tombstones_stay_in_a_compacted_topic_of_others(
    target: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A forged one erased a pause, and a promotion, and was gone a day later."""
    flow = FlowSettings(source=topic_name[-8:], target="b")
    settings = ClusterSettings(alias="b", bootstrap_servers=target.bootstrap()).with_control(KEYS)
    cluster = Cluster.connect(settings)
    name = state_topic(flow.source) if kind == "state" else board_of(flow)
    assert not create_topics(cluster, [TopicPlan(name, 1, 1, {"cleanup.policy": "compact"})])
    eventually(lambda: topic_configs(cluster, [name]), what="the topic")

    def ensure() -> None:
        ensure_state_topic(cluster, flow) if kind == "state" else ensure_board(cluster, flow)

    def values() -> list[str | None]:
        found = topic_configs(cluster, [name])[name]
        return [found[setting].value for setting in ("delete.retention.ms", "message.timestamp.type")]

    with monkeypatch.context() as patched:
        may_not = {name: NotAuthorized("own_topic_unwritable", where=name)}
        patched.setattr(topics, "alter_topic_configs", lambda _cluster, _changes: may_not)
        refused = refusal(ensure)
        assert refused is not None
        assert hinted(refused)["delete.retention.ms"] == KEPT_MS
    ensure()
    kept = [KEPT_MS, "CreateTime" if kind == "state" else "LogAppendTime"]
    eventually(lambda: values() == kept, what="every broker knows its settings")
