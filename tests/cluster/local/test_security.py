"""SASL, TLS and ACLs of local clusters, seen by an ordinary client."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
import pytest

from drkit.config import ClusterSettings
from drkit.kafka.clients import confluent_config
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ADMIN, ClusterSpec


@pytest.fixture(scope="module")
def secured():
    with LocalCluster(ClusterSpec("secured", sasl=True, tls=True, authorizer=True)) as cluster:
        yield cluster


def _client(cluster, user, mechanism="SCRAM-SHA-512", **changes):
    settings = ClusterSettings(
        alias=cluster.spec.name,
        bootstrap_servers=cluster.bootstrap(),
        client=cluster.client_properties(user, mechanism),
    )
    return {**confluent_config(settings), **changes}


@pytest.mark.wide
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_writes_and_reads_over_sasl_and_tls(secured, topic_name, mechanism):
    client = _client(secured, ADMIN, mechanism)
    admin = AdminClient(client)
    admin.create_topics([NewTopic(topic_name, 1)])[topic_name].result(30)
    producer = Producer(client)
    producer.produce(topic_name, b"secret")
    assert producer.flush(30) == 0
    consumer = Consumer({**client, "group.id": topic_name})
    consumer.assign([TopicPartition(topic_name, 0, 0)])
    assert [message.value() for message in consumer.consume(1, 30)] == [b"secret"]
    consumer.close()


@pytest.mark.wide
def test_the_authorizer_refuses_who_has_no_acl(secured, topic_name):
    admin = AdminClient(_client(secured, "app"))
    with pytest.raises(KafkaException, match="AUTHORIZATION_FAILED"):
        admin.create_topics([NewTopic(topic_name, 1)])[topic_name].result(30)


@pytest.mark.wide
@pytest.mark.parametrize(
    "changes",
    [
        {"sasl.password": "wrong"},
        {"security.protocol": "SASL_PLAINTEXT"},
        {"ssl.ca.location": "probe"},  # the system's authorities, who do not know this certificate
    ],
    ids=["password", "no-tls", "authority"],
)
def test_wrong_credentials_do_not_get_in(secured, changes):
    client = _client(secured, ADMIN, **{"log_level": 0, **changes})
    with pytest.raises(KafkaException):
        AdminClient(client).list_topics(timeout=3)


@pytest.mark.wide
def test_an_open_authorizer_lets_everybody_in_until_there_is_an_acl(cluster_factory, topic_name):
    cluster = cluster_factory(authorizer=True)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})
    admin.create_topics([NewTopic(topic_name, 1)])[topic_name].result(30)
