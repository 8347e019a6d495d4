"""A file of the shape Kafka's documentation shows for two clusters, in our own words."""

from __future__ import annotations

from pathlib import Path

from drkit.config import Loaded, read

TEXT = r"""
# where the clusters are
clusters = primary, secondary
primary.bootstrap.servers = p3:9092, \
                            p4:9092
secondary.bootstrap.servers = s5:9092

# one way only
primary->secondary.enabled = true
primary->secondary.topics = invoices, quux-.*
primary->secondary.topics.exclude = .*[\\-\\.]internal, .*\\.replica, __.*
secondary->primary.enabled = false
secondary->primary.topics = .*

replication.factor = 3
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
secondary.offset.storage.topic = mm2-offsets
secondary.exactly.once.source.support = enabled
dedicated.mode.enable.internal.rest = true
listeners = http://localhost:8083
sync.topic.acls.enabled = false
primary.consumer.isolation.level = read_committed
"""


def loaded(folder: Path) -> Loaded:
    file = folder / "mm2.properties"
    file.write_text(TEXT)
    return read(file, {})


def test_the_flow_is_what_the_file_says(tmp_path: Path):
    settings = loaded(tmp_path).settings
    assert settings.cluster("primary").bootstrap_servers == "p3:9092,p4:9092"
    (flow,) = settings.flows
    assert (flow.name, flow.replication_factor, flow.naming) == ("primary->secondary", 3, "prefix")
    assert flow.topics_exclude == (r".*[\-\.]internal", r".*\.replica", "__.*")
    assert flow.copies("quux-1")
    assert not flow.copies("other")
    assert not flow.copies("quux-.internal")


def test_nothing_is_passed_over_in_silence(tmp_path: Path):
    noted = {n.at.partition(": ")[2] for n in loaded(tmp_path).notes}
    assert noted == {
        "checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor",
        "offset-syncs.topic.replication.factor",
        "offset.storage.replication.factor",
        "status.storage.replication.factor",
        "config.storage.replication.factor",
        "secondary.offset.storage.topic",
        "secondary.exactly.once.source.support",
        "dedicated.mode.enable.internal.rest",
        "listeners",
        "primary.consumer.isolation.level",
    }
