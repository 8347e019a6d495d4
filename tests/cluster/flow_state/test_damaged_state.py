"""Records of other types in a flow's state, on a real broker: named by who reads them, never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from drkit.config import Settings
from drkit.failover.service import FailoverService
from drkit.flow_state.creation import restore
from drkit.flow_state.lease.run_lease import FlowLease
from drkit.flow_state.records import ClustersRecord, LeaseRecord, RoleRecord
from drkit.flow_state.state import Damaged
from drkit.flow_state.topic import StateTopic
from drkit.local.cluster import LocalCluster
from drkit.status.look import StatusCollector
from tests.support.errors import coded
from tests.support.flows.produce import producer, put
from tests.support.stored import read_on, stored
from tests.support.topic_sync.topic_world import World
from tests.support.waiting import eventually


@pytest.fixture
def world(source: LocalCluster, target: LocalCluster) -> Iterator[World]:
    made = World(source, target)
    made.state.load()
    yield made
    made.state.close()


def write(world: World, key: str, value: Any) -> None:
    """Write as any principal with access to the topic could."""
    out = producer(world.target.settings)
    put(out, world.state.name, json.dumps(value).encode(), key.encode())
    assert out.flush(30) == 0


@pytest.mark.wide
@pytest.mark.parametrize("lease", [{"x": 1}, {"run_id": "r", "host": "h", "pid": "1", "renewed_ms": None}])
def test_an_invalid_lease_holds_no_run_back(world: World, lease: Any):
    write(world, LeaseRecord.key(), lease)
    with StateTopic(world.target.settings, world.source.alias) as state:
        mine = FlowLease(world.target.settings, world.flow(), state, "mine")
        mine.acquire()
        eventually(lambda: "lease" in read_on(world.state), what="the new lease")
        assert stored(world.state)["lease"]["run_id"] == "mine"
        mine.release()


@pytest.mark.wide
def test_a_topic_whose_role_is_damaged_is_left_alone_and_the_others_are_copied(world: World):
    """It may be promoted: a copy there would be written over by the old primary."""
    damaged, other = (world.create(world.source, n) for n in ("damaged", "other"))
    write(world, RoleRecord.key(damaged), {"role": "king", "term": 1, "run_id": "r", "at_ms": 1})
    world.state.load()
    found = world.sync().look()
    assert other in found.copied
    assert damaged not in found.copied
    assert f"key role/{damaged}, offset " in found.left_out[damaged]
    assert "role: one of frozen, promoted was expected" in found.left_out[damaged]
    with pytest.raises(Damaged, check=coded("state_foreign_record")) as refused:
        world.state.all(RoleRecord)
    assert refused.value.where == f"{world.state.name} on {world.target.alias}"


@pytest.mark.wide
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("producer-ids", {"current": ["x", 0], "all": [1]}),
        ("producer-ids", {"current": [1, 0], "all": {"1": 1}}),
        ("topic/orders", {"target": "orders", "source_id": "no id", "target_id": "no id"}),
        ("role/orders", {"role": "promoted", "term": "many"}),
        ("promotion", {}),
        ("fence-debt", {"run_id": "r"}),
        ("skips", {"ids": "all"}),
    ],
)
def test_status_and_failover_name_a_damaged_record(world: World, key: str, value: Any):
    world.create(world.source, "orders")
    world.sync().look()
    write(world, key, value)
    clusters = {c.alias: c.settings for c in (world.source, world.target)}
    settings = Settings(clusters=clusters, flows=(world.flow(),))
    collector = StatusCollector(settings, world.flow())
    try:
        found = collector.look()
    finally:
        collector.close()
    assert not {"source_unreachable", "target_unreachable"} & {f.code for f in found.faults}
    assert any(f"key {key}, offset " in f.text for f in found.faults), found.faults
    with FailoverService(settings, world.flow()) as desk:
        state = desk.context_outside_run().state
        with pytest.raises(Damaged, check=coded("state_foreign_record")) as refused:
            state.records.refuse_damaged()
    assert f"key {key}, offset " in refused.value.evidence


@pytest.mark.wide
def test_what_hides_a_record_of_another_type_is_named(world: World):
    world.state.put(ClustersRecord("one", "two"))
    write(world, ClustersRecord.key(), {"source": ["one"], "target": "two"})
    world.state.load()
    assert world.state.get(ClustersRecord) == ClustersRecord("one", "two")
    assert world.state.records.unreadable["flow"].endswith("source: a text was expected, not a list")
    with capture_logs():
        assert restore(world.state, "flow")
    with StateTopic(world.target.settings, world.source.alias) as other:
        other.load()
        assert not other.records.unreadable
        assert other.get(ClustersRecord) == ClustersRecord("one", "two")
