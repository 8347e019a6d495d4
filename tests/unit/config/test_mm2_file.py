from __future__ import annotations

from pathlib import Path

import pytest

from drkit.config import Loaded, load, read
from drkit.config.mm2.keys import CHOOSES_COPIES, CONNECT_KEYS, FLOW_KEYS, KeySupport
from drkit.errors import ConfigError

BOTH = """# two data centres, both directions
clusters = west, east
west.bootstrap.servers = w1:9092, w2:9092
east.bootstrap.servers = e1:9092

west->east.enabled = true
west->east.topics = orders.*, payments
east->west.enabled = true
east->west.topics = users
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mm2.properties"


def loaded(file: Path, text: str, env: dict[str, str] | None = None) -> Loaded:
    file.write_text(text)
    return read(file, env or {})


def problem(file: Path, text: str, env: dict[str, str] | None = None) -> ConfigError:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, env or {})
    assert caught.value.exit_code == 2
    return caught.value


def test_two_clusters_both_ways(file: Path):
    settings, _, origins, notes = loaded(file, BOTH)
    there, back = settings.flows
    assert (there.name, back.name) == ("west->east", "east->west")
    assert settings.cluster("west").bootstrap_servers == "w1:9092,w2:9092"
    assert there.topics == ("orders.*", "payments")
    assert (there.naming, there.naming_policy.downstream("orders")) == ("prefix", "west.orders")
    assert not back.copies("west.users")
    assert origins["flows[0].topics"] == "mm2.properties:7"
    assert origins["flows[0].naming"] == "MirrorMaker 2's default"
    assert not notes


def test_only_enabled_flows_run(file: Path):
    text = BOTH.replace("east->west.enabled = true", "east->west.enabled = false")
    assert [f.name for f in loaded(file, text).settings.flows] == ["west->east"]
    assert not loaded(file, BOTH.replace("= true", "= false")).settings.flows


def test_the_flow_wins_over_all_flows(file: Path):
    text = BOTH + "tasks.max = 3\nwest->east.tasks.max = 5\nreplication.factor = -1\ntopics.exclude = x.*\n"
    there, back = loaded(file, text).settings.flows
    assert (there.tasks, back.tasks) == (5, 3)
    assert there.replication_factor == -1
    assert back.topics_exclude == ("x.*",)


def test_identity_and_separator(file: Path):
    policy = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    assert loaded(file, BOTH + policy).settings.flows[0].naming == "identity"
    there = loaded(file, BOTH + "replication.policy.separator = _\n").settings.flows[0]
    assert there.naming_policy.downstream("orders") == "west_orders"


def test_client_properties(file: Path):
    text = BOTH + (
        "west.security.protocol = SASL_SSL\nsecurity.protocol = SSL\nwest.sasl.jaas.config = ${env:JAAS}\n"
    )
    settings = loaded(file, text, {"JAAS": "hush-7f3a"}).settings
    assert settings.cluster("west").client == {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": "hush-7f3a",
    }
    assert settings.cluster("east").client == {"security.protocol": "SSL"}
    assert "hush-7f3a" not in repr(settings)


def test_client_overrides_from_general_to_special(file: Path):
    """P23: the more special of two overrides wins."""
    text = BOTH + (
        "west->east.source.consumer.fetch.max.bytes = 5\nwest->east.consumer.fetch.max.bytes = 4\n"
        "west.consumer.fetch.max.bytes = 3\nconsumer.fetch.max.bytes = 2\n"
        "east.producer.max.request.size = 7\neast.admin.retries = 1\n"
    )
    settings, _, _, notes = loaded(file, text)
    assert [f.fetch_max_bytes for f in settings.flows] == [5, 2]
    assert settings.flows[0].produce_request_bytes == 7
    assert settings.flows[1].produce_request_bytes != 7
    assert [(n.at, n.what) for n in notes] == [("line 15: east.admin.retries", "accepted, does nothing here")]


def test_client_overrides_of_the_connection(file: Path):
    """P23: each role of a flow takes its own connection properties."""
    text = BOTH + (
        "consumer.request.timeout.ms = 1\nwest.consumer.request.timeout.ms = 2\n"
        "west->east.source.consumer.sasl.password = hush-7f3a\nwest->east.consumer.sasl.password = general\n"
        "east.producer.send.buffer.bytes = 3\nwest.admin.bootstrap.servers = w9:1\n"
        "west->east.target.admin.client.id = me\nsource.producer.acks = all\n"
    )
    settings, _, origins, notes = loaded(file, text)
    there, back = settings.flows
    assert there.source_consumer == {"request.timeout.ms": "2", "sasl.password": "hush-7f3a"}
    assert there.target_producer == {"send.buffer.bytes": "3"}
    assert (there.source_admin, there.target_admin) == ({"bootstrap.servers": "w9:1"}, {"client.id": "me"})
    assert (back.source_consumer, back.target_producer) == ({"request.timeout.ms": "1"}, {})
    assert (back.source_admin, back.target_admin) == ({}, {"bootstrap.servers": "w9:1"})
    assert origins['flows[0].source_consumer."sasl.password"'] == "mm2.properties:12"
    assert [n.at for n in notes] == ["line 17: source.producer.acks"]
    assert "hush-7f3a" not in repr(settings)


def test_what_is_absent_is_as_mm2_has_it(file: Path):
    settings, _, origins, notes = loaded(file, BOTH)
    there = settings.flows[0]
    assert (there.replication_factor, there.tasks) == (2, 1)
    assert there.sync_topic_configs
    assert there.sync_topic_acls
    assert "min\\.insync\\.replicas" in there.config_properties_exclude
    assert there.topics_exclude[0] == r"mm2.*\.internal"
    assert origins["flows[0].replication_factor"] == "MirrorMaker 2's default"
    assert not notes


def test_older_names(file: Path):
    there = loaded(file, BOTH + "topics.blacklist = x.*\nconfig.properties.blacklist = y\n").settings.flows[0]
    assert (there.topics_exclude, there.config_properties_exclude) == (("x.*",), ("y",))


def test_a_property_of_one_role_without_the_role(file: Path):
    settings, _, _, notes = loaded(
        file, BOTH + "west.fetch.max.bytes = 5\nretries = 1\nwest.client.id = me\n"
    )
    assert settings.cluster("west").client == {"client.id": "me"}
    assert settings.flows[0].fetch_max_bytes != 5
    assert [n.at for n in notes] == ["line 10: west.fetch.max.bytes", "line 11: retries"]
    assert all("A.consumer.…" in n.hint for n in notes)


@pytest.mark.parametrize("key", [k for k in FLOW_KEYS if k.field != "naming"], ids=lambda k: k.name)
def test_every_key_acts_or_is_said_not_to(file: Path, key):
    value = key.default
    file_text = (
        BOTH.replace("west->east.topics", "# ") + f"west->east.{key.name} = " + value.replace("\\", r"\\")
    )
    found = loaded(file, file_text)
    if key.effect is KeySupport.WORKS or value in key.agreed:
        assert not found.notes
    else:
        assert [(n.at, n.what) for n in found.notes] == [
            (f"line 10: west->east.{key.name}", key.effect.value)
        ]
    if key.field:
        assert found.origins[f"flows[0].{key.field}"] == "mm2.properties:10"


@pytest.mark.parametrize("key", CONNECT_KEYS)
def test_keys_of_connect_do_nothing(file: Path, key: str):
    notes = loaded(file, BOTH + f"{key} = x\n").notes
    assert [(n.what, n.hint) for n in notes] == [("accepted, does nothing here", CONNECT_KEYS[key])]


@pytest.mark.parametrize("key", CHOOSES_COPIES)
@pytest.mark.parametrize("prefix", ["", "west->east."])
def test_keys_that_change_what_is_copied_are_refused(file: Path, key: str, prefix: str):
    with pytest.raises(ConfigError, match="changes what is copied") as caught:
        loaded(file, BOTH + f"{prefix}{key} = com.example.Policy\n")
    assert f"{prefix}{key}" in str(caught.value.as_dict())


def test_the_filter_that_kafka_itself_uses_is_no_change(file: Path):
    name = "org.apache.kafka.connect.mirror.DefaultTopicFilter"
    (note,) = loaded(file, BOTH + f"topic.filter.class = {name}\n").notes
    assert note.what == "accepted, does nothing here"


@pytest.mark.parametrize(
    ("line", "what", "hint"),
    [
        ("topcs = a", "unknown setting", "'topics'"),
        ("west->east.topic.exclude = a", "unknown setting", "'topics.exclude'"),
        ("west->eastt.enabled = true", "no cluster 'eastt'", "'east'"),
        ("west -> east.enabled = true", "not a setting of a flow", "without blanks"),
        ("west->east.tasks.max = 0", "greater than 0", ""),
        ("west->east.topics = a, (", "not a regular expression", ""),
        ("replication.policy.separator = ab", "'.', '-' or '_'", ""),
        ("east.security.protcol = SSL", "neither a client property nor", "'security.protocol'"),
        ("security.protcol = SSL", "no client of Kafka's", "'security.protocol'"),
        ("east.producer.ssl.truststore.path = /t", "no such property", "'ssl.truststore"),
        (
            "east.security.protocol = SSL // needed there",
            "is not one of PLAINTEXT, SSL",
            "drkit explain security",
        ),
        ("completely.different = 1", "unknown setting", "all settings: drkit explain configuration"),
        ("replication.policy.class = com.acme.Own", "com.acme.Own cannot be used", "Identity"),
        ("east->west.enabled = yes", "true or false", ""),
        ("emit.heartbeats.enabled = yes", "true or false", ""),
        ("east.bootstrap.servers = e1", "host:port", ""),
        ("east.sasl.password = ${env:NONE}", "NONE is not set", ""),
        ("consumer.fetch.max.byte = 1", "no such property of Kafka's consumer", "'fetch.max.bytes'"),
        ("east.consumer.acks = all", "no such property of Kafka's consumer", "Kafka's producer"),
        ("west.admin.bootstrap.servers = w", "host:port", ""),
        ("west.request.timeout = 1", "neither a client property nor", "'request.timeout.ms'"),
    ],
)
def test_a_problem_is_named_with_its_line(file: Path, line: str, what: str, hint: str):
    error = problem(file, BOTH + line + "\n")
    assert error.where.startswith(f"{file}: line 10: {line.partition(' ')[0]}")
    assert what in error.what
    assert hint in error.hint


def test_no_clusters_and_a_cluster_without_servers(file: Path):
    assert "'clusters' is needed" in problem(file, "a.bootstrap.servers = h:1\n").evidence
    error = problem(file, "clusters = a\n")
    assert (error.where, error.what) == (f"{file}: a.bootstrap.servers", "this setting is needed")
    assert "line 1" in problem(file, "clusters = \\u00\n").evidence


def test_the_environment_wins_over_the_file(file: Path):
    env = {
        "DRKIT_FLOWS__WEST__EAST__TASKS": "9",
        "DRKIT_CLUSTERS__EAST__BOOTSTRAP_SERVERS": "z:1",
        "DRKIT_CLUSTERS__EAST__CLIENT__SASL_PASSWORD": "top-secret",
        "DRKIT_FAILOVER__RPO_SECONDS": "7",
    }
    settings, _, origins, _ = loaded(file, BOTH + "tasks.max = 3\n", env)
    assert [f.tasks for f in settings.flows] == [9, 3]
    assert settings.cluster("east").bootstrap_servers == "z:1"
    assert settings.cluster("east").client == {"sasl.password": "top-secret"}
    assert settings.failover.rpo_seconds == 7
    assert origins["flows[0].tasks"] == "DRKIT_FLOWS__WEST__EAST__TASKS"


@pytest.mark.parametrize(
    ("variable", "what", "hint"),
    [
        ("DRKIT_FLOW__A", "unknown table", "'flows'"),
        ("DRKIT_FLOWS__A__B__TASKS", "no such flow", "<SOURCE>__<TARGET>"),
        ("DRKIT_CLUSTERS__A__CLIENT__X", "no such cluster", "<ALIAS>"),
        ("DRKIT_FLOWS__WEST__EAST__TSKS", "unknown setting", "'tasks'"),
        ("DRKIT_FLOWS__WEST__EAST__TASKS", "greater than 0", ""),
    ],
)
def test_a_wrong_variable_is_named(file: Path, variable: str, what: str, hint: str):
    error = problem(file, BOTH, {variable: "0"})
    assert error.where == variable, "it is not in the file"
    assert what in error.what
    assert hint in error.hint


def test_the_environment_wins_over_toml_too(tmp_path: Path):
    file = tmp_path / "drkit.toml"
    file.write_text(
        '[clusters.a-1]\nbootstrap_servers = "a:1"\n[clusters.b]\nbootstrap_servers = "b:1"\n'
        '[[flows]]\nsource = "a-1"\ntarget = "b"\n'
    )
    assert load(file, {"DRKIT_FLOWS__A_1__B__TOPICS": "x, y"}).flows[0].topics == ("x", "y")
