"""Target topics made fit for copies, on real brokers; what does not fit is named and stops no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from drkit.catalogue import ERRORS, filled
from drkit.errors import Failed, Refused
from drkit.flow_state import creation
from drkit.flow_state.creation import ensure_offset_map, ensure_state_topic
from drkit.flow_state.names import offset_map_topic, state_topic
from drkit.flow_state.records import Ends, SourceSeenRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka import topics as kafka_topics
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.signed_log import log_producer
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import (
    create_partitions,
    describe_topics,
    topic_names,
)
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.topic_sync.rules import TopicSyncResult
from drkit.topology.topic_configs import WIDEST
from tests.support.errors import coded, sentence
from tests.support.stored import stored
from tests.support.topic_sync.topic_world import World
from tests.support.waiting import eventually


@pytest.fixture
def world(source: LocalCluster, target: LocalCluster) -> Iterator[World]:
    made = World(source, target)
    made.state.load()
    yield made
    made.state.close()


def copied(found: TopicSyncResult, full: str):
    assert not found.left_out
    return found.copied[full]


def test_internal_topics_are_compacted_and_made_once(world: World):
    for _ in range(2):
        ensure_state_topic(world.target, world.flow())
        ensure_offset_map(world.target, world.flow(), world.state)
    state, offset_map = state_topic(world.source.alias), offset_map_topic(world.source.alias)
    found = describe_topics(world.target, [state, offset_map])
    assert len(found[state].leaders) == 1
    assert len(found[offset_map].leaders) == 2
    for name in found:
        assert world.settings(name)["cleanup.policy"] == "compact"
        assert world.settings(name)["unclean.leader.election.enable"] == "false"
    # Kafka compacts no segment in use: with its default a start would read a gigabyte of each bucket.
    assert world.settings(state)["segment.bytes"] == str(16 << 20)
    assert world.settings(offset_map)["segment.bytes"] == str(1 << 20)


def test_a_service_that_refuses_small_segments_gets_the_topics_without_that_setting(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    """No broker allows less than 14 bytes: the test uses such a value for what a service refuses."""
    monkeypatch.setattr(creation, "_MAP_SEGMENT", {"segment.bytes": "1"})
    ensure_offset_map(world.target, world.flow(), world.state)
    settings = world.settings(offset_map_topic(world.source.alias))
    assert settings["cleanup.policy"] == "compact"
    assert "segment.bytes" not in settings or settings["segment.bytes"] != "1"


def test_the_note_of_the_ends_of_20_000_partitions_is_taken(world: World):
    """More than a megabyte, the brokers' default limit."""
    ends = {
        TopicPartition(f"orders.of.some.region.with.a.long.name-{n:05d}", 0): Ends(10**9 + n, 10**9 + 7 * n)
        for n in range(20_000)
    }
    world.state.put(SourceSeenRecord(1, ends))
    with StateTopic(world.target.settings, world.source.alias) as again:
        again.load()
        found = again.get(SourceSeenRecord)
    assert found is not None
    assert found.ends == ends


def test_the_records_of_all_new_topics_are_written_together(world: World):
    names = {world.create(world.source, f"orders{n}") for n in range(3)}
    log, made = world.state._log, log_producer(world.target.settings)
    flushes, flush = [], made.flush

    class Counted:
        produce = staticmethod(made.produce)

        def flush(self, seconds: float) -> int:
            flushes.append(seconds)
            return flush(seconds)

    log._producer = Counted()  # type: ignore[assignment]
    found = world.sync().look()
    assert found.copied.keys() == names
    assert len(flushes) == 2  # their settings, and which topics they are
    known = stored(world.state)
    assert all(f"topic/{n}" in known and f"configs/{n}" in known for n in names)


def test_another_number_of_buckets_is_refused_with_both_numbers(world: World):
    ensure_offset_map(world.target, world.flow(), world.state)
    with pytest.raises(Failed, check=coded("map_buckets_differ")) as failed:
        ensure_offset_map(world.target, world.flow().model_copy(update={"buckets": 5}), world.state)
    assert "2 partitions, buckets = 5" in failed.value.evidence


def test_a_start_describes_the_offset_map_once(world: World, monkeypatch: pytest.MonkeyPatch):
    ensure_offset_map(world.target, world.flow(), world.state)
    described: list[list[str]] = []

    def counted(cluster: Cluster, names: Iterable[str]) -> dict[str, TopicMetadata]:
        described.append(list(names))
        return describe_topics(cluster, described[-1])

    for module in (creation, kafka_topics):
        monkeypatch.setattr(module, "describe_topics", counted)
    ensure_offset_map(world.target, world.flow(), world.state)
    assert described == [[offset_map_topic(world.source.alias)]]


def test_a_deleted_offset_map_is_never_silently_created_again(world: World):
    ensure_offset_map(world.target, world.flow(), world.state)
    name = offset_map_topic(world.source.alias)
    world.delete(world.target, name)

    with pytest.raises(Refused, check=coded("map_deleted")) as refused:
        ensure_offset_map(world.target, world.flow(), world.state)

    assert refused.value.exit_code == 3
    assert name not in topic_names(world.target)


