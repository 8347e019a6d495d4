"""More topics than a controller changes in one request."""

from __future__ import annotations

import pytest

from drkit.config import ClusterSettings
from drkit.kafka import topics
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, alter_topic_configs, create_topics, delete_topics, topic_names
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

SETTINGS = {
    "cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "max.message.bytes": "1000000",
    "message.timestamp.type": "CreateTime", "min.insync.replicas": "1", "segment.bytes": "1048576",
    "flush.messages": "1000000", "index.interval.bytes": "4096",
}  # fmt: skip
NUMBER = 10_500 // (2 + len(SETTINGS))
"""Topics of one partition whose creation takes more than 10,000 records of the metadata log."""


@pytest.mark.wide
def test_each_is_created_changed_and_deleted(
    module_cluster: ModuleClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = module_cluster("many").bootstrap()
    cluster = Cluster.connect(ClusterSettings(alias="many", bootstrap_servers=servers))
    plans = [TopicPlan(f"many-{n}", 1, 1, SETTINGS) for n in range(NUMBER)]
    with monkeypatch.context() as patch:
        patch.setattr(topics, "MOST_RECORDS", 1 << 31)
        refused = create_topics(cluster, plans)
        assert len(refused) == NUMBER, "brokers have another limit now"
        assert "large batch" in refused["many-0"].evidence
    assert create_topics(cluster, plans) == {}
    eventually(lambda: {p.name for p in plans} <= set(topic_names(cluster)), what="all topics")
    changes = {p.name: dict.fromkeys(SETTINGS) for p in plans}
    assert alter_topic_configs(cluster, changes) == {}
    assert delete_topics(cluster, [p.name for p in plans]) == {}
