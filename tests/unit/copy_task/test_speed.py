"""Which epochs say how fast a flow is able to copy. No clusters."""

from __future__ import annotations

from typing import Any

import pytest

from drkit.copy_task.report import faster
from drkit.flow_state.records import SpeedRecord

MIB, NOW, DAY_MS = 1 << 20, 1_700_000_000_000, 86_400_000
KNOWN = SpeedRecord(NOW - DAY_MS, 50 * MIB, 10.0)


def report(size: int, busy: float, *ages: int) -> dict[str, Any]:
    parts = [{"records": 1 if age >= 0 else 0, "age_ms": {"least": max(age, 0)}} for age in ages]
    return {"bytes": size, "busy_seconds": busy, "partitions": parts}


def test_the_tasks_of_an_epoch_copy_at_the_same_time():
    found = faster(None, [report(60 * MIB, 10.0, 5000), report(40 * MIB, 8.0, 9000, -1)], NOW)
    assert found == SpeedRecord(NOW, 100 * MIB, 10.0)
    assert found.bytes_per_second == 10 * MIB


@pytest.mark.parametrize(
    "reports",
    [
        [],
        [report(99 * MIB, 1.0, 5000, 999)],
        [report(MIB - 1, 1.0, 5000)],
        [report(9 * MIB, 0.0, 5000)],
        [{"bytes": 9 * MIB, "partitions": []}],
    ],
    ids=["no task", "one partition was in step", "too little", "no time", "of an earlier task"],
)
def test_what_says_nothing_of_the_copy_is_not_recorded(reports: list[dict[str, Any]]):
    assert faster(None, reports, NOW) is None


def test_a_slower_epoch_counts_only_when_the_fast_one_is_long_ago():
    slow = [report(40 * MIB, 10.0, 5000)]
    assert faster(KNOWN, slow, NOW) is None
    assert faster(KNOWN, slow, NOW + 30 * DAY_MS) == SpeedRecord(NOW + 30 * DAY_MS, 40 * MIB, 10.0)
    assert faster(KNOWN, [report(51 * MIB, 10.0, 5000)], NOW) is None, "hardly faster"
    assert faster(KNOWN, [report(60 * MIB, 10.0, 5000)], NOW) is not None
