"""Every example of Kafka's page on geo-replication, and its sample file, with other names and hosts.

What the page has that MirrorMaker 2 itself misreads is refused or noted here, never passed over.
"""

from __future__ import annotations

from pathlib import Path
import re
import subprocess

import pytest

from drkit.config import FlowSettings, Loaded, read
from drkit.config.mm2.keys import FLOW_KEYS
from drkit.errors import ConfigError
from drkit.local.jars import MIRROR_MAKER, classpath
from drkit.local.java import find_java
from tests.support.errors import coded

KEYS = """
import org.apache.kafka.connect.mirror.*;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
public class Keys {
    public static void main(String[] none) {
        MirrorSourceConfig.main(none);
        MirrorCheckpointConfig.main(none);
        MirrorHeartbeatConfig.main(none);
        SourceConnectorConfig.main(none);
        DistributedConfig.main(none);
    }
}
"""
TWO = "clusters = west, east\nwest.bootstrap.servers = w:1\neast.bootstrap.servers = e:1\n"
WEST_EAST = TWO + "west->east.enabled = true\n"


def loaded(folder: Path, text: str) -> Loaded:
    file = folder / "mm2.properties"
    file.write_text(text)
    return read(file, {})


def noted(found: Loaded) -> dict[str, str]:
    """Key → what is said of it."""
    return {n.at.partition(": ")[2]: n.what.removeprefix("accepted, ") for n in found.notes}


def test_the_first_example(tmp_path: Path):
    """P21: the file of a dedicated MirrorMaker 2 is taken as it is."""
    found = loaded(
        tmp_path,
        "clusters = primary, secondary\n"
        "primary.bootstrap.servers = b3:9092\nsecondary.bootstrap.servers = b5:9092\n"
        "primary->secondary.enabled = true\nprimary->secondary.topics = foobar-topic, quux-.*\n",
    )
    (flow,) = found.settings.flows
    assert (flow.name, flow.topics) == ("primary->secondary", ("foobar-topic", "quux-.*"))
    assert flow.naming_policy.downstream("quux-1") == "primary.quux-1"
    assert not found.notes


def test_comments_after_values(tmp_path: Path):
    found = loaded(
        tmp_path,
        TWO.replace("east\n", "east   # the aliases\n", 1)
        + "topics = .*   # all by default\nwest->east.enabled = true # run\n"
        "west->east.topics = a.*, b.*  # not all\n",
    )
    (flow,) = found.settings.flows
    assert flow.topics == ("a.*", "b.*")
    assert set(noted(found)) == {"clusters", "topics", "west->east.enabled", "west->east.topics"}
    assert all("a line of its own" in n.hint for n in found.notes)


def test_settings_of_connect_and_of_clients(tmp_path: Path):
    """P21: keys of Connect mode are accepted and said to do nothing."""
    found = loaded(
        tmp_path,
        WEST_EAST + "tasks.max = 5\nwest.offset.storage.topic = my-offsets\n"
        "west.consumer.isolation.level = read_committed\nwest.admin.bootstrap.servers = w57:9092\n"
        "east.producer.compression.type = gzip\neast.producer.buffer.memory = 32768\n"
        "east.admin.bootstrap.servers = e8:9092\n",
    )
    (flow,) = found.settings.flows
    assert flow.tasks == 5
    assert flow.source_consumer == {"isolation.level": "read_committed"}
    assert flow.source_admin == {"bootstrap.servers": "w57:9092"}
    assert flow.target_admin == {"bootstrap.servers": "e8:9092"}
    # Committed records are all that drkit copies: that one key asks for what happens anyway.
    assert set(noted(found)) == {
        "west.offset.storage.topic", "east.producer.compression.type", "east.producer.buffer.memory",
    }  # fmt: skip


def test_exactly_once(tmp_path: Path):
    found = loaded(
        tmp_path,
        WEST_EAST + "east.exactly.once.source.support = enabled\ndedicated.mode.enable.internal.rest = true\n"
        "listeners = http://localhost:8080\nwest.consumer.isolation.level = read_committed\n",
    )
    assert noted(found) == dict.fromkeys(
        ("east.exactly.once.source.support", "dedicated.mode.enable.internal.rest", "listeners"),
        "does nothing here",
    )


