"""How long a task of an epoch copies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drkit.copy_task.core.assignment import PartitionAssignment, TaskAssignment

LEASE = TaskAssignment("x->y", "run", 3, 0, 0, 7, 0, (7,), (), "map", "state", 300.0, 10.0, 1000, ())
NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("late_ms", "seconds"),
    [
        (0, 300.0),
        (400, 299.6),
        (20_000, 280.0),
        (149_000, 151.0),
        (150_000, 300.0),  # a machine's clock, not a late start
        (3_600_000, 300.0),
        (-400, 300.0),
    ],
)
def test_tasks_that_start_late_end_with_the_others(late_ms: int, seconds: float):
    assert replace(LEASE, planned_at_ms=NOW).seconds(NOW + late_ms) == pytest.approx(seconds)


def test_without_a_plan_an_epoch_has_its_length():
    assert LEASE.seconds(NOW) == 300.0
    assert replace(LEASE, epoch_seconds=0.0, planned_at_ms=NOW).seconds(NOW + 900) == 0.0


@pytest.mark.parametrize(("late", "seconds"), [(-1.0, 300.0), (40.0, 260.0), (290.0, 10.0), (500.0, 0.0)])
def test_a_task_that_spark_starts_again_on_the_driver_s_machine_ends_with_the_others(
    late: float, seconds: float
):
    """However late that is: they would wait for it."""
    lease = replace(LEASE, lease_seconds=15.0, held_until=1_010.0, held_seconds=10.0, boot_id="b")
    assert lease.seconds(NOW, "b", 1_000.0 + late) == pytest.approx(seconds)
    assert lease.seconds(NOW, "another", 1_000.0 + late) == 300.0


def test_a_lease_travels_as_json():
    part = PartitionAssignment("t", "id", "u", "id2", 1, 2, skip_from=1003, rebuilt_from=7, emptied_to=9)
    lease = replace(LEASE, partitions=(part,), bulk_producer_ids=(1, 2), planned_at_ms=NOW)
    assert TaskAssignment.from_json(lease.to_json()) == lease
