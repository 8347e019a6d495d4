"""Groups that are not consumer groups: named with the reason wherever groups are, never left out silently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kafka.protocol.consumer import JoinGroupRequest
import pytest

from drkit.checkpoints.other_groups import LEFT_OUT, SHOWN, OtherGroup, from_state, other_groups, to_state
from drkit.config import ClusterSettings
from drkit.flow_state.records import CheckpointsRecord
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.asking import Answered
from drkit.kafka.groups.requests import Committed, Groups, ListedGroup, listed_groups
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.status.groups_look import GroupLook
from tests.support.flow_state.old_bytes import FIRST_CHECKPOINTS, RECORDS
from tests.support.flows.flow import Flow
from tests.support.flows.produce import fill
from tests.support.mm2.mm2_java import KafkaJava
from tests.support.spark.here import drkit_here
from tests.support.stored import flow_state
from tests.support.waiting import eventually

BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
FLOW = """
[[flows]]
source = "a"
target = "b"
topics = ["{name}"]
groups = ["{name}.*"]
groups_exclude = ["{name}-unwanted"]
tasks = 1
buckets = 2
emit_heartbeats = false
"""


@pytest.mark.wide
def test_whatever_is_no_consumer_group_is_named() -> None:
    # As a broker of Kafka 4.3.1 lists them: state, type, protocol type.
    listed = {
        "a-share": ListedGroup("a-share", "Empty", "share", "share"),
        "a-streams": ListedGroup("a-streams", "Stable", "streams", "streams"),
        "a-connect": ListedGroup("a-connect", "Stable", "classic", "connect"),
        "a-registry": ListedGroup("a-registry", "Stable", "classic", "sr"),
        "a-consumer": ListedGroup("a-consumer", "Stable", "consumer", "consumer"),
        "a-classic": ListedGroup("a-classic", "Stable", "classic", "consumer"),
        "a-stored": ListedGroup("a-stored", "Empty", "classic", ""),
        "b-share": ListedGroup("b-share", "Empty", "share", "share"),
    }
    found = other_groups(listed, lambda group: group.startswith("a-"))
    assert [o.group for o in found] == ["a-connect", "a-registry", "a-share", "a-streams"]
    words = [
        "Kafka Connect workers",
        "protocol type 'sr'",
        "share group (KIP-932)",
        "streams group (KIP-1071)",
    ]
    assert [word in o.reason for word, o in zip(words, found, strict=True)] == [True] * 4
    assert all("not synchronised" in o.reason for o in found)


@pytest.mark.wide
def test_a_round_keeps_some_by_name_and_counts_all() -> None:
    others = [OtherGroup(f"g{n:03}", "share") for n in range(SHOWN + 5)]
    written = CheckpointsRecord(1, verdicts={}, not_synchronised=to_state(others)).encode()
    shown, total = from_state(CheckpointsRecord.decode(written))
    assert (list(shown), total) == (others[:SHOWN], SHOWN + 5)
    for earlier in (RECORDS["checkpoints"], FIRST_CHECKPOINTS):
        assert from_state(CheckpointsRecord.decode(earlier)) == ((), 0), "a round of an earlier version"
    assert from_state(None) == ((), 0)


@pytest.fixture
def groups(java: KafkaJava, source: LocalCluster, topic_name: str) -> str:
    """A topic with records, and on it a consumer group, share groups, and a group of Connect workers."""
    at = ClusterSettings(alias="a", bootstrap_servers=source.bootstrap())
    create_topics(Cluster.connect(at), [TopicPlan(topic_name, 1, 1)])
    fill(at, topic_name, 20)
    for group in (f"{topic_name}-share", f"{topic_name}-unwanted"):
        share(java, at, group, topic_name)

    async def more(cluster: RawCluster) -> None:
        stored = {TopicPartition(topic_name, 0): Committed(7)}
        await Groups(cluster).alter({f"{topic_name}-consumer": stored, f"outside-{topic_name}": stored})
        await connect_worker(cluster, f"{topic_name}-connect")

    ask_once(at, "tests", more, what="make groups")
    return topic_name


def share(java: KafkaJava, cluster: ClusterSettings, group: str, topic: str) -> None:
    """A share group (KIP-932), as its first consumer makes it."""
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "key.deserializer": BYTES,
        "value.deserializer": BYTES,
    }
    consumer = java.jvm.org.apache.kafka.clients.consumer.KafkaShareConsumer(config)
    consumer.subscribe([topic])

    def there() -> bool:
        consumer.poll(java.seconds(1))
        return group in listed_groups(cluster)

    eventually(there, what=group)
    consumer.close()
    assert listed_groups(cluster)[group][2:] == ("share", "share")


async def connect_worker(cluster: RawCluster, group: str) -> None:
    """The first step of a Connect worker into its group."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="sessioned", metadata=b"")
    join = JoinGroupRequest(
        group_id=group, session_timeout_ms=60_000, rebalance_timeout_ms=60_000, member_id="",
        group_instance_id=None, protocol_type="connect", protocols=[protocol], max_version=3,
    )  # fmt: skip
    coordinators = Groups(cluster)._coordinators
    await coordinators.ask([group], lambda node, _: _joined(cluster, join, node, group), per_request=1)


