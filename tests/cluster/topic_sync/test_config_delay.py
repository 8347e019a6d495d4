"""Who may alter the source's topics, and has no right on the target, does not erase the standby."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.flow_state.records import ConfigsRecord, Role, RoleRecord
from drkit.kafka.topics import list_offsets
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.status.look import StatusCollector
from drkit.topic_sync.sync import TopicSync
from tests.support.flows.produce import fill
from tests.support.topic_sync.topic_world import World
from tests.support.waiting import eventually

RECORDS = 50
KEPT = "604800000"
ERASING = {
    "retention_ms": "1", "retention_bytes": "1", "segment_ms": "1", "cleanup_policy": "compact,delete",
    "delete_retention_ms": "0", "preallocate": "true", "flush_messages": "1",
}  # fmt: skip


class Standby:
    """A source topic with its copy, which holds records."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.topic = world.create(world.source, "pay", retention_ms=KEPT)
        self.sync().look()
        fill(world.target.settings, self.topic, RECORDS)

    def flow(self, **more: Any) -> FlowSettings:
        return self.world.flow(sync_topic_configs_interval_seconds=1e-6, **more)

    def sync(self, **more: Any) -> TopicSync:
        return self.world.sync(sync_topic_configs_interval_seconds=1e-6, **more)

    def start(self) -> int:
        at = TopicPartition(self.topic, 0)
        return list_offsets(self.world.target, [at], "earliest")[at]

    def own(self) -> dict[str, str | None]:
        found = self.world.configs(self.world.target, self.topic)
        others = ("message.timestamp.", "min.insync.replicas")
        return {n: v.value for n, v in found.items() if v.is_set_on_topic and not n.startswith(others)}

    def faults(self, **more: Any) -> dict[str, str]:
        world, flow = self.world, self.flow(**more)
        clusters: dict[str, ClusterSettings] = {c.alias: c.settings for c in (world.source, world.target)}
        settings = Settings(clusters=clusters, flows=(flow,))
        with closing(StatusCollector(settings, flow, groups=False)) as collector:
            return {fault.code: fault.text for fault in collector.look().faults}

    def delayed(self) -> set[str]:
        found = self.world.state.records.readable(ConfigsRecord)[self.topic].delayed
        return set(found or {})


@pytest.fixture
def standby(source: LocalCluster, target: LocalCluster) -> Iterator[Standby]:
    world = World(source, target)
    world.state.load()
    yield Standby(world)
    world.state.close()


def erased(standby: Standby, sync: TopicSync) -> Callable[[], bool]:
    def look() -> bool:
        sync.look()
        return standby.start() == RECORDS

    return look


def test_an_erasing_change_waits_and_is_named_at_once(standby: Standby):
    world, topic = standby.world, standby.topic
    world.set(world.source, topic, **ERASING)

    found = standby.sync().look()

    assert standby.own() == {"retention.ms": KEPT}
    assert topic in found.copied, "its records are copied all the same"
    waiting = {name.replace("_", ".") for name in ERASING} - {"preallocate", "flush.messages"}
    assert standby.delayed() == waiting
    told = world.event("config_delayed", topic)
    assert any(text.startswith(f"retention.ms {KEPT} → 1, followed at ") for text in told["settings"])
    assert f"set it on {world.target.alias} yourself" in told["hint"]
    planned = standby.sync(effects=False).look().delayed
    assert ("delay config", "retention.ms", KEPT, "1") in [
        (r.what, r.setting, r.before, r.after) for r in planned
    ]
    fault = standby.faults()["settings_delayed"]
    assert f"{topic}: cleanup.policy delete → compact,delete, followed at " in fault
    with pytest.raises(AssertionError, match="erased"):
        eventually(erased(standby, standby.sync()), 6, "erased")


@pytest.mark.wide
def test_a_restart_does_not_begin_the_delay_again_and_then_it_is_followed(standby: Standby):
    world, topic = standby.world, standby.topic
    sync = standby.sync(sync_topic_configs_delay_seconds=4.0)
    world.set(world.source, topic, retention_ms="1", segment_ms="1")
    sync.look()
    first = world.state.records.readable(ConfigsRecord)[topic].delayed
    assert first is not None
    assert standby.own() == {"retention.ms": KEPT}

    again = standby.sync(sync_topic_configs_delay_seconds=4.0)
    again.look()

    assert world.state.records.readable(ConfigsRecord)[topic].delayed == first
    eventually(erased(standby, again), 30, "followed")
    assert standby.own() == {"retention.ms": "1", "segment.ms": "1"}
    assert standby.delayed() == set()
    assert "settings_delayed" not in standby.faults()
    assert not [e for e in ("config_drift", "config_delay_ended") if _has(world, e, topic)]


@pytest.mark.wide
def test_a_change_that_is_taken_back_leaves_only_an_event(standby: Standby):
    world, topic = standby.world, standby.topic
    sync = standby.sync()
    world.set(world.source, topic, retention_ms="1")
    sync.look()
    world.set(world.source, topic, retention_ms=KEPT)

    assert sync.look().changes == []

    assert standby.delayed() == set()
    assert "settings_delayed" not in standby.faults()
    assert world.event("config_delay_ended", topic)["settings"] == ["retention.ms"]


@pytest.mark.wide
def test_a_person_follows_it_at_once_by_setting_it_on_the_target(standby: Standby):
    world, topic = standby.world, standby.topic
    sync = standby.sync()
    world.set(world.source, topic, retention_ms="3600000")
    sync.look()
    world.set(world.target, topic, retention_ms="3600000")

    assert sync.look().changes == []

    assert standby.delayed() == set()
    assert standby.own() == {"retention.ms": "3600000"}


@pytest.mark.wide
def test_what_keeps_more_is_followed_at_once_beside_what_waits(standby: Standby):
    world, topic = standby.world, standby.topic
    world.set(world.source, topic, retention_ms="-1", retention_bytes="5")

    sync = standby.sync()
    sync.look()

    assert standby.own() == {"retention.ms": "-1"}
    assert standby.delayed() == {"retention.bytes"}
    world.set(world.source, topic, retention_ms=None)
    sync.look()
    assert standby.delayed() == {"retention.bytes", "retention.ms"}, "the target's default is shorter"


@pytest.mark.wide
def test_a_promoted_topic_has_nothing_that_waits(standby: Standby):
    world, topic = standby.world, standby.topic
    world.set(world.source, topic, retention_ms="1")
    standby.sync().look()
    world.state.put(RoleRecord(Role.PROMOTED, 1, "run", 0), topic)
    assert "settings_delayed" not in standby.faults()


def _has(world: World, kind: str, topic: str) -> bool:
    try:
        world.event(kind, topic)
    except KeyError:
        return False
    return True
