"""Slots that come and go, without a Spark: what is planned, when, and what is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
import threading

import pytest

from drkit import observe
from drkit.copy_task.core.assignment import PartitionAssignment, TaskAssignment
from drkit.errors import ConfigError
from drkit.replicate.epochs import Epochs
from drkit.replicate.planner import PlacedPartition, Rates
from drkit.spark.cluster import NewWorkers, SlotWatch
from drkit.spark.slots import UNLIMITED, Slots, SteadySlots
from drkit.spark.workshop import SharedSpark
from tests.support.errors import sentence
from tests.support.waiting import eventually

FRAME = TaskAssignment("a->b", "run", 0, 0, 0, 7, 0, (7,), (), "map", "state", 5.0, 1.0, 1000, ())
PLACED = [
    PlacedPartition(PartitionAssignment("t", "id", "t", "id", number, number), 0) for number in range(6)
]


@pytest.mark.parametrize(
    ("now", "tasks", "planned"), [(5, 4, 4), (9, 4, 4), (4, 4, 3), (2, 4, 1), (1, 4, 1), (0, 4, 1), (4, 1, 1)]
)
def test_a_flow_plans_its_part_of_the_slots(now: int, tasks: int, planned: int):
    """Of five that are needed the fifth is for checkpoints."""
    assert Slots(now, 5).share(tasks) == planned
    assert UNLIMITED.share(tasks) == tasks


def test_all_flows_together_fit_where_each_has_a_slot():
    for now in range(2, 12):
        assert sum(Slots(now, 12).share(tasks) for tasks in (8, 2)) <= max(now, 2)


def test_a_worker_that_comes_and_goes_changes_nothing():
    steady = SteadySlots(Slots(4, 4))
    looks = [(2, 0.0), (4, 0.5), (2, 1.0), (2, 1.9), (4, 2.1)]
    assert not any(steady.look(now, at) for now, at in looks)
    assert not steady.look(2, 3.0)
    assert steady.look(2, 4.0)
    assert steady.slots == Slots(2, 4)
    assert [steady.look(4, at) for at in (5.0, 9.9, 10.0)] == [False, False, True]
    assert not steady.slots.missing


def test_running_tasks_end_when_slots_are_lost_and_when_they_are_back():
    epochs = Epochs(FRAME, 3, Rates())
    epochs.update(PLACED)
    assert len(epochs.begin()) == 3
    version = epochs.version
    assert not epochs.fit(Slots(4, 4)), "nothing has changed"
    assert epochs.fit(Slots(1, 4))
    assert epochs.version > version
    epochs.epoch_ended([], last=False)
    (lease,) = epochs.begin()
    assert len(lease.partitions) == len(PLACED)
    assert epochs.fit(Slots(4, 4))
    epochs.epoch_ended([], last=False)
    assert not epochs.fit(Slots(2, 4)), "no task runs that would have to end"
    assert len(epochs.begin()) == 1


def test_running_tasks_end_and_start_again_with_the_same_work():
    epochs = Epochs(FRAME, 3, Rates())
    epochs.update(PLACED)
    assert not epochs.anew(), "no task runs that would have to end"
    before = epochs.begin()
    assert epochs.anew()
    assert epochs.version > before[0].plan
    epochs.epoch_ended([], last=False)
    after = epochs.begin()
    assert {x.plan for x in after} == {epochs.version}
    assert [x.partitions for x in after] == [x.partitions for x in before]


def test_a_task_that_has_reached_its_ends_ends_no_other():
    epochs = Epochs(FRAME, 3, Rates())
    epochs.update([p._replace(lease=replace(p.lease, end=7)) for p in PLACED])
    epochs.begin()
    assert not epochs.anew()


def test_missing_slots_are_an_event_and_a_fault_until_they_are_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    observe.setup("json", "info")
    workshop, now = SharedSpark(tmp_path), 3
    watch = SlotWatch(workshop, Slots(3, 3), lambda: now, NewWorkers(3, lambda _slots: True))
    assert not workshop.faults()
    now = 1
    for seconds in (1.0, 2.0, 3.0):
        watch.look(seconds)
    assert workshop.slots == Slots(1, 3)
    (fault,) = workshop.faults()
    assert fault == ("spark_slots_missing", "Spark has 1 of 3 slots: fewer tasks copy at once")
    now = 3
    for seconds in (4.0, 9.0):
        watch.look(seconds)
    assert not workshop.faults()
    said = capsys.readouterr().err
    assert said.count("spark_slots_missing") == said.count("spark_slots_back") == 1


def test_slots_that_are_missing_from_the_start_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    observe.setup("json", "info")
    workshop = SharedSpark(tmp_path)
    SlotWatch(workshop, Slots(1, 3), lambda: 1, NewWorkers(1, lambda _slots: True))
    assert workshop.faults()
    assert "spark_slots_missing" in capsys.readouterr().err


def test_workers_are_checked_when_slots_are_added_and_not_when_they_go():
    checked, done = list[int](), threading.Event()

    def check(slots: int) -> bool:
        checked.append(slots)
        done.set()
        return True

    workers = NewWorkers(4, check)
    for slots in (4, 2, 2):
        workers.look(slots)
    assert not checked
    workers.look(4)
    assert done.wait(10)
    workers.look(4)
    assert checked == [4]


def test_slots_that_come_while_workers_are_checked_are_checked_after_that():
    checked, begun, goes_on = list[int](), threading.Semaphore(0), threading.Event()

    def check(slots: int) -> bool:
        checked.append(slots)
        begun.release()
        return goes_on.wait(10)

    workers = NewWorkers(1, check)
    workers.look(2)
    assert begun.acquire(timeout=10)
    workers.look(4)
    assert checked == [2]
    goes_on.set()

    def has_checked_again() -> bool:
        workers.look(4)
        return len(checked) > 1

    eventually(has_checked_again, what="the second check")
    assert checked == [2, 4]


@pytest.mark.parametrize("ended", [False, True])
def test_a_new_worker_that_cannot_run_drkit_is_reported_while_spark_runs(
    ended: object, capsys: pytest.CaptureFixture[str]
):
    observe.setup("json", "info")

    def check(_slots: int) -> bool:
        if ended:
            workers.end()
        raise ConfigError("worker_lacks_packages", where="w1", hint="")

    workers = NewWorkers(1, check)
    workers.look(2)
    eventually(lambda: not any(t.name == "workers" for t in threading.enumerate()), what="its end")
    assert (sentence("worker_lacks_packages") in capsys.readouterr().err) is not ended


def test_a_check_that_an_executor_missed_is_run_again():
    """Spark counts its slots before it takes tasks."""
    answers, done = iter((False, False, True)), threading.Event()

    def check(_slots: int) -> bool:
        ran_on_all = next(answers)
        if ran_on_all:
            done.set()
        return ran_on_all

    NewWorkers(0, check).look(2)
    assert done.wait(10)
