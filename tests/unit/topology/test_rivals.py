"""What other replicators keep on the target shows which topics are their copies (P7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drkit.topology.rivals import FlowEntry, flow_claim, mm2_claim, mm2_source


def records(**values: Any) -> dict[bytes, bytes]:
    return {k.replace("_", "-").encode(): json.dumps(v).encode() for k, v in values.items()}


def mm2(tasks: int = 2, properties: dict[str, str] | None = None) -> dict[bytes, bytes]:
    """As a dedicated MM2 keeps it in its workers' topic of settings."""
    return records(
        connector_MirrorSourceConnector={"properties": {"topics": ".*", **(properties or {})}},
        task_MirrorSourceConnector_0={"properties": {"task.assigned.partitions": "orders-0,orders-1"}},
        task_MirrorSourceConnector_1={"properties": {"task.assigned.partitions": "us-users-0"}},
        task_MirrorSourceConnector_2={"properties": {"task.assigned.partitions": "gone-0"}},
        commit_MirrorSourceConnector={"tasks": tasks},
    )


def test_the_copies_of_another_flow():
    claim = flow_claim(
        FlowEntry("orders", "a.orders", "t"), "a", ("drkit-state.a.internal", "drkit-offset-map.a.internal")
    )
    assert "drkit-state.a.internal says: topic orders of a goes to a.orders, topic id t" in claim.evidence
    assert "drkit-offset-map.a.internal" in claim.hint


def test_what_mm2_copies_now():
    found = mm2_source(mm2())
    assert found is not None
    assert found.topics == ("orders", "us-users"), "tasks beyond the committed number are left over"
    assert found.written("A") == {"A.orders": "orders", "A.us-users": "us-users"}


@pytest.mark.parametrize(
    ("policy", "written"),
    [
        ("org.apache.kafka.connect.mirror.IdentityReplicationPolicy", {"orders"}),
        ("org.apache.kafka.connect.mirror.DefaultReplicationPolicy", {"A_orders"}),
        ("com.acme.Own", {"orders", "A_orders"}),
    ],
)
def test_the_names_it_writes(policy: str, written: set[str]):
    """``replication.policy.class`` and its separator; of an unknown class both are meant."""
    kept = mm2(1, {"replication.policy.class": policy, "replication.policy.separator": "_"})
    found = mm2_source(kept)
    assert found is not None
    assert set(found.written("A")) == written


@pytest.mark.parametrize(
    "kept",
    [
        {},
        mm2(0),
        mm2() | records(target_state_MirrorSourceConnector={"state": "PAUSED"}),
        mm2() | records(connector_MirrorSourceConnector={}),
        {b"connector-MirrorSourceConnector": b"\xff"},
    ],
    ids=["nothing", "no tasks", "paused", "no settings", "not JSON"],
)
def test_an_idle_mm2_claims_nothing(kept: dict[bytes, bytes]):
    assert mm2_source(kept) is None


def test_no_password_is_kept():
    found = mm2_source(mm2(2, {"source.cluster.sasl.jaas.config": "password=secret"}))
    assert "secret" not in repr(found)
    assert "orders of A to A.orders" in mm2_claim("A", "orders", "A.orders", ["w at h"], "A-mm2").evidence