def test_settings_of_one_flow(tmp_path: Path):
    found = loaded(
        tmp_path,
        WEST_EAST
        + "topics = .*\ngroups = group1, group2\nwest->east.topics = foo.*\nwest->east.groups = bar.*\n"
        "west->east.emit.heartbeats = false\nwest->east.replication.policy.separator = _\n",
    )
    (flow,) = found.settings.flows
    assert (flow.topics, flow.groups) == (("foo.*",), ("bar.*",))
    assert flow.naming_policy.downstream("foo") == "west_foo"
    assert "emit.heartbeats.enabled" in next(n.hint for n in found.notes if "heartbeats" in n.at)


def test_tls(tmp_path: Path):
    found = loaded(
        tmp_path,
        WEST_EAST + "east.security.protocol=SSL\neast.ssl.truststore.location=/t.jks\n"
        "east.ssl.truststore.password=hush-7f3a\neast.ssl.keystore.location=/k.jks\n"
        "east.ssl.keystore.password=hush-7f3a\neast.ssl.key.password=hush-7f3a\n",
    )
    assert found.settings.cluster("east").client["ssl.keystore.location"] == "/k.jks"
    assert "hush-7f3a" not in repr(found.settings)
    assert not found.notes


def test_active_passive_and_active_active(tmp_path: Path):
    passive = loaded(tmp_path, WEST_EAST + "east->west.enabled = false\nwest->east.topics = foo.*\n")
    assert [f.name for f in passive.settings.flows] == ["west->east"]
    active = loaded(tmp_path, WEST_EAST + "east->west.enabled = true\n")
    assert [f.name for f in active.settings.flows] == ["west->east", "east->west"]
    assert not active.settings.flows[1].copies("west.foo")


def test_three_data_centres(tmp_path: Path):
    centres = [f"{place}-{n}" for place in ("west", "east", "north") for n in (1, 2)]
    inside = [(f"{p}-{a}", f"{p}-{3 - a}") for p in ("west", "east", "north") for a in (1, 2)]
    across = [
        (f"{a}-1", f"{b}-1") for a in ("west", "east", "north") for b in ("west", "east", "north") if a != b
    ]
    text = f"clusters: {', '.join(centres)}\n" + "".join(
        f"{p}.bootstrap.servers = {p}:9092\n" for p in centres
    )
    text += "".join(f"{a}->{b}.enabled  = true\n" for a, b in inside + across)
    found = loaded(tmp_path, text)
    assert len(found.settings.flows) == 12
    assert not found.notes


def test_the_sample_file(tmp_path: Path):
    inner = ["checkpoints.topic", "heartbeats.topic", "offset-syncs.topic"]
    connect = ["offset.storage", "status.storage", "config.storage"]
    found = loaded(
        tmp_path,
        "clusters = A, B\nA.bootstrap.servers = A1:9092, A2:9092\nB.bootstrap.servers = B1:9092, B2:9092\n"
        "A->B.enabled = true\nA->B.topics = .*\nB->A.enabled = true\nB->A.topics = .*\nreplication.factor=1\n"
        + "".join(f"{name}.replication.factor=1\n" for name in inner + connect)
        + "replication.policy.separator = _\nsync.topic.acls.enabled = false\n"
        "emit.heartbeats.interval.seconds = 5\n",
    )
    assert [f.replication_factor for f in found.settings.flows] == [1, 1]
    assert [f.sync_topic_acls for f in found.settings.flows] == [False, False]
    for field in ("checkpoints", "heartbeats", "offset_syncs"):
        assert [getattr(f, f"{field}_topic_replication_factor") for f in found.settings.flows] == [1, 1]
    assert {f"{name}.replication.factor" for name in connect} <= set(noted(found))
    assert not {f"{name}.replication.factor" for name in inner} & set(noted(found))


def test_offset_syncs_as_mm2_writes_them(tmp_path: Path):
    """On the source where nothing is said; in drkit.toml on the target."""
    (flow,) = loaded(tmp_path, WEST_EAST).settings.flows
    assert (flow.emit_offset_syncs, flow.offset_syncs_topic_location, flow.offset_lag_max) == (
        True, "source", 100,
    )  # fmt: skip
    said = "offset-syncs.topic.location = target\noffset.lag.max = 7\nemit.offset-syncs.enabled = false\n"
    found = loaded(tmp_path, WEST_EAST + said)
    (flow,) = found.settings.flows
    assert (flow.emit_offset_syncs, flow.offset_syncs_topic_location, flow.offset_lag_max) == (
        False, "target", 7,
    )  # fmt: skip
    assert not noted(found)
    assert FlowSettings(source="a", target="b").offset_syncs_topic_location == "target"


