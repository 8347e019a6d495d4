"""What speaks against the target, by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drkit.detect.readiness import Disk, Parity, TargetFacts, readiness

GOOD = TargetFacts(
    alive=(0, 1, 2), registered=(0, 1, 2), faults={}, parity=Parity(10.0), disks=(Disk(0, "/data", 50, 100),)
)


def codes(facts: TargetFacts) -> dict[str, bool]:
    return {f.code: f.blocks for f in readiness(facts)}


def test_a_target_that_is_ready():
    assert readiness(GOOD) == []
    assert readiness(replace(GOOD, disks=None, registered=None)) == []


@pytest.mark.parametrize(
    ("facts", "code", "blocks"),
    [
        (replace(GOOD, error="no broker answered"), "target_unreachable", True),
        (replace(GOOD, alive=(0, 1)), "brokers_down", False),
        (replace(GOOD, alive=(0,)), "brokers_down", True),
        (replace(GOOD, offline=("orders-1",)), "partitions_offline", True),
        (replace(GOOD, under_min_isr=("orders-1",)), "under_min_isr", True),
        (replace(GOOD, behind=2), "replicas_behind", False),
        (replace(GOOD, faults=None), "not_looked", True),
        (replace(GOOD, faults={"topics_left_out": "x"}), "topics_left_out", True),
        (replace(GOOD, faults={"lag_unknown": "x"}), "lag_unknown", True),
        (replace(GOOD, faults={"groups_not_ready": "x"}), "groups_not_ready", False),
        (replace(GOOD, parity=None), "parity_unknown", False),
        (replace(GOOD, parity=Parity(1.0, error="refused")), "parity_unknown", False),
        (replace(GOOD, parity=Parity(4000.0)), "parity_old", False),
        (replace(GOOD, parity=Parity(1.0, ("orders retention.ms: 1 → 2",))), "topics_differ", False),
        (replace(GOOD, parity=Parity(1.0, (), ("orders: create acl",))), "acls_differ", False),
        (replace(GOOD, disks=(Disk(1, "/d", 5, 100),)), "disk_low", False),
        (replace(GOOD, disks=(Disk(1, "/d", 1, 100),)), "disk_low", True),
    ],
)
def test_each_finding(facts: TargetFacts, code: str, *, blocks: bool):
    assert codes(facts) == {code: blocks}
    assert all(f.text and f.next for f in readiness(facts))


def test_faults_of_the_source_are_not_the_targets():
    faults = {"source_unreachable": "x", "not_running": "y", "heartbeat_stale": "z", "rpo_exceeded": "r"}
    assert codes(replace(GOOD, faults=faults)) == {}


def test_what_blocks_comes_first_and_long_lists_are_cut():
    many = tuple(f"orders-{n}" for n in range(10))
    found = readiness(replace(GOOD, behind=10, offline=many))
    assert [f.blocks for f in found] == [True, False]
    assert "orders-2 and 7 more" in found[0].text
    assert "orders-3" not in found[0].text
