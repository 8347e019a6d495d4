"""A topic of drkit's own that exists before drkit's first start, as automatic creation makes it."""

from __future__ import annotations

import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.detect.noticeboard import ensure_board
from drkit.detect.noticeboard import topic_name as board_of
from drkit.errors import Failed
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.names import journal_topic, state_topic
from drkit.journal.topic import ensure_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, alter_topic_configs, create_topics, topic_configs
from drkit.local.cluster import LocalCluster

KINDS = ("state", "journal", "notes")


@pytest.mark.parametrize("kind", KINDS)
def test_settings_that_delete_records_are_refused(target: LocalCluster, topic_name: str, kind: str) -> None:
    """With Kafka's defaults a promotion was gone after seven days, and drkit copied behind it."""
    alias = topic_name[-8:]
    flow = FlowSettings(source=alias, target="b")
    cluster = Cluster.connect(ClusterSettings(alias="b", bootstrap_servers=target.bootstrap()))
    name, ensure = {
        "state": (state_topic(alias), lambda: ensure_state_topic(cluster, flow)),
        "journal": (journal_topic(alias), lambda: ensure_topic(cluster, journal_topic(alias))),
        "notes": (board_of(flow), lambda: ensure_board(cluster, flow)),
    }[kind]
    assert not create_topics(cluster, [TopicPlan(name, 1, 1, {})])

    with pytest.raises(Failed) as refused:
        ensure()
    assert refused.value.code == "own_topic_settings"
    assert name in str(refused.value.hint)

    pairs = str(refused.value.hint).split()[1]  # set NAME=VALUE,NAME=VALUE on …
    settings = dict(pair.split("=") for pair in pairs.split(","))
    assert settings.keys() <= topic_configs(cluster, [name])[name].keys()
    assert not alter_topic_configs(cluster, {name: settings})
    ensure()
