"""Client properties of one role, and the throttle: on real connections."""

from __future__ import annotations

import socket

from kafka.protocol.admin.cluster import DescribeClusterRequest
import pytest

from drkit.config import ClusterSettings, Settings
from drkit.copy_task import copier, worker_links
from drkit.flow_state.records import GenerationRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.transport import SizedProtocol
from drkit.status.look import StatusCollector
from drkit.topic_sync.preview import check
from drkit.translate.positions import PositionQuestion, translate
from tests.support.flows.compare import check_copy
from tests.support.flows.flow import Flow
from tests.support.flows.produce import fill
from tests.support.stored import put as put_record


def elsewhere(settings: ClusterSettings) -> ClusterSettings:
    """The cluster under an address where nothing listens."""
    return settings.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})


def test_copy_tasks_connect_as_consumer_and_producer_say(flow: Flow, topic_name: str):
    """P23: properties of the consumer and the producer win over the cluster's."""
    flow.create_both(topic_name, 2)
    fill(flow.source, topic_name, 500)
    roles = {
        "source_consumer": {
            "bootstrap.servers": flow.source.bootstrap_servers,
            "receive.buffer.bytes": "65536",
        },
        "target_producer": {"bootstrap.servers": flow.target.bootstrap_servers, "request.timeout.ms": "9000"},
    }
    settings = flow.settings.model_copy(update=roles)
    report = copier.copy_task(
        flow.lease(topic_name), elsewhere(flow.source), elsewhere(flow.target), settings
    )
    assert report.records == 500
    check_copy(flow, topic_name)
    links = worker_links._links[flow.settings.name]
    assert links.produce.request_timeout_ms == 9000
    assert links.fetch.request_timeout_ms is None


def test_the_driver_connects_as_admin_says(flow: Flow):
    """P23: properties of the admin client win over the cluster's."""
    admins = {
        "source_admin": {"bootstrap.servers": flow.source.bootstrap_servers},
        "target_admin": {"bootstrap.servers": flow.target.bootstrap_servers, "retries": "3"},
    }
    ours = flow.settings.model_copy(update=admins)
    both = (elsewhere(flow.source), elsewhere(flow.target))
    settings = Settings(clusters={c.alias: c for c in both}, flows=(ours,))
    assert set(check(settings, settings.flows)) == {flow.source.alias, flow.target.alias}


def test_a_process_that_only_looks_connects_as_admin_says(flow: Flow, topic_name: str):
    """P23: status and translate, too."""
    flow.create_both(topic_name)
    fill(flow.source, topic_name, 20)
    flow.copy(topic_name)
    ids = [str(flow.topic(c, topic_name).topic_id) for c in (flow.source, flow.target)]
    with StateTopic(flow.target, flow.source.alias) as state:
        entry = {"source_id": ids[0], "target_id": ids[1], "target": topic_name, "generation": 1}
        put_record(state, GenerationRecord.key(topic_name), entry)
        put_record(state, "producer-ids", {"current": list(flow.producer), "all": [flow.producer.id]})
    admins = {
        "source_admin": {"bootstrap.servers": flow.source.bootstrap_servers},
        "target_admin": {"bootstrap.servers": flow.target.bootstrap_servers},
    }
    ours = flow.settings.model_copy(update=admins)
    both = (elsewhere(flow.source), elsewhere(flow.target))
    settings = Settings(clusters={c.alias: c for c in both}, flows=(ours,))
    (line,) = translate(settings, ours, PositionQuestion(topic=topic_name, partition=0, offset=7))
    assert (line.answer, line.to_offset) == ("exact", 7)
    collector = StatusCollector(settings, ours)
    try:
        found = collector.look()
    finally:
        collector.close()
    assert (found.source_answers, found.target_answers) == (True, True)


def test_the_raw_plane_takes_only_what_it_asked_for(flow: Flow):
    loop = EventLoop()
    cluster = RawCluster(loop, flow.source, "fetch")
    try:
        loop.run(cluster.connected)
        node = cluster.nodes()[0]
        loop.run(lambda: cluster.send(DescribeClusterRequest(), node))
        assert isinstance(cluster._manager.get_connection(node).parser, SizedProtocol)
    finally:
        cluster.close()
        loop.close()


def test_the_raw_plane_takes_buffers_and_names(flow: Flow):
    with_buffer = flow.source.with_client({"receive.buffer.bytes": "70000", "client.id": "far"})
    loop = EventLoop()
    cluster = RawCluster(loop, with_buffer, "fetch")
    try:
        loop.run(cluster.connected)
        config = cluster._manager.config
        assert config["client_id"] == "far-fetch"
        assert (socket.SOL_SOCKET, socket.SO_RCVBUF, 70000) in config["socket_options"]
    finally:
        cluster.close()
        loop.close()


@pytest.mark.wide
@pytest.mark.parametrize("rate", [60_000, 400_000])
def test_a_throttled_copy_is_whole(flow_factory, source, target, topic_name: str, rate: int):
    """How fast it is, the bucket's own tests count; here it must lose and repeat nothing."""
    flow = flow_factory(source, target, throttle_bytes_per_second=rate, tasks=1)
    flow.create_both(topic_name, 3)
    fill(flow.source, topic_name, 1500, size=100)
    assert flow.copy(topic_name).records == 1500
    check_copy(flow, topic_name)
