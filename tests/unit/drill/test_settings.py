"""The settings of a bubble: nothing of production gets there unless the whitelist names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
import pytest

from drkit.config import FailoverSettings, FlowSettings, Settings
from drkit.config.tables.cluster import ClusterSettings
from drkit.config.tables.drills import DrillLimits, DrillObjectives
from drkit.config.tables.fence import FenceSettings
from drkit.drill.plan import TAKEN, DrillPlan, bubble_settings, drill_folder, endpoint_file
from drkit.flow_state.names import drill_group, drill_topic

ID = "20261128t060000-1a2b3c"
PLAN = DrillPlan(
    id=ID,
    name="weekly",
    kind="bubble",
    flow="primary->standby",
    objectives=DrillObjectives(rpo_seconds=7.0),
    limits=DrillLimits(bytes_per_second=123_456),
)
# Every setting that has a default differs from it, so that what is dropped can be told from what is taken.
FLOW = {
    "source": "primary", "target": "standby", "topics": ["orders"], "topics_exclude": ["x"], "groups": ["g"],
    "groups_exclude": ["y"], "separator": "-", "naming": "prefix", "opposite_flows": ["standby"],
    "internal_topic_separator": False, "takeover_from_mm2": True, "tasks": 9, "buckets": 9,
    "epoch_seconds": 9, "lease_seconds": 9, "refresh_topics_interval_seconds": 9, "replication_factor": 2,
    "sync_topic_configs": False, "sync_topic_configs_interval_seconds": 9,
    "sync_topic_configs_delay_seconds": 9, "config_properties_exclude": ["z"],
    "use_defaults_from": "source", "sync_topic_acls_interval_seconds": 9, "guard_passive_topics": True,
    "on_source_gap": "stop", "on_source_recreated": "new_generation", "on_source_deleted": "mirror",
    "on_target_deleted": "new_generation", "on_target_not_empty": "append", "fetch_max_bytes": 9,
    "fetch_partition_max_bytes": 9, "fetch_max_wait_ms": 9, "produce_request_bytes": 9,
    "produce_in_flight": 9,
    "merge_below_bytes": 9, "merge_up_to_bytes": 9, "bulk_commit_seconds": 9, "bulk_commit_bytes": 9,
    "throttle_bytes_per_second": 9, "source_consumer": {"client.id": "a"}, "source_admin": {"client.id": "b"},
    "target_producer": {"client.id": "c"}, "target_admin": {"client.id": "d"},
    "checkpoint_interval_seconds": 9, "emit_checkpoints": False, "checkpoints_topic_replication_factor": 2,
    "offset_syncs_topic_location": "source", "offset_syncs_topic_replication_factor": 2, "offset_lag_max": 9,
    "sync_group_offsets": False, "sync_group_offsets_interval_seconds": 9,
    "on_source_group_deleted": "mirror",
    "heartbeats_interval_seconds": 9, "heartbeats_topic_replication_factor": 2, "open_transaction_seconds": 9,
}  # fmt: skip
FENCE = {
    "means": "acl", "canary": {"client.id": "canary"}, "seconds": 9, "open_transactions": "hold",
    "transaction_wait_seconds": 9, "stop_command": ["/bin/stop"], "stop_webhook": "http://stop/",
    "stop_secret": "s", "stop_ca_file": "/ca", "stop_seconds": 9, "freeze_seconds": 9,
}  # fmt: skip


SET: dict[type[BaseModel], str] = {
    Settings: "clusters flows failover",
    ClusterSettings: "alias",
    FlowSettings: """
        source topics topics_exclude groups groups_exclude naming opposite_flows tasks buckets
        sync_topic_acls throttle_bytes_per_second emit_offset_syncs follow_group_commits
        emit_heartbeats heartbeats_replication
    """,
    FailoverSettings: "rpo_seconds journal_folder fence repoint verify_seconds",
    FenceSettings: "",
}
"""By the plan, or to one value for all bubbles."""
DROPPED: dict[type[BaseModel], str] = {
    Settings: "detection watch fence_agent drills metrics",
    ClusterSettings: "",
    FlowSettings: """
        separator internal_topic_separator takeover_from_mm2 epoch_seconds lease_seconds
        refresh_topics_interval_seconds sync_topic_configs sync_topic_configs_interval_seconds
        sync_topic_configs_delay_seconds config_properties_exclude use_defaults_from
        sync_topic_acls_interval_seconds guard_passive_topics on_source_gap on_source_recreated
        on_source_deleted on_target_deleted on_target_not_empty
        fetch_max_bytes fetch_partition_max_bytes fetch_max_wait_ms
        produce_request_bytes produce_in_flight merge_below_bytes merge_up_to_bytes
        bulk_commit_seconds bulk_commit_bytes checkpoint_interval_seconds emit_checkpoints
        offset_syncs_topic_location offset_syncs_topic_replication_factor offset_lag_max
        sync_group_offsets sync_group_offsets_interval_seconds on_source_group_deleted
        heartbeats_interval_seconds heartbeats_topic_replication_factor open_transaction_seconds
    """,
    FailoverSettings: "mode drain_seconds",
    FenceSettings: "open_transactions stop_command stop_webhook stop_secret stop_ca_file stop_seconds",
}
"""At drkit's default, whatever production has: what else a new setting is has to be decided here."""


