"""For the same properties file the same topics, partitions and settings appear as with the real MM2."""

from __future__ import annotations

from pathlib import Path
from typing import Final
import uuid

import pytest

from drkit.config import ClusterSettings, FlowSettings, load
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import (
    TopicPlan,
    alter_topic_configs,
    create_partitions,
    create_topics,
    describe_topics,
    topic_configs,
    topic_names,
)
from drkit.local.cluster import LocalCluster, start_together
from drkit.topic_sync.sync import TopicSync
from drkit.topology.topic_configs import WIDEST
from tests.support.mm2.mirror_maker import mirror_maker
from tests.support.waiting import eventually

PROPERTIES: Final = """\
clusters = source, target
source.bootstrap.servers = {source}
target.bootstrap.servers = {target}
source->target.enabled = true
source->target.topics = {tag}-.*
source->target.topics.exclude = .*-unwanted
target->source.enabled = false
replication.factor = 1
refresh.topics.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
# the shared source stays clean, and nothing but topics is compared
offset-syncs.topic.location = target
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
sync.topic.acls.enabled = false
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
target.plugin.discovery = service_load
"""

TOPICS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "plain": (3, {}),
    "compacted": (
        1,
        {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "70000"},
    ),
    "kept": (2, {"retention.ms": "86400000", "retention.bytes": "99999999", "max.message.bytes": "2000000"}),
    "stamped": (
        1,
        {"message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "99999999"},
    ),
    "guarded": (
        1,
        {
            "min.insync.replicas": "2",
            "unclean.leader.election.enable": "true",
            "compression.type": "zstd",
            "leader.replication.throttled.replicas": "0:0",
        },
    ),
    "unwanted": (1, {}),
}

# Setting → drkit's value, MM2's values, and why they may differ.
ALLOWED: Final[dict[str, tuple[str, set[str | None], str]]] = {
    "message.timestamp.type": (
        "CreateTime", {None},
        "records keep their times; MM2 excludes the setting and lets the target's brokers decide",
    ),
    "message.timestamp.before.max.ms": (
        WIDEST, {None, "99999999"},
        "records older than this must still arrive; the source's value returns at the promotion",
    ),
    "message.timestamp.after.max.ms": (WIDEST, {None}, "likewise, for clocks that run ahead"),
}  # fmt: skip

Seen = dict[str, tuple[int, dict[str, str | None]]]


def seen(cluster: Cluster, tag: str) -> Seen:
    """Topics of this test with their partitions and the settings that are set on the topic itself."""
    names = [n for n in topic_names(cluster) if tag in n]
    found, configs = describe_topics(cluster, names), topic_configs(cluster, names)
    return {
        name: (len(found[name].leaders), {k: v.value for k, v in c.items() if v.is_set_on_topic})
        for name, c in configs.items()
        if name in found
    }


def differences(drkit: Seen, mm2: Seen) -> list[str]:
    """What is different and not allowed."""
    said = [f"topics: {sorted(drkit)}, MM2 {sorted(mm2)}"] if drkit.keys() != mm2.keys() else []
    for topic in drkit.keys() & mm2.keys():
        (count, configs), (mm2_count, mm2_configs) = drkit[topic], mm2[topic]
        if count != mm2_count:
            said.append(f"{topic}: {count} partitions, MM2 {mm2_count}")
        for name in sorted(configs.keys() | mm2_configs.keys()):
            here, there = configs.get(name), mm2_configs.get(name)
            value, may_be, _why = ALLOWED.get(name, (None, set(), ""))
            if here != there and (here != value or there not in may_be):
                said.append(f"{topic}: {name} = {here}, MM2 {there}")
    return said


def prepared(source: Cluster, tag: str) -> None:
    plans = [TopicPlan(f"{tag}-{name}", n, 1, configs) for name, (n, configs) in TOPICS.items()]
    assert not create_topics(source, plans)
    eventually(lambda: len(seen(source, tag)) == len(plans))


def changed(source: Cluster, tag: str) -> None:
    assert not create_partitions(source, {f"{tag}-plain": 4})
    assert not alter_topic_configs(
        source,
        {
            f"{tag}-kept": {
                "retention.ms": "3600000",
                "retention.bytes": None,
                "max.message.bytes": "3000000",
            },
            f"{tag}-compacted": {"cleanup.policy": "compact,delete", "segment.ms": None},
        },
    )
    assert not create_topics(source, [TopicPlan(f"{tag}-later", 2, 1, {"flush.ms": "1000"})])


def same(sync: TopicSync, drkit_target: Cluster, mm2_target: Cluster, tag: str, *, topics: int) -> None:
    """Wait until both have followed the source; fail with the differences."""

    def agreed() -> bool:
        sync.look()
        drkit, mm2 = seen(drkit_target, tag), seen(mm2_target, tag)
        last[:] = differences(drkit, mm2)
        return len(mm2) == topics and not last

    last: list[str] = []
    try:
        eventually(agreed, seconds=40)
    except AssertionError as error:
        raise AssertionError("\n".join(last)) from error


@pytest.mark.wide
def test_the_comparison_sees_what_it_must():
    same_topic: Seen = {"t": (1, {"retention.ms": "5", "message.timestamp.type": "CreateTime"})}
    assert differences(same_topic, {"t": (1, {"retention.ms": "5"})}) == []
    others: list[Seen] = [
        {},
        {"t": (2, {"retention.ms": "5"})},
        {"t": (1, {"retention.ms": "6"})},
        {"t": (1, {})},
    ]
    for other in others:
        assert len(differences(same_topic, other)) == 1
    assert differences({"t": (1, {"message.timestamp.type": "LogAppendTime"})}, {"t": (1, {})})


@pytest.mark.wide
def test_topics_partitions_and_settings_are_those_of_mm2(
    source: LocalCluster, cluster_factory, tmp_path: Path
):
    """P4, P21: the same properties file gives the topics, partitions and settings of MirrorMaker 2."""
    tag = uuid.uuid4().hex[:8]
    beside, own = (cluster_factory(name, start=False) for name in ("mm2", "drkit"))
    start_together(beside, own)
    files = []
    for target in (beside, own):  # the address of the target is all that differs
        files.append(tmp_path / f"{target.spec.name}.properties")
        files[-1].write_text(PROPERTIES.format(source=source.bootstrap(), target=target.bootstrap(), tag=tag))
    settings = load(files[1])
    (flow,) = settings.flows
    assert isinstance(flow, FlowSettings)
    flow = flow.model_copy(update={"sync_topic_configs_delay_seconds": 0.0})  # MirrorMaker 2 has no delay
    src, drkit_target = (
        Cluster.connect(settings.cluster("source")),
        Cluster.connect(settings.cluster("target")),
    )
    mm2_target = Cluster.connect(ClusterSettings(alias="mm2", bootstrap_servers=beside.bootstrap()))
    prepared(src, tag)
    ensure_state_topic(drkit_target, flow)
    with mirror_maker(files[0]), StateTopic(drkit_target.settings, "source") as state:
        state.load()
        sync = TopicSync(src, drkit_target, flow, state)
        same(sync, drkit_target, mm2_target, tag, topics=5)
        assert set(seen(drkit_target, tag)) == {
            f"source.{tag}-{name}" for name in TOPICS if name != "unwanted"
        }

        changed(src, tag)
        eventually(lambda: f"{tag}-later" in topic_names(src))
        same(sync, drkit_target, mm2_target, tag, topics=6)
        partitions, configs = seen(mm2_target, tag)[f"source.{tag}-kept"]
        assert (partitions, configs["retention.ms"]) == (2, "3600000")
        assert sync.look().changes == []
