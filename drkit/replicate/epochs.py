"""The plan file of a running query: what the next epoch does, changed from two threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
import threading
from typing import Any, Final

from drkit.model import TopicPartition
from drkit.replicate.lease import PartitionLease, TaskLease
from drkit.replicate.leases_source import Plan
from drkit.replicate.planner import Placed, Rates, assign

FIRST_EPOCH_SECONDS: Final = 0.0
"""The first epoch copies nothing: it connects, and takes the one slow change of epochs (Spark still loads
code then) to before the first record, where it holds up nobody."""


class Epochs:
    """Plans epochs: the driver's thread brings partitions, Spark's thread the reports.

    :param frame: everything about a task but its number and its partitions
    :param short_first: the first epoch is only there to warm up
    """

    def __init__(self, frame: TaskLease, tasks: int, file: Path, rates: Rates, *, short_first: bool) -> None:
        self._frame = frame
        self._tasks = tasks
        self._file = file
        self._rates = rates
        self._seconds = frame.epoch_seconds
        if short_first:
            self._seconds = min(FIRST_EPOCH_SECONDS, frame.epoch_seconds)
        self._placed: dict[PartitionLease, int] = {}
        self._plan = Plan(0, hold=False)
        self._skips = frame.skip_producer_ids
        self._busy = False
        """Tasks of an older plan may be at work."""
        self._lock = threading.Lock()
        self._plan.write(file)

    @property
    def version(self) -> int:
        """Number of the current plan."""
        return self._plan.version

    @property
    def run_id(self) -> str:
        """What the control record must name for the tasks to obey it."""
        return self._frame.run_id

    @property
    def leases(self) -> list[PartitionLease]:
        """What is being copied."""
        return [p for lease in self._plan.leases for p in lease.partitions]

    @property
    def skips(self) -> tuple[int, ...]:
        """Producers that every running task leaves out."""
        return self._skips

    def reframe(self, *, skip: tuple[int, ...], bulk: tuple[int, ...]) -> bool:
        """Take whom tasks leave out and with which bulk ids they write; True when running ones must end."""
        with self._lock:
            if (skip, bulk) == (self._frame.skip_producer_ids, self._frame.bulk_producer_ids):
                return False
            self._frame = replace(self._frame, skip_producer_ids=skip, bulk_producer_ids=bulk)
            if not self._busy:
                self._skips = skip
                return False
            self._write()
            return True

    def update(self, placed: Iterable[Placed]) -> bool:
        """Take what is to be copied from now on; True when running tasks must end for it.

        A source partition that only has another leader is no reason: tasks follow leaders themselves.
        """
        with self._lock:
            before, self._placed = self._placed, dict(placed)
            if before.keys() == self._placed.keys():
                return False
            self._rates.forget_all_but(TopicPartition(p.source_topic, p.partition) for p in self._placed)
            self._write()
            return bool(before)

    def epoch_ended(self, reports: Iterable[Mapping[str, Any]], *, last: bool) -> None:
        """Learn the rates, and plan the next epoch by them unless it was the last."""
        with self._lock:
            for report in reports:
                for part in report["partitions"]:
                    self._rates.learn(
                        TopicPartition(part["topic"], part["partition"]),
                        records=part["records"],
                        size=part["bytes"],
                        seconds=report["seconds"],
                    )
            self._seconds = self._frame.epoch_seconds
            # The plan that the next tasks get is written together with the frame.
            self._skips = self._frame.skip_producer_ids
            self._busy = bool(self._plan.leases)
            if last:
                self._hold()
            elif not self._plan.hold:
                self._write()

    def hold(self) -> bool:
        """Let no further epoch begin; True when tasks may be running."""
        with self._lock:
            self._hold()
            return bool(self._plan.leases)

    def _hold(self) -> None:
        self._plan = replace(self._plan, hold=True)
        self._plan.write(self._file)

    def _write(self) -> None:
        version = self._plan.version + 1
        placed = (Placed(lease, leader) for lease, leader in self._placed.items())
        leases = tuple(
            replace(self._frame, task=task, plan=version, epoch_seconds=self._seconds, partitions=partitions)
            for task, partitions in enumerate(assign(placed, self._tasks, self._rates))
        )
        if _work(leases) != _work(self._plan.leases):
            self._plan = Plan(version, hold=self._plan.hold, leases=leases)
            self._busy = self._busy or bool(leases)
            self._plan.write(self._file)


def _work(leases: Iterable[TaskLease]) -> list[Any]:
    """What tasks do, whatever the plan's number."""
    return [(x.task, x.epoch_seconds, x.partitions, x.skip_producer_ids, x.bulk_producer_ids) for x in leases]