def production(folder: Path) -> Settings:
    (folder / "key").write_bytes(bytes(range(64)))
    (folder / "key").chmod(0o600)
    client = {"client.id": "me"}
    more = {"applications": {"security.protocol": "SSL"}, "own_principal": "User:drkit"}
    cluster = {"client": client, **more, "allow_everyone_if_no_acl_found": True}
    failover = {
        "rpo_seconds": 9, "drain_seconds": 9, "verify_seconds": 9, "journal_folder": str(folder / "journal"),
        "fence": FENCE, "repoint": [{"kind": "command", "command": ["/bin/repoint"]}],
    }  # fmt: skip
    return Settings.model_validate({
        "control": {"key_file": str(folder / "key")},
        "clusters": {a: {"bootstrap_servers": f"{a}:9092", **cluster} for a in ("primary", "standby")},
        "flows": [FLOW, {"source": "standby", "target": "primary"}],
        "failover": failover,
        "detection": {"phi_window": 99},
        "watch": {"observers": ["a", "b", "c"], "webhook": "http://tell/"},
        "fence_agent": {"agents": ["p-1"]},
        "drills": [{"name": "d", "kind": "bubble", "flow": "primary->standby", "cron": "0 6 * * 1"}],
        "metrics": {"port": 9404},
    })  # fmt: skip


@pytest.fixture
def both(tmp_path: Path) -> tuple[Settings, Settings]:
    found = production(tmp_path)
    return found, bubble_settings(found, found.flows[0], PLAN)


def tables(settings: Settings, source: str) -> dict[type[BaseModel], BaseModel]:
    fence, cluster = settings.failover.fence, settings.cluster(source)
    found = (settings, settings.flows[0], settings.failover, fence, cluster)
    return {type(table): table for table in found}


@pytest.mark.parametrize("table", [FlowSettings, FailoverSettings, FenceSettings, ClusterSettings, Settings])
def test_each_setting_is_classified(table: type[BaseModel]):
    named = [*TAKEN.get(table, "").split(), *SET[table].split(), *DROPPED[table].split()]
    assert sorted(named) == sorted(table.model_fields)


def by_use(
    uses: dict[type[BaseModel], str], both: tuple[Settings, Settings]
) -> Iterator[tuple[str, Any, Any, Any]]:
    """Settings of a use: name, of production, of the bubble, default."""
    ours, bubble = tables(both[0], "primary"), tables(both[1], "drkit-drill-primary")
    for table, names in uses.items():
        for name in names.split():
            default = table.model_fields[name].get_default(call_default_factory=True)
            yield name, getattr(ours[table], name), getattr(bubble[table], name), default


def test_what_is_taken_is_as_in_production(both: tuple[Settings, Settings]):
    for name, ours, bubble, default in by_use(TAKEN, both):
        assert ours != default, f"the test proves nothing about {name}"
        assert bubble == ours, name


def test_what_is_dropped_is_the_default(both: tuple[Settings, Settings]):
    for name, ours, bubble, default in by_use(DROPPED, both):
        assert ours != default or name == "mode", f"the test proves nothing about {name}"
        assert bubble == default, name


def test_what_is_set_is_not_productions(both: tuple[Settings, Settings]):
    same = {name for name, ours, bubble, _ in by_use(SET, both) if ours == bubble}
    assert not same


def test_what_a_bubble_is(both: tuple[Settings, Settings], tmp_path: Path):
    settings = both[1]
    (flow,) = settings.flows
    assert flow.name == "drkit-drill-primary->standby"
    assert settings.clusters.keys() == {"drkit-drill-primary", "standby"}
    assert [settings.cluster(a).bootstrap_servers for a in (flow.source, flow.target)] == [
        "primary:9092",
        "standby:9092",
    ]
    assert flow.copies(drill_topic(ID, "orders"))
    assert flow.group_filter.accepts(drill_group(ID, "reader"))
    for other in ("orders", drill_topic("20261128t060000-000000", "orders"), drill_topic(f"{ID}x", "orders")):
        assert not flow.copies(other)
        assert not flow.group_filter.accepts(other)
    assert (flow.naming, flow.opposite_flows, flow.emit_heartbeats, flow.sync_topic_acls) == (
        "identity", (), False, False,
    )  # fmt: skip
    fence = settings.failover.fence
    assert (fence.means, fence.stop_command, fence.stop_webhook, fence.stop_secret) == (
        "acl",
        None,
        None,
        None,
    )
    assert (settings.watch.webhook, settings.watch.observer_count) == (None, 1)
    assert flow.throttle_bytes_per_second == 123_456
    assert settings.failover.rpo_seconds == 7
    (repoint,) = settings.failover.repoint
    folder = tmp_path / "journal" / "drills" / ID
    assert drill_folder(both[0], ID) == folder
    assert (repoint.kind, repoint.path) == ("file", str(endpoint_file(both[0], ID)))
    assert endpoint_file(both[0], ID).parent == folder
    assert settings.failover.journal_folder == str(folder / "journal")


def test_nothing_is_read_again(both: tuple[Settings, Settings], tmp_path: Path):
    (tmp_path / "key").unlink()
    assert bubble_settings(both[0], both[0].flows[0], PLAN) == both[1]


def test_records_are_signed_by_the_same_key(both: tuple[Settings, Settings]):
    for ours, theirs in (("primary", "drkit-drill-primary"), ("standby", "standby")):
        assert both[1].cluster(theirs).control is both[0].cluster(ours).control is not None


def test_a_child_process_reads_the_same_settings(both: tuple[Settings, Settings]):
    """The replicator of a bubble gets them as JSON."""
    copied = Settings.model_validate_json(both[1].model_dump_json())
    assert copied == both[1]
    assert copied.cluster("standby").control is not None
