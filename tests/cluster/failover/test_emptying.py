"""Partitions that are emptied: what stays, what is refused by name, and brokers that are away meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
import threading

import pytest

from drkit.config import ClusterSettings
from drkit.errors import Refused
from drkit.failover.emptying.empty import allow_deletion, compact_only, empty, not_empty, put_back
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.flows.clusters import Clusters
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually


def _clusters(cluster: LocalCluster, replicas: int) -> Clusters:
    first = cluster.bootstrap().partition(",")[0]  # never the one that a test takes away
    sides = [ClusterSettings(alias=a, bootstrap_servers=first) for a in ("here", "there")]
    return Clusters(sides[0], sides[1], replicas)


@pytest.fixture
def here(source: LocalCluster) -> Iterator[Clusters]:
    found = _clusters(source, 1)
    yield found
    found.close()


def test_what_is_before_the_offset_goes_and_what_follows_stays(here: Clusters, topic_name: str) -> None:
    here.create(here.source, topic_name, 2, {})
    fill(here.source, topic_name, 60)
    ends = here.offsets(here.source, topic_name)
    wanted = {TopicPartition(topic_name, p): end for p, end in ends.items()}
    assert here.ask(here.source, not_empty, wanted) == dict.fromkeys(wanted, 0)
    fill(here.source, topic_name, 20)
    for _ in range(2):
        here.ask(here.source, empty, wanted)
        assert here.starts(here.source, topic_name) == ends
        assert here.ask(here.source, not_empty, wanted) == {}
    assert sum(here.offsets(here.source, topic_name).values()) == sum(ends.values()) + 20


def test_beyond_the_end_nothing_is_deleted(here: Clusters, topic_name: str) -> None:
    """Such a partition has lost records since."""
    here.create(here.source, topic_name, 1, {})
    fill(here.source, topic_name, 30)
    with pytest.raises(Refused) as refused:
        here.ask(here.source, empty, {TopicPartition(topic_name, 0): 31})
    assert f"{topic_name}-0 up to 31: OffsetOutOfRangeError" in refused.value.evidence
    assert "it lost records" in refused.value.hint
    assert here.starts(here.source, topic_name) == {0: 0}


@pytest.mark.wide
@pytest.mark.parametrize("own", [{}, {"retention.ms": "3600000"}])
def test_a_topic_that_is_only_compacted(here: Clusters, topic_name: str, own: dict[str, str]) -> None:
    here.create(here.source, topic_name, 1, {"cleanup.policy": "compact", **own})
    fill(here.source, topic_name, 30)
    wanted, admin = {TopicPartition(topic_name, 0): 30}, Cluster.connect(here.source)
    with pytest.raises(Refused) as refused:
        here.ask(here.source, empty, wanted)
    assert "PolicyViolationError" in refused.value.evidence
    before = compact_only(admin, [topic_name])
    assert (
        before[topic_name]
        == {"retention.ms": None, "retention.bytes": None, "cleanup.policy": "compact"} | own
    )
    allow_deletion(admin, before)
    assert compact_only(admin, [topic_name]) == {}
    eventually(lambda: _own(admin, topic_name)["cleanup.policy"] == "compact,delete")
    here.ask(here.source, empty, wanted)
    for _ in range(2):
        put_back(admin, before)
        eventually(lambda: _own(admin, topic_name) == {"cleanup.policy": "compact", **own})
    assert here.starts(here.source, topic_name) == {0: 30}


def test_a_policy_that_reaches_the_leader_a_moment_later(here: Clusters, topic_name: str) -> None:
    here.create(here.source, topic_name, 1, {"cleanup.policy": "compact"})
    fill(here.source, topic_name, 30)
    admin = Cluster.connect(here.source)
    later = threading.Timer(0.5, allow_deletion, (admin, compact_only(admin, [topic_name])))
    later.start()
    here.ask(here.source, empty, {TopicPartition(topic_name, 0): 30})
    later.join()
    assert here.starts(here.source, topic_name) == {0: 30}


def _own(admin: Cluster, topic: str) -> dict[str, str | None]:
    found = topic_configs(admin, [topic])[topic]
    return {name: v.value for name, v in found.items() if v.is_set_on_topic}


@pytest.mark.soak
def test_with_one_of_three_brokers_down(module_cluster: ModuleClusters, topic_name: str) -> None:
    """It does not hold up the others, and begins where its leader does when it is back and leads itself."""
    three = module_cluster("three", brokers=3)
    here = _clusters(three, 3)
    here.create(here.source, topic_name, 6, {})
    fill(here.source, topic_name, 300)
    ends = here.offsets(here.source, topic_name)
    wanted = {TopicPartition(topic_name, p): end for p, end in ends.items()}
    three.brokers[2].kill()
    here.ask(here.source, empty, wanted)
    assert here.starts(here.source, topic_name) == ends
    fill(here.source, topic_name, 60)
    three.restart()
    eventually(lambda: _in_sync(here, topic_name) == {3}, 60.0, "all three replicas")
    three.brokers[1].kill()
    eventually(lambda: here.starts(here.source, topic_name) == ends, 60.0, "leaders that know the start")
    assert three.brokers[2].node_id in {x.node for x in here.topic(here.source, topic_name).leaders.values()}
    three.restart()
    here.close()


@pytest.mark.soak
def test_with_one_of_three_brokers_frozen(module_cluster: ModuleClusters, topic_name: str) -> None:
    """Partitions that it leads wait for another leader; the others are emptied, and it follows."""
    three = module_cluster("three", brokers=3)
    here = _clusters(three, 3)
    here.create(here.source, topic_name, 6, {})
    fill(here.source, topic_name, 300)
    ends = here.offsets(here.source, topic_name)
    wanted = {TopicPartition(topic_name, p): end for p, end in ends.items()}
    three.brokers[2].freeze()
    try:
        here.ask(here.source, empty, wanted)
        assert here.ask(here.source, not_empty, wanted) == {}
    finally:
        three.brokers[2].resume()
    eventually(lambda: _in_sync(here, topic_name) == {3}, 60.0, "all three replicas")
    assert here.starts(here.source, topic_name) == ends
    here.close()


def _in_sync(here: Clusters, topic: str) -> set[int]:
    found = Cluster.connect(here.source).admin.list_topics(topic, timeout=30).topics[topic]
    return {len(p.isrs) for p in found.partitions.values()}