def test_a_new_topic_is_created_like_its_source_but_takes_old_records(world: World):
    """P4: a topic is created on the target with its source's partitions and settings."""
    full = world.create(
        world.source, "orders", 3,
        cleanup_policy="compact,delete", retention_ms="86400000", max_message_bytes="3000000",
        message_timestamp_type="LogAppendTime", min_insync_replicas="1",
    )  # fmt: skip
    topic = copied(world.sync().look(), full)

    made = describe_topics(world.target, [full])[full]
    assert len(made.leaders) == 3
    assert topic.target_id == str(made.topic_id)
    assert topic.compacted
    assert topic.max_message_bytes == 3_000_000
    settings = world.settings(full)
    assert settings["cleanup.policy"] == "compact,delete"
    assert settings["retention.ms"] == "86400000"
    assert settings["max.message.bytes"] == "3000000"
    assert settings["message.timestamp.type"] == "CreateTime"
    assert settings["message.timestamp.before.max.ms"] == WIDEST
    assert settings["message.timestamp.after.max.ms"] == WIDEST
    assert settings["min.insync.replicas"] == "1"


def test_topics_and_partitions_that_come_later_are_found(world: World):
    """P17: new topics and new partitions are found by the next look."""
    sync = world.sync()
    first = world.create(world.source, "first")
    assert set(sync.look().copied) == {first}
    second = world.create(world.source, "second")
    assert not create_partitions(world.source, {first: 4})
    eventually(lambda: len(describe_topics(world.source, [first])[first].leaders) == 4)

    found = sync.look()

    assert set(found.copied) == {first, second}
    assert len(found.copied[first].source.leaders) == 4
    assert len(describe_topics(world.target, [first])[first].leaders) == 4
    assert world.event("target_grown", first)["to_partitions"] == 4


@pytest.mark.wide
def test_an_existing_target_is_made_fit_and_a_larger_one_is_named(world: World):
    full = world.create(world.source, "orders", 2, max_message_bytes="2000000")
    world.create(world.target, "orders", 3, max_message_bytes="2000", message_timestamp_type="LogAppendTime")

    topic = copied(world.sync().look(), full)

    assert topic.max_message_bytes == 2_000_000
    assert world.settings(full)["max.message.bytes"] == "2000000"
    assert world.settings(full)["message.timestamp.type"] == "CreateTime"
    assert world.event("target_has_more_partitions", full)["target_partitions"] == 3


def test_a_recreated_source_is_left_out_and_named_once(world: World):
    full, other = world.create(world.source, "orders"), world.create(world.source, "other")
    sync = world.sync()
    old = copied(sync.look(), full).source.topic_id
    world.delete(world.source, full)
    world.create(world.source, "orders")

    eventually(lambda: sync.look().left_out.get(full, "").startswith("source_recreated"))

    found = sync.look()
    assert set(found.copied) == {other}
    event = world.event("source_recreated", full)
    assert event["old_id"] == str(old)
    assert event["stopped"]
    assert sync.look().left_out[full] == found.left_out[full]
    assert world.event("source_recreated", full) == event


@pytest.mark.wide
def test_a_recreated_source_continues_in_the_same_target_as_a_new_generation(world: World):
    full = world.create(world.source, "orders")
    sync = world.sync(on_source_recreated="new_generation")
    before = copied(sync.look(), full)
    world.delete(world.source, full)
    world.create(world.source, "orders")

    after = eventually(
        lambda: (c := sync.look().copied.get(full)) and c.source.topic_id != before.source.topic_id and c
    )

    assert after.target_id == before.target_id
    assert stored(world.state)[f"topic/{full}"]["generation"] == 2


def test_a_deleted_target_is_left_out_and_named(world: World):
    full = world.create(world.source, "orders")
    world.sync().look()
    world.delete(world.target, full)

    found = world.sync().look()

    assert found.left_out[full].startswith("target_deleted")
    assert full not in topic_names(world.target)
    assert world.event("target_deleted", full)["stopped"]


def test_a_deleted_target_is_created_again_as_a_new_generation(world: World):
    full = world.create(world.source, "orders")
    before = copied(world.sync().look(), full)
    world.delete(world.target, full)

    after = copied(world.sync(on_target_deleted="new_generation").look(), full)

    assert after.target_id != before.target_id
    assert stored(world.state)[f"topic/{full}"]["generation"] == 2


def test_a_source_that_is_gone_is_named(world: World):
    full = world.create(world.source, "orders")
    sync = world.sync()
    sync.look()
    world.delete(world.source, full)

    found = sync.look()

    assert found.left_out[full].startswith("source_deleted")
    assert full in topic_names(world.target)


def test_what_the_target_cannot_hold_is_refused_and_stops_no_other(world: World):
    """P10: more replicas than the target has brokers are refused with both numbers and the setting."""
    full = world.create(world.source, "orders")
    found = world.sync(replication_factor=3).look()
    assert found.left_out[full] == (
        f"{sentence('replicas_impossible', wanted=3)} (brokers on {world.target.alias}: 1): "
        f"{filled(ERRORS['replicas_impossible'].hint, {'target_brokers': 1})}"
    )
    assert "replication_factor = 1" in world.event("topic_left_out", full)["hint"]

    assert not world.sync(replication_factor=-1).look().left_out


def test_a_dry_run_says_what_it_would_do_and_does_nothing(world: World):
    new, grown = world.create(world.source, "new", 2), world.create(world.source, "grown", 2)
    world.create(world.target, "grown", 1)

    found = world.sync(effects=False).look()

    assert found.actions[new] == "create with 2 partitions, 1 replica"
    assert found.actions[grown].startswith(
        "grow from 1 to 2 partitions; set message.timestamp.after.max.ms, "
    )
    assert new not in topic_names(world.target)
    assert len(describe_topics(world.target, [grown])[grown].leaders) == 1
    assert f"topic/{grown}" not in stored(world.state)