async def _joined(cluster: RawCluster, join: Any, node: int, group: str) -> dict[str, Any]:
    answer = await cluster.send(join, node, timeout_ms=20_000)
    assert not answer.error_code, answer
    return {group: Answered(0, None)}


def drkit(config: Path, *arguments: str) -> tuple[str, str]:
    done = drkit_here(*arguments, "--config", str(config))
    assert done.returncode in {0, 1}, done.stderr  # a status names faults of a flow that does not run
    return done.stdout, done.stderr


@pytest.mark.wide
def test_other_groups_are_named_wherever_groups_are(
    groups: str, source: LocalCluster, target: LocalCluster, tmp_path: Path
) -> None:
    config = tmp_path / "drkit.toml"
    config.write_text(
        f'[clusters.a]\nbootstrap_servers = "{source.bootstrap()}"\n'
        f'[clusters.b]\nbootstrap_servers = "{target.bootstrap()}"\n{FLOW.format(name=groups)}'
    )
    named = {f"{groups}-connect": "connect", f"{groups}-share": "share"}

    planned, _ = drkit(config, "config", "show", "--plan", "--json")
    left_out = {row["setting"]: row["why"] for row in json.loads(planned) if row["what"] == "leave out group"}
    assert left_out == {g: OtherGroup(g, kind).reason for g, kind in named.items()}

    answer, said = drkit(config, "replicate", "--once", "--json")
    (flow,) = json.loads(answer)["flows"]
    assert flow["groups"]["not_synchronised"] == {"total": 2, "shown": named}
    assert flow["groups"]["positions"] == 1
    assert "groups_not_synchronised" in said

    seen, _ = drkit(config, "status", "--json")
    (flow,) = json.loads(seen)["flows"]
    expected = [OtherGroup(g, kind).as_dict() for g, kind in named.items()]
    # It reads a topic that a failover would move, and no filter of the flow names it.
    expected.append(OtherGroup(f"outside-{groups}", LEFT_OUT).as_dict())
    assert flow["checkpoints"]["not_synchronised"] == expected
    assert [g["group"] for g in flow["groups"]] == [f"{groups}-consumer"]
    text, _ = drkit(config, "status")
    assert "3 other groups not synchronised" in text
    assert all(g in text for g in named)
    assert "share group (KIP-932)" in text
    one, _ = drkit(config, "status", "--group", f"{groups}-share")
    assert "share group (KIP-932)" in one


@pytest.mark.wide
def test_without_the_source_they_are_known_from_the_last_round(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name)
    fill(flow.source, topic_name, 5)
    flow.copy(topic_name)
    ids = flow.topic(flow.source, topic_name).topic_id, flow.topic(flow.target, topic_name).topic_id
    others = (OtherGroup("shared", "share"),)
    values = {
        f"topic/{topic_name}": {"target": topic_name, "source_id": str(ids[0]), "target_id": str(ids[1])},
        "producer-ids": {"current": [flow.producer.id, 0], "all": [flow.producer.id]},
        "checkpoints": {"at_ms": 1, "ok_ms": 1, "not_synchronised": to_state(others).to_json()},
    }
    look = GroupLook((flow.source, flow.target), flow.settings)
    try:
        seen = look.look(flow_state(values), source_answers=False)
    finally:
        look.close()
    assert (seen.error, seen.others, seen.others_total) == ("", others, 1)