def test_every_key_with_the_default_of_mm2(tmp_path: Path):
    lines = [f"{k.name} = {k.default}".replace("\\", r"\\") for k in FLOW_KEYS if k.default]
    found = loaded(tmp_path, WEST_EAST + "\n".join(lines))
    (flow,) = found.settings.flows
    assert flow == loaded(tmp_path, WEST_EAST).settings.flows[0].model_copy(
        update={
            "refresh_topics_interval_seconds": 600.0,
            "sync_topic_configs_interval_seconds": 600.0,
            "sync_topic_acls_interval_seconds": 600.0,
            "checkpoint_interval_seconds": 60.0,
            "sync_group_offsets_interval_seconds": 60.0,
        }
    )
    silent = {k.name for k in FLOW_KEYS} - set(noted(found))
    acting = {k.name for k in FLOW_KEYS if k.effect.value == "works"}
    agreed = {k.name for k in FLOW_KEYS if k.default.lower() in k.agreed}
    assert silent == acting | agreed | {k.name for k in FLOW_KEYS if not k.default}


def test_the_readme_of_mirror_maker(tmp_path: Path):
    """Its examples; a switch without `.enabled` does nothing, as in MirrorMaker 2, and a note says so."""
    text = WEST_EAST.replace("true", "true     # disabled by default") + (
        "east->west.enabled = false\ntopics = .*\ngroups = group1, group2\n"
        "emit.checkpoints.interval.seconds = 10\nwest.offset.storage.topic = mm2-offsets\n"
        "west->east.topics.blacklist = not-these\nwest->east.emit.heartbeats.enabled = false\n"
        "west->east.sync.group.offsets = true\neast.exactly.once.source.support = preparing\n"
    )
    found = loaded(tmp_path, text)
    (flow,) = found.settings.flows
    assert (flow.groups, flow.topics_exclude) == (("group1", "group2"), ("not-these",))
    assert (flow.checkpoint_interval_seconds, flow.emit_heartbeats) == (10, False)
    assert not flow.sync_group_offsets
    assert "sync.group.offsets.enabled" in next(n.hint for n in found.notes if "sync.group" in n.at)


@pytest.mark.parametrize(
    ("line", "what", "hint"),
    [
        # Slips of the page: MirrorMaker 2 passes them over, and runs without them.
        ("west->ea.st.topics = foo.*", "no cluster 'ea'", "'east'"),
        ("West.bootstrap.servers = w2:1", "unknown setting", "'west.bootstrap.servers'"),
        ("west->east.enable = true", "unknown setting", "'enabled'"),
        ("east.security.protocol = SSL // if needed", "'SSL // if needed' is not one of", "explain security"),
    ],
)
def test_slips_are_named(tmp_path: Path, line: str, what: str, hint: str):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, WEST_EAST + line)
    assert what in caught.value.what
    assert hint in caught.value.hint


def test_every_key_of_kafkas_own_classes(tmp_path: Path):
    """No key that MirrorMaker 2 and its workers know is unknown here."""
    (tmp_path / "Keys.java").write_text(KEYS)
    command = [str(find_java()), "-cp", classpath(modules=MIRROR_MAKER), str(tmp_path / "Keys.java")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    keys = sorted(set(re.findall(r'<h4><a id="([^"]+)"', done.stdout)))
    assert len(keys) > 150
    unknown = [key for key in keys if (said := _refusal(tmp_path, key)) and "unknown setting" in said]
    assert unknown == []


def _refusal(folder: Path, key: str) -> str:
    """Why the file with this key is refused; the value may be of the wrong type."""
    try:
        loaded(folder, WEST_EAST + f"{key} = 1\n")
    except ConfigError as error:
        return f"{error.what} {error.evidence}"
    return ""


def test_clusters_are_needed(tmp_path: Path):
    """The page's active/passive example leaves them out."""
    with pytest.raises(ConfigError, check=coded("config_problems")) as caught:
        loaded(tmp_path, WEST_EAST.partition("\n")[2])
    assert "'clusters' is needed" in caught.value.evidence
