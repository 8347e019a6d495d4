"""A late fetch answer of a former leader: it takes neither the cursor nor the leader epoch back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as ElectedPartition
from kafka.protocol.admin import AlterPartitionReassignmentsRequest
import pytest

from drkit.config import ClusterSettings
from drkit.copy_task.core.partition import PartitionCopy
from drkit.copy_task.source.fetching import Fetcher
from drkit.kafka.raw import RawCluster
from drkit.local.link import Direction
from tests.support.exactness.fixtures import Pair
from tests.support.exactness.truth import Truth
from tests.support.flows.clusters import Clusters
from tests.support.flows.compare import read
from tests.support.flows.copying import copying
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import Flow
from tests.support.flows.produce import fill
from tests.support.waiting import eventually

SOURCE: dict[str, Any] = {
    "brokers": 2, "linked": ("CLIENT",), "properties": {"auto.leader.rebalance.enable": "false"}
}  # fmt: skip
TARGET = None
LONG_POLL_MS = 8_000
"""The fetch is open at the leader while its answers are being held back and records come."""


@pytest.fixture
def flow(pair: Pair, flow_factory: FlowFactory) -> Flow:
    """Its tasks wait for a fetch answer for as long as it takes."""
    return flow_factory(
        *pair, role="PROBE", fetch_max_wait_ms=LONG_POLL_MS,
        source_consumer={"request.timeout.ms": "600000"},
    )  # fmt: skip


@pytest.fixture
def past_the_link(flow: Flow, pair: Pair) -> Iterator[Clusters]:
    """The same clusters; the source by a listener without a link."""
    source = ClusterSettings(alias="past-the-link", bootstrap_servers=pair.source.bootstrap("PROBE"))
    with closing(Clusters(source, flow.target, 1)) as found:
        yield found


async def reassign(cluster: RawCluster, topic: str, replicas: list[int]) -> None:
    """Name the preferred leader first."""
    topic_of = AlterPartitionReassignmentsRequest.ReassignableTopic
    partition = topic_of.ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[topic_of(name=topic, partitions=[partition])], timeout_ms=30_000
    )
    answer = await cluster.send(request, timeout_ms=30_000)
    assert not answer.error_code
    assert not answer.responses[0].partitions[0].error_code


def move_leader(clusters: Clusters, topic: str, node: int) -> None:
    """Another broker leads the topic's partition, with the next leader epoch; both live on."""
    clusters.ask(clusters.source, reassign, topic, [node, 1 - node])
    at = ElectedPartition(topic, 0)
    admin = clusters._admins[clusters.source.alias]
    errors = admin.elect_leaders(ElectionType.PREFERRED, [at]).result(30)
    assert errors[at] is None, errors
    eventually(lambda: clusters.topic(clusters.source, topic).leaders[0].node == node, what="the new leader")


@pytest.mark.wide
def test_a_late_answer_of_a_former_leader(
    flow: Flow, pair: Pair, past_the_link: Clusters, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its leader epoch the new leader would say that its history ended: 100 records would come twice."""
    taken: list[tuple[int, int, int]] = []
    take = Fetcher._handle

    async def seen(fetcher: Fetcher, answer: Any, wanted: dict[PartitionCopy, Any]) -> None:
        size = sum(len(p.records or b"") for t in answer.responses for p in t.partitions)
        taken.append((fetcher._node, min(asked.offset for asked in wanted.values()), size))
        await take(fetcher, answer, wanted)

    monkeypatch.setattr(Fetcher, "_handle", seen)
    source, link = past_the_link.source, pair.source.link("CLIENT")
    routes = [int(server.rpartition(":")[2]) for server in pair.source.bootstrap("CLIENT").split(",")]
    flow.create(flow.source, topic_name, 1, {"retention.ms": "-1"}, replicas=2)
    flow.create(flow.target, topic_name, 1, flow.passive({"retention.ms": "-1"}))
    fill(source, topic_name, 100)
    former = past_the_link.topic(source, topic_name).leaders[0].node
    lease = flow.lease(topic_name, once=False, seconds=300)
    with copying(flow, lease):
        copied(past_the_link, topic_name, 100)
        link.stall(Direction.TO_CLIENT, routes[former])
        fill(source, topic_name, 100, first=100)
        move_leader(past_the_link, topic_name, 1 - former)
        fill(source, topic_name, 100, first=200)
        copied(past_the_link, topic_name, 300)
        assert (former, 100) not in {(node, offset) for node, offset, _ in taken}
        link.restore()
        eventually(lambda: any(t[:2] == (former, 100) and t[2] for t in taken), what="the late answer")
        link.cut()  # the next fetch begins a new session, and names the leader epoch again
        link.restore()
        fill(source, topic_name, 100, first=300)
        copied(past_the_link, topic_name, 400)
    assert len(read(flow.target, topic_name)[0]) == 400
    Truth(flow, topic_name).is_exact(more_than=399)
    assert not flow.events("source_diverged")


def copied(clusters: Clusters, topic: str, records: int) -> None:
    eventually(
        lambda: clusters.offsets(clusters.target, topic)[0] >= records, 90, f"{records} records of {topic}"
    )
