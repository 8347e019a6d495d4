"""Settings of copied topics on real brokers: followed, repaired, left alone; a second run changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
import json
from pathlib import Path

import pytest

from drkit.catalogue import ERRORS
from drkit.cli import main as cli
from drkit.flow_state.records import ConfigsRecord, Role, RoleRecord
from drkit.local.cluster import LocalCluster
from drkit.topic_sync.sync import TopicSync
from drkit.topology.topic_plan import CreateTopic, DeleteConfig, SetConfig
from tests.support.stored import stored
from tests.support.topic_sync.topic_world import SettledSync, World

ALWAYS = 1e-6
"""Seconds between two comparisons: every look is one."""


@pytest.fixture
def world(source: LocalCluster, target: LocalCluster) -> Iterator[World]:
    made = World(source, target)
    made.state.load()
    yield made
    made.state.close()


def always(world: World, **more) -> TopicSync:
    at_once = {"sync_topic_configs_interval_seconds": ALWAYS, "sync_topic_configs_delay_seconds": 0.0}
    return world.sync(**{**at_once, **more})


def changes(sync: TopicSync) -> list[tuple[str, str, str | None]]:
    """What was changed on the target: the calls that the brokers got."""
    return [(r.what, r.setting, r.after) for c in sync.look().changes for r in c.rows()]


def test_a_second_run_issues_no_change(world: World):
    """P12: what is equal is left alone."""
    full = world.create(world.source, "orders", 2, retention_ms="86400000", cleanup_policy="compact")
    first = world.sync().look()
    assert [type(c) for c in first.changes] == [CreateTopic]

    assert world.sync().look().changes == []
    assert world.sync(effects=False).look().actions == {full: "copy"}


def test_changes_at_the_source_are_followed_also_back_to_the_default(world: World):
    """P12, P18: topic settings changed while running are followed."""
    full = world.create(world.source, "orders", retention_ms="86400000")
    sync = always(world)
    sync.look()
    world.set(world.source, full, retention_ms="90000000", segment_ms="70000")
    assert changes(sync) == [
        ("set config", "retention.ms", "90000000"),
        ("set config", "segment.ms", "70000"),
    ]
    assert world.settings(full)["retention.ms"] == "90000000"

    world.set(world.source, full, retention_ms=None, segment_ms=None)
    assert changes(sync) == [
        ("delete config", "retention.ms", "default"),
        ("delete config", "segment.ms", "default"),
    ]
    assert not world.configs(world.target, full)["retention.ms"].is_set_on_topic
    assert changes(sync) == []
    assert f"event/config_drift/{full}/-1" not in stored(world.state)


def test_drift_on_the_target_is_repaired_and_named_once(world: World):
    full = world.create(world.source, "orders", retention_ms="86400000")
    sync = always(world)
    sync.look()
    world.set(
        world.target, full,
        retention_ms="1000", message_timestamp_type="LogAppendTime", compression_type="gzip",
    )  # fmt: skip

    found = sync.look()

    # What records need comes first, and what keeps records before what might not.
    assert [(type(c), c.setting) for c in found.changes if isinstance(c, (SetConfig, DeleteConfig))] == [
        (SetConfig, "message.timestamp.type"),
        (SetConfig, "retention.ms"),
        (DeleteConfig, "compression.type"),
    ]
    assert world.event("config_drift", full)["settings"] == [
        "message.timestamp.type",
        "retention.ms",
        "compression.type",
    ]
    assert world.settings(full)["retention.ms"] == "86400000"
    assert world.settings(full)["message.timestamp.type"] == "CreateTime"
    assert sync.look().changes == []


@pytest.mark.wide
def test_settings_are_compared_when_their_interval_is_over(world: World):
    full = world.create(world.source, "orders")
    now = [100.0]
    flow = world.flow(sync_topic_configs_delay_seconds=0.0)
    sync = SettledSync(world, flow=flow, clock=lambda: now[0])
    sync.look()
    world.set(world.source, full, retention_ms="5000")
    now[0] += 59
    assert changes(sync) == []
    now[0] += 1
    assert changes(sync) == [("set config", "retention.ms", "5000")]


@pytest.mark.wide
def test_excluded_settings_stay_as_they_are_and_sync_can_be_off(world: World):
    full = world.create(world.source, "orders", retention_ms="5000")
    world.create(world.target, "orders", retention_ms="6000", segment_ms="70000")
    exclude = always(world, config_properties_exclude=(r"retention\..*", r"segment\..*"))
    exclude.look()
    assert world.settings(full)["retention.ms"] == "6000"
    assert world.settings(full)["segment.ms"] == "70000"

    assert changes(always(world, sync_topic_configs=False)) == []
    assert ("set config", "retention.ms", "5000") in changes(always(world))


@pytest.mark.wide
def test_with_defaults_from_source_they_are_set(world: World):
    full = world.create(world.source, "orders")
    always(world, use_defaults_from="source").look()
    assert world.configs(world.target, full)["segment.jitter.ms"].is_set_on_topic
    assert changes(always(world, use_defaults_from="source")) == []


def test_a_fence_on_the_source_stays_there(world: World):
    full = world.create(world.source, "orders", max_message_bytes="2000000")
    sync = always(world)
    sync.look()
    world.set(world.source, full, max_message_bytes="0")

    found = sync.look()

    assert found.changes == []
    assert found.copied[full].max_message_bytes == 2_000_000
    assert world.settings(full)["max.message.bytes"] == "2000000"
    # The value under the fence is still known for the day on which the copy is opened.
    assert stored(world.state)[ConfigsRecord.key(full)]["set"]["max.message.bytes"] == "2000000"

    new = world.create(world.source, "new", max_message_bytes="0")
    assert sync.look().copied[new].max_message_bytes > 1_000_000


def test_a_fence_on_the_target_is_not_lifted_by_the_way(world: World):
    full = world.create(world.source, "orders")
    sync = always(world)
    sync.look()
    world.set(world.target, full, max_message_bytes="0")

    fenced = ERRORS["target_topic_fenced"]
    assert sync.look().left_out[full] == f"{fenced.sentence} (max.message.bytes = 0): {fenced.hint}"
    assert world.event("topic_left_out", full)["hint"] == fenced.hint
    assert world.settings(full)["max.message.bytes"] == "0"

    world.set(world.target, full, max_message_bytes=None)
    assert full in sync.look().copied


def test_the_largest_batch_grows_but_never_shrinks_under_records_not_yet_copied(world: World):
    full = world.create(world.source, "orders", max_message_bytes="2000000")
    sync = always(world)
    sync.look()
    world.set(world.source, full, max_message_bytes="1500000")
    assert changes(sync) == []
    world.set(world.source, full, max_message_bytes="3000000")
    assert changes(sync) == [("set config", "max.message.bytes", "3000000")]
    assert sync.look().copied[full].max_message_bytes == 3_000_000


@pytest.mark.wide
@pytest.mark.parametrize("replication_factor", [None, -1])
def test_min_insync_replicas_is_kept_but_never_above_the_replicas(
    world: World, replication_factor: int | None
):
    """P27: ``min.insync.replicas`` of the source is kept, as far as the copy has replicas."""
    kept = world.create(world.source, "kept", min_insync_replicas="1")
    high = world.create(world.source, "high", min_insync_replicas="2")

    assert set(always(world, replication_factor=replication_factor).look().copied) == {kept, high}

    assert world.configs(world.target, kept)["min.insync.replicas"].is_set_on_topic
    assert world.settings(high)["min.insync.replicas"] == "1"
    event = world.event("min_insync_lowered", high)
    assert (event["source"], event["target"]) == ("2", "1")
    assert changes(always(world, replication_factor=replication_factor)) == []


def test_a_setting_that_the_target_refuses_is_named_and_stops_no_other(world: World):
    full = world.create(world.source, "orders", min_compaction_lag_ms="100", segment_ms="70000")
    world.create(world.target, "orders", max_compaction_lag_ms="50")
    sync = always(world, config_properties_exclude=(r"max\.compaction\.lag\.ms",))

    found = sync.look()

    assert full in found.copied
    assert world.settings(full)["segment.ms"] == "70000"
    event = world.event("config_refused", full)
    assert event["setting"] == "min.compaction.lag.ms"
    assert "min.compaction.lag.ms" not in found.actions[full]
    assert "INVALID_CONFIG" in event["evidence"]
    assert "config_properties_exclude" in event["hint"]


def test_a_promoted_topic_is_left_alone(world: World):
    full = world.create(world.source, "orders")
    sync = always(world)
    sync.look()
    world.state.put(RoleRecord(Role.PROMOTED, 1, "run", 0), full)
    world.set(world.target, full, message_timestamp_type="LogAppendTime")

    found = sync.look()

    assert found.changes == []
    assert found.left_out[full] == "promoted: producers own the copy"


def shown(world: World, config: Path, *more: str) -> int:
    world.settle()
    return cli.run(["config", "show", "--plan", "--config", str(config), *more])


@pytest.mark.wide
def test_config_show_plan(
    world: World,
    source: LocalCluster,
    target: LocalCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    full = world.create(world.source, "orders", 3, retention_ms="5000")
    held = world.create(world.source, "held", 2)
    world.create(world.target, "held", 1, segment_ms="70000")
    config = tmp_path / "drkit.toml"
    config.write_text(
        f'[clusters.{world.source.alias}]\nbootstrap_servers = "{source.bootstrap()}"\n'
        f'[clusters.{world.target.alias}]\nbootstrap_servers = "{target.bootstrap()}"\n[[flows]]\n'
        f'source = "{world.source.alias}"\ntarget = "{world.target.alias}"\ntopics = ["{world.tag}-.*"]\n'
        f'groups = ["{world.tag}-.*"]\n'  # other tests' groups are no part of it
    )

    assert shown(world, config, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    first = {"flow": world.flow().name, "topic": full, "what": "create topic", "setting": ""}
    told = {"from": None, "to": "3 partitions, 1 replica", "why": "not on the target yet"}
    assert rows[0] == first | told
    by_what = {(r["topic"], r["what"], r["setting"]): (r["from"], r["to"], r["why"]) for r in rows}
    assert by_what[full, "with config", "retention.ms"] == (None, "5000", "as on the source")
    assert by_what[held, "add partitions", ""] == ("1", "2", "the source has more")
    assert by_what[held, "delete config", "segment.ms"] == ("70000", "default", "inherited on the source")

    assert shown(world, config) == 0
    assert "delete config" in capsys.readouterr().out

    world.sync().look()
    assert shown(world, config, "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert shown(world, config) == 0
    assert "nothing to change" in capsys.readouterr().out
