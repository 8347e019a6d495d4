"""Target topics that hold records before drkit copies into them: left out and named, or explained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from tests.support.errors import sentence
from tests.support.flows.produce import producer, put
from tests.support.topic_sync.topic_world import World

FIRST_MS = 1_700_000_000_000
"""So old that brokers remove such records within seconds from topics that do not keep them for ever."""
KEPT: Final[dict[str, Any]] = {"retention_ms": "-1"}


@pytest.fixture
def world(source: LocalCluster, target: LocalCluster) -> Iterator[World]:
    made = World(source, target)
    made.state.load()
    yield made
    made.state.close()


def write(cluster: Cluster, topic: str, records: int, partition: int = 0) -> None:
    out = producer(cluster.settings)
    for number in range(records):
        put(out, topic, b"v%d" % number, partition=partition, timestamp=FIRST_MS + number)
    assert out.flush(30) == 0


def filled(world: World, name: str, records: int = 5) -> str:
    """A topic on both clusters whose copy holds records of another writer."""
    full = world.create(world.source, name, 2)
    world.create(world.target, name, 2, **KEPT)
    write(world.target, full, records, partition=1)
    return full


def test_a_copy_with_records_of_another_writer_is_left_out_and_others_are_copied(world: World) -> None:
    full, other = filled(world, "orders"), world.create(world.source, "payments")
    retention = world.configs(world.target, full)["retention.ms"].value
    world.set(world.source, full, retention_ms="86400000")
    sync = world.sync()
    for _ in range(2):
        found = sync.look()
        assert found.copied.keys() == {other}
        reason = found.left_out[full]
        assert sentence("foreign_records_in_copy") in reason
        assert "up to 5 records in 1 of 2 partitions, the earliest of 2023-11-14T22:13:20Z" in reason
        assert "takeover_from_mm2 = true" in reason
        assert 'on_target_not_empty = "append"' in reason
    assert world.settings(full)["retention.ms"] == retention, "a topic that is left out is not changed"
    event = world.event("topic_left_out", full)
    assert event["evidence"].startswith("up to 5 records")
    assert full in world.sync(effects=False).look().left_out, "a dry run says so, too"


def test_appending_is_an_explicit_setting_and_is_asked_once(world: World) -> None:
    full = filled(world, "orders")
    assert full in world.sync(on_target_not_empty="append").look().copied
    # From here on drkit knows the topic: what it has copied itself is no reason to leave it out.
    assert full in world.sync().look().copied


def test_a_refused_copy_that_is_deleted_is_copied_again(world: World) -> None:
    full = filled(world, "orders")
    sync = world.sync()
    assert full in sync.look().left_out
    world.delete(world.target, full)
    found = sync.look()
    assert not found.left_out
    assert full in found.copied


def test_an_empty_copy_and_one_that_was_emptied_are_copied(world: World) -> None:
    empty = world.create(world.source, "empty")
    world.create(world.target, "empty")
    assert empty in world.sync().look().copied


def test_records_that_come_once_drkit_copies_are_named_and_not_fatal(world: World) -> None:
    """Decision 5 stays for what is written later."""
    full = world.create(world.source, "orders", **KEPT)
    sync = world.sync()
    assert full in sync.look().copied
    write(world.target, full, 3)
    assert full in sync.look().copied
    assert full in world.sync().look().copied


@pytest.mark.parametrize("policy", ["new_generation"])
def test_a_new_generation_appends_after_the_old_one(world: World, policy: str) -> None:
    full = world.create(world.source, "orders", **KEPT)
    assert full in world.sync(on_source_recreated=policy).look().copied
    write(world.target, full, 3)
    world.delete(world.source, full)
    world.create(world.source, "orders", **KEPT)
    assert full in world.sync(on_source_recreated=policy).look().copied


def test_a_flow_in_the_other_direction_explains_the_records(world: World) -> None:
    full = filled(world, "orders")
    assert full in world.sync().look().left_out
    assert full in world.sync(explained=True).look().copied
