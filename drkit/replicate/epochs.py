"""The plan of a running flow: what the next epoch does. One thread changes it, another carries it out."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
import threading
from typing import Any

from drkit.clock import boottime, wall_ms
from drkit.copy_task.core.assignment import PartitionAssignment, TaskAssignment
from drkit.model import TopicPartition
from drkit.replicate.planner import PlacedPartition, Rates, assign
from drkit.spark.slots import Slots


class Epochs:
    """Plans epochs: the driver's thread brings partitions, the epochs' own thread the reports.

    :param frame: everything about a task but its number and its partitions
    :param until: until when the flow's lease lets tasks write, by the clock of this machine's boot
    """

    def __init__(
        self,
        frame: TaskAssignment,
        tasks: int,
        rates: Rates,
        *,
        until: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._frame = frame
        self._tasks = self._most = tasks
        self._rates = rates
        self._until = until
        self._placed: dict[PartitionAssignment, int] = {}
        self._version = self._epoch = 0
        self._plan: tuple[TaskAssignment, ...] = ()
        self._held = False
        self._skips = frame.skip_producer_ids
        self._busy = False
        """Tasks of this plan or of an older one may be running."""
        self._changed = threading.Condition()

    @property
    def version(self) -> int:
        """Number of the current plan."""
        return self._version

    @property
    def run_id(self) -> str:
        """What the control record must name for the tasks to obey it."""
        return self._frame.run_id

    @property
    def leases(self) -> list[PartitionAssignment]:
        """What is being copied."""
        return [p for lease in self._plan for p in lease.partitions]

    @property
    def skips(self) -> tuple[int, ...]:
        """Producers that every running task leaves out."""
        return self._skips

    def reframe(self, *, skip: tuple[int, ...], bulk: tuple[int, ...]) -> bool:
        """Take the producers to leave out and the bulk ids to write with; True if running tasks must end."""
        with self._changed:
            if (skip, bulk) == (self._frame.skip_producer_ids, self._frame.bulk_producer_ids):
                return False
            self._frame = replace(self._frame, skip_producer_ids=skip, bulk_producer_ids=bulk)
            self._write()
            if not self._busy:
                self._skips = skip
            return self._busy

    def update(self, placed: Iterable[PlacedPartition]) -> bool:
        """Take the partitions to copy from now on; True when running tasks must end for it.

        A source partition that only has another leader is no reason: tasks follow leaders themselves.
        """
        with self._changed:
            before, self._placed = self._placed, dict(placed)
            if before.keys() == self._placed.keys():
                return False
            self._rates.forget_all_but(TopicPartition(p.source_topic, p.partition) for p in self._placed)
            self._write()
            return bool(before)

    def leave(self, topics: Container[str]) -> bool:
        """Copy these source topics no more; True when running tasks must end for it."""
        with self._changed:
            kept = [(p, leader) for p, leader in self._placed.items() if p.source_topic not in topics]
            return self.update(PlacedPartition(*each) for each in kept)

    def fit(self, slots: Slots) -> bool:
        """Plan no more tasks than those slots take; True when running ones must end for it.

        A task that waits for a slot copies nothing, for as long as the others run.
        """
        with self._changed:
            before, tasks = self._version, slots.share(self._most)
            if tasks != self._tasks and not self._held:
                self._tasks = tasks
                self._write()
            return self._busy and self._version > before

    def anew(self) -> bool:
        """Let all tasks end and begin together; True when they must end for it.

        Not where partitions have ends: there a task ends when it has reached those of its own.
        """
        with self._changed:
            bounded = any(p.end is not None for p in self._placed)
            if self._held or not self._busy or bounded:
                return False
            self._version += 1
            self._plan = tuple(replace(x, plan=self._version) for x in self._plan)
            return True

    def begin(self) -> tuple[TaskAssignment, ...]:
        """Wait until there is something to copy; the leases of the next epoch, none once it is held."""
        with self._changed:
            self._changed.wait_for(lambda: self._held or self._plan)
            if self._held:
                return ()
            self._epoch, self._busy = self._epoch + 1, True
            until = self._until()
            now: dict[str, Any] = {
                "planned_at_ms": wall_ms(),
                "held_until": until,
                "held_seconds": until - boottime(),
            }
            return tuple(replace(x, epoch=self._epoch, **now) for x in self._plan)

    def epoch_ended(self, reports: Iterable[Mapping[str, Any]], *, last: bool) -> None:
        """Learn the rates, and plan the next epoch by them unless it was the last."""
        with self._changed:
            for report in reports:
                for part in report["partitions"]:
                    self._rates.learn(
                        TopicPartition(part["topic"], part["partition"]),
                        records=part["records"],
                        size=part["bytes"],
                        seconds=report["seconds"],
                    )
            # The plan that the next tasks get is written together with the frame.
            self._skips, self._busy = self._frame.skip_producer_ids, False
            if last:
                self._hold()
            elif not self._held:
                self._write()

    def hold(self) -> bool:
        """Let no further epoch begin; True when tasks may run, also ones that Spark lost sight of."""
        with self._changed:
            self._hold()
            return self._epoch > 0

    def _hold(self) -> None:
        self._held = True
        self._changed.notify_all()

    def _write(self) -> None:
        placed = (PlacedPartition(lease, leader) for lease, leader in self._placed.items())
        frame = replace(self._frame, plan=self._version + 1)
        leases = tuple(
            replace(frame, task=task, partitions=partitions)
            for task, partitions in enumerate(assign(placed, self._tasks, self._rates))
        )
        if _work(leases) != _work(self._plan):
            self._plan, self._version = leases, self._version + 1
            self._changed.notify_all()


def _work(leases: Iterable[TaskAssignment]) -> list[Any]:
    """What tasks do, whatever the plan's number."""
    return [(x.task, x.epoch_seconds, x.partitions, x.skip_producer_ids, x.bulk_producer_ids) for x in leases]
