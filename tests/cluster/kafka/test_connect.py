"""Each way in which a cluster cannot be reached has its own error, within seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
import gc
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
import socket
import threading
import time
from typing import NamedTuple, TypeVar
from uuid import UUID

from confluent_kafka import Consumer, Producer, Uuid
from confluent_kafka.admin import AdminClient
import pytest

from drkit.config import ClusterSettings
from drkit.errors import ClusterUnreachable, DrkitError, NotAuthenticated, NotAuthorized, Refused, error_text
from drkit.kafka import topics
from drkit.kafka.admin import Cluster, refuse_same_cluster
from drkit.kafka.raw import RawCluster
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from drkit.model import TopicPartition

T = TypeVar("T")


class Guarded(NamedTuple):
    sasl: LocalCluster
    tls: LocalCluster


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with ExitStack() as stack:
        both = Guarded(
            LocalCluster(ClusterSpec("sasl", sasl=True, authorizer=True)),
            LocalCluster(ClusterSpec("tls", tls=True, sasl=True)),
        )
        for cluster in both:
            stack.callback(cluster.stop)
        start_together(*both)
        yield both


def wait_until(look: Callable[[], T], good: Callable[[T], bool]) -> T:
    deadline = time.monotonic() + 10
    while not good(found := look()):
        assert time.monotonic() < deadline, found
    return found


def connect(servers: str, client: dict[str, str] | None = None) -> Cluster:
    settings = ClusterSettings(alias="x", bootstrap_servers=servers, client=client or {})
    return Cluster.connect(settings, timeout_seconds=6)


def refusal(kind: type[DrkitError], servers: str, client: dict[str, str] | None = None) -> DrkitError:
    started = time.monotonic()
    with pytest.raises(kind) as caught:
        connect(servers, client)
    assert time.monotonic() - started < 12
    assert caught.value.where == servers
    assert caught.value.evidence
    assert caught.value.hint
    return caught.value


def test_a_cluster_that_answers(source: LocalCluster):
    cluster = connect(source.bootstrap())
    assert cluster.cluster_id == source.cluster_id
    assert [b.id for b in cluster.brokers] == [0]


def test_one_dead_server_of_two_does_no_harm(source: LocalCluster):
    assert connect(f"127.0.0.1:1,{source.bootstrap()}").cluster_id == source.cluster_id


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_sasl(guarded: Guarded, mechanism: str):
    for cluster in guarded:
        client = cluster.client_properties(mechanism=mechanism)
        assert connect(cluster.bootstrap(), client).cluster_id == cluster.cluster_id


@pytest.mark.wide
def test_wrong_host():
    assert "does not resolve" in refusal(ClusterUnreachable, "no-such-host.invalid:9092").what


@pytest.mark.wide
def test_closed_port():
    assert "nothing listens" in refusal(ClusterUnreachable, "127.0.0.1:1").what


@pytest.mark.wide
def test_a_port_that_never_answers():
    with socket.create_server(("127.0.0.1", 0)) as server:
        error = refusal(ClusterUnreachable, f"127.0.0.1:{server.getsockname()[1]}")
    assert "never answers" in error.what


@pytest.mark.wide
@pytest.mark.parametrize("client", [{}, {"security.protocol": "SSL"}])
def test_not_kafka(client: dict[str, str]):
    class Silent(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        error = refusal(ClusterUnreachable, f"127.0.0.1:{server.server_port}", client)
        server.shutdown()
        thread.join()
    assert "not as Kafka does" in error.what


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_wrong_password(guarded: Guarded, mechanism: str):
    client = guarded.sasl.client_properties(mechanism=mechanism) | {"sasl.password": "guessed-wrong"}
    error = refusal(NotAuthenticated, guarded.sasl.bootstrap(), client)
    assert error.code == "credentials_refused"
    assert "guessed-wrong" not in str(error.as_dict())


def test_a_mechanism_that_is_not_offered(guarded: Guarded):
    client = guarded.sasl.client_properties() | {"sasl.mechanism": "SCRAM-SHA-256"}
    assert "PLAIN, SCRAM-SHA-512" in refusal(NotAuthenticated, guarded.sasl.bootstrap(), client).evidence


def test_plain_text_to_a_sasl_listener(guarded: Guarded):
    assert "demands SASL" in refusal(NotAuthenticated, guarded.sasl.bootstrap()).what


def test_sasl_to_a_plain_listener(source: LocalCluster, guarded: Guarded):
    client = guarded.sasl.client_properties()
    assert "knows no SASL" in refusal(ClusterUnreachable, source.bootstrap(), client).what


def test_plain_text_to_a_tls_listener(guarded: Guarded):
    assert "port speaks TLS" in refusal(ClusterUnreachable, guarded.tls.bootstrap()).what


def test_tls_to_a_plain_listener(source: LocalCluster, guarded: Guarded):
    client = guarded.tls.client_properties()
    assert "port speaks plain text" in refusal(ClusterUnreachable, source.bootstrap(), client).what


def test_a_certificate_without_a_trusted_issuer(guarded: Guarded):
    client = {k: v for k, v in guarded.tls.client_properties().items() if not k.startswith("ssl.")}
    assert "not trusted" in refusal(NotAuthenticated, guarded.tls.bootstrap(), client).what


def test_one_cluster_under_two_aliases(source: LocalCluster, target: LocalCluster):
    one, same, other = (
        connect(c.bootstrap(role)) for c, role in ((source, "CLIENT"), (source, "PROBE"), (target, "CLIENT"))
    )
    refuse_same_cluster(one, other)
    with pytest.raises(Refused) as caught:
        refuse_same_cluster(one, same)
    assert source.cluster_id in caught.value.evidence


def test_topics(source: LocalCluster, topic_name: str):
    cluster = connect(source.bootstrap())
    plan = topics.TopicPlan(topic_name, 3, configs={"retention.ms": "-1"})
    assert topics.create_topics(cluster, [plan]) == {}
    assert topics.create_topics(cluster, [plan]) == {}  # it is there, which is what was asked for
    described = wait_until(
        lambda: topics.describe_topics(cluster, [topic_name, "there-is-no-such-topic"]), bool
    )
    assert list(described) == [topic_name]
    assert topic_name in topics.topic_names(cluster)
    assert described[topic_name].replication_factor == 1
    last = described[topic_name].leaders[2]
    assert (last.node, last.replicas, last.in_sync) == (0, (0,), (0,))
    assert described[topic_name].topic_id.int > 0

    changes = {topic_name: {"retention.ms": None, "max.message.bytes": "12345"}}
    assert topics.alter_topic_configs(cluster, changes) == {}
    # The controller has it; the broker that we ask hears of it a moment later.
    configs = wait_until(
        lambda: topics.topic_configs(cluster, [topic_name, "there-is-no-such-topic"])[topic_name],
        lambda found: not found["retention.ms"].is_set_on_topic,
    )
    assert {k: v.value for k, v in configs.items() if v.is_set_on_topic} == {"max.message.bytes": "12345"}
    assert configs["retention.ms"].source == "DEFAULT_CONFIG"

    assert topics.create_partitions(cluster, {topic_name: 5}) == {}
    every = [TopicPartition(topic_name, n) for n in range(5)]
    assert topics.list_offsets(cluster, every, "latest", committed=True) == dict.fromkeys(every, 0)
    assert topics.delete_topics(cluster, [topic_name, "there-is-no-such-topic"]) == {}


def test_describing_topics_leaves_nothing_behind(source: LocalCluster, topic_name: str):
    cluster = connect(source.bootstrap())
    names = [f"{topic_name}-{n}" for n in range(5)]
    topics.create_topics(cluster, [topics.TopicPlan(name, 1) for name in names])
    wait_until(lambda: topics.describe_topics(cluster, names), lambda found: len(found) == len(names))
    counts = []
    for _ in range(2):
        for _ in range(20):
            topics.describe_topics(cluster, names)
        gc.collect()
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        counts.append((_living(Uuid, UUID, RawCluster), descriptors))
    (living, descriptors), (living_after, descriptors_after) = counts
    assert living_after <= living  # earlier tests of this process may keep some: only more would be a leak
    assert descriptors_after < descriptors + 10, "20 calls, each with connections of its own"


def test_a_client_ends_with_its_last_reference(source: LocalCluster, topic_name: str):
    """Its threads would wait for a search for cycles otherwise, and these are far apart."""
    topics.create_topics(connect(source.bootstrap()), [topics.TopicPlan(topic_name, 1)])
    at = TopicPartition(topic_name, 0)
    wait_until(lambda: topics.list_offsets(connect(source.bootstrap()), [at], "latest"), bool)
    clients = Cluster, RawCluster, AdminClient, Consumer, Producer
    gc.collect()
    gc.disable()
    try:
        before = _living(*clients)
        for _ in range(5):
            cluster = connect(source.bootstrap())
            topics.list_offsets(cluster, [at], "latest")
            topics.describe_topics(cluster, [topic_name])
            del cluster
        assert _living(*clients) <= before
    finally:
        gc.enable()


def _living(*kinds: type) -> Counter[str]:
    """Objects by type. Threads cannot be counted: those of other tests start and end at any time."""
    return Counter(type(thing).__name__ for thing in gc.get_objects() if issubclass(type(thing), kinds))


def test_a_failure_stops_no_other_topic(source: LocalCluster, topic_name: str):
    cluster = connect(source.bootstrap())
    failed = topics.create_topics(
        cluster,
        [topics.TopicPlan(topic_name, 1), topics.TopicPlan(f"{topic_name}-2", 1, replication_factor=9)],
    )
    assert list(failed) == [f"{topic_name}-2"]
    assert "INVALID_REPLICATION_FACTOR" in failed[f"{topic_name}-2"].evidence
    assert "replication_factor" in failed[f"{topic_name}-2"].hint
    assert wait_until(lambda: topics.describe_topics(cluster, [topic_name]), bool)


def test_broker_settings(source: LocalCluster):
    value = topics.broker_config(connect(source.bootstrap()))["producer.id.expiration.ms"]
    assert int(value.value or 0) > 0


def test_without_permission(guarded: Guarded, topic_name: str):
    admin = connect(guarded.sasl.bootstrap(), guarded.sasl.client_properties())
    assert topics.create_topics(admin, [topics.TopicPlan(topic_name, 1)]) == {}
    cluster = connect(guarded.sasl.bootstrap(), guarded.sasl.client_properties("app"))
    failed = topics.create_topics(cluster, [topics.TopicPlan(f"{topic_name}-2", 1)])
    assert isinstance(failed[f"{topic_name}-2"], NotAuthorized)
    with pytest.raises(NotAuthorized) as caught:
        topics.describe_topics(cluster, [topic_name])
    assert caught.value.where == f"x: {topic_name}"


def test_a_connection_that_is_reset_is_reported_without_the_systems_number() -> None:
    assert error_text(ConnectionResetError(104, "Connection reset by peer")) == "Connection reset by peer"
    assert error_text(OSError("all of it")) == "all of it"
    assert error_text(TimeoutError()) == "TimeoutError"
