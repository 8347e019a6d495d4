from __future__ import annotations

import subprocess
from typing import cast, get_args

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from pydantic import ValidationError
import pytest

from drkit.config import ClusterSettings, FlowSettings, read
from drkit.config.tables.client_properties import FLOW_FIELDS, IDLE, ROLES, Role, acts, exists, idle
from drkit.config.tables.security_properties import OF_LIBRDKAFKA, SECURITY, is_misspelt
from drkit.errors import ConfigError
from drkit.kafka.admin import Cluster
from drkit.local.jars import classpath
from drkit.local.java import find_java
from tests.support.errors import sentence

CLUSTER = ClusterSettings(
    alias="a", bootstrap_servers="h:1", client={"client.id": "all", "sasl.jaas.config": "x", "a.b": "c"}
)
PROGRAM = """
import java.util.Set;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
public class Names {
    static void show(String role, Set<String> names) {
        names.forEach(n -> System.out.println(role + " " + n));
    }
    public static void main(String[] arguments) {
        show("admin", AdminClientConfig.configNames());
        show("consumer", ConsumerConfig.configNames());
        show("producer", ProducerConfig.configNames());
    }
}
"""


def test_the_names_are_those_of_kafkas_own_clients(tmp_path):
    (tmp_path / "Names.java").write_text(PROGRAM)
    command = [str(find_java()), "-cp", classpath(), str(tmp_path / "Names.java")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    real = {(cast("Role", role), name) for role, _, name in lines if not name.startswith("internal.")}
    assert len(real) > 250
    assert {(r, n) for r, n in real if not exists(r, n)} == set()
    for role in get_args(Role):
        assert {n for _, n in real if exists(role, n) and (role, n) not in real} <= SECURITY
    # One is a server's: a worker of MirrorMaker 2 has it for its REST interface.
    assert {n for n in SECURITY - OF_LIBRDKAFKA if ("admin", n) not in real} == {"ssl.client.auth"}


def test_the_other_names_are_those_of_librdkafka():
    assert [n for n in OF_LIBRDKAFKA if is_misspelt(n) or not _librdkafka_has(n)] == []
    assert is_misspelt("ssl.ca.file")
    assert not _librdkafka_has("ssl.ca.file")


def _librdkafka_has(name: str) -> bool:
    try:
        AdminClient({name: "1"})
    except KafkaException as error:
        return "No such configuration property" not in error.args[0].str()
    return True


def test_a_role_reaches_the_cluster_its_own_way():
    other = CLUSTER.with_client({"client.id": "mine", "bootstrap.servers": "x:1,y:2", "acks": "1"})
    assert other.bootstrap_servers == "x:1,y:2"
    assert other.client == {**CLUSTER.client, "client.id": "mine"}
    assert CLUSTER.with_client({"acks": "1"}) is CLUSTER


def test_another_spelling_of_the_credentials_replaces_the_clusters():
    cluster = CLUSTER.with_client({"sasl.username": "u", "sasl.password": "p"})
    assert "sasl.jaas.config" not in cluster.client
    assert "sasl.username" not in cluster.with_client({"sasl.jaas.config": "y"}).client


@pytest.mark.parametrize(
    ("properties", "what"),
    [
        ({"fetch.max.byte": "1"}, "did you mean 'fetch.max.bytes'"),
        ({"acks": "1"}, "it is one of Kafka's producer"),
        ({"zzz": "1"}, "Kafka's documentation"),
        ({"fetch.max.bytes": "1"}, "is fetch_max_bytes of the flow"),
        ({"bootstrap.servers": "x"}, "'x' is not host:port"),
    ],
)
def test_what_cannot_be_is_refused(properties: dict[str, str], what: str):
    with pytest.raises(ValidationError, match=what):
        FlowSettings(source="a", target="b", source_consumer=properties)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("securty.protocol", "did you mean 'security.protocol'?"),
        ("buffer.memory", "only one kind of client has it: target_producer of a flow"),
        ("zzz", "client takes Kafka's property names, as in client.properties"),
    ],
)
def test_what_a_cluster_cannot_have_is_refused_when_it_is_used(name: str, hint: str):
    with pytest.raises(ConfigError, match="No such configuration property") as caught:
        Cluster.connect(ClusterSettings(alias="a", bootstrap_servers="h:1", client={name: "1"}))
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("client", "what", "evidence"),
    [
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/no.pem"},
            sentence("certificate_unusable"), "/no.pem",
        ),
        (
            {"request.timeout.ms": "many"},
            sentence("client_property_not_a_number", key="request.timeout.ms", value="many"), "",
        ),
    ],
)  # fmt: skip
def test_a_file_or_number_that_cannot_be_used_is_named(client: dict[str, str], what: str, evidence: str):
    """By the name that the user wrote, not by librdkafka's."""
    with pytest.raises(ConfigError) as caught:
        Cluster.connect(ClusterSettings(alias="a", bootstrap_servers="h:1", client=client))
    assert caught.value.what == what
    assert evidence in caught.value.evidence
    assert caught.value.hint


def test_what_does_nothing_is_noted(tmp_path):
    (tmp_path / "drkit.toml").write_text(
        '[clusters.a]\nbootstrap_servers = "a:1"\n[clusters.b]\nbootstrap_servers = "b:1"\n'
        '[[flows]]\nsource = "a"\ntarget = "b"\n'
        'source_consumer = { "isolation.level" = "read_committed", "max.poll.records" = 5 }\n'
        'target_producer = { "acks" = "all", "linger.ms" = 5, "request.timeout.ms" = 5000 }\n'
    )
    notes = read(tmp_path / "drkit.toml", {}).notes
    assert {n.at for n in notes} == {
        'flows[0].source_consumer."max.poll.records"', 'flows[0].target_producer."linger.ms"',
    }  # fmt: skip


def test_every_property_acts_is_a_setting_or_says_why_not():
    for role, name in FLOW_FIELDS:
        assert role in get_args(Role)
        assert exists(cast("Role", role), name)
        assert not idle(role, name, "1")
    for name, found in IDLE.items():
        assert not acts(name)
        assert all(not idle("producer", name, value) for value in found.agreed)
    assert idle("consumer", "group.id", "x")
    assert set(ROLES) <= set(FlowSettings.model_fields)
