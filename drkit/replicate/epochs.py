"""The plan of a running flow: what the next epoch does. One thread changes it, another carries it out."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
import json
import threading
import time
from typing import Any, Final

from drkit.clock import boottime, monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.copy_task.copier import copy_task
from drkit.copy_task.core.assignment import PartitionAssignment, TaskAssignment
from drkit.errors import DrkitError, Failed
from drkit.model import TopicPartition
from drkit.replicate.planner import PlacedPartition, Rates, assign
from drkit.spark.jobs import NO_TASKS, SparkJobs, cause_of
from drkit.spark.session import SharedSpark
from drkit.spark.slots import Slots


class Epochs:
    """Plans epochs: the driver's thread brings partitions, the epochs' own thread the reports.

    :param frame: everything about a task but its number and its partitions
    :param until: until when the flow's lease lets tasks write, by the clock of this machine's boot
    """

    def __init__(
        self, frame: TaskAssignment, tasks: int, rates: Rates, *, until: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._frame = frame
        self._tasks = self._most = tasks
        self._rates = rates
        self._until = until
        self._placed: dict[PartitionAssignment, int] = {}
        self._epoch = 0
        self.version = 0
        """Number of the current plan."""
        self._plan: tuple[TaskAssignment, ...] = ()
        self._held = False
        self.skips = frame.skip_producer_ids
        """Producers that every running task leaves out."""
        self._busy = False
        """Tasks of this plan or of an older one may be running."""
        self._changed = threading.Condition()

    @property
    def run_id(self) -> str:
        """The run id that a control record needs for the tasks to obey it."""
        return self._frame.run_id

    @property
    def leases(self) -> list[PartitionAssignment]:
        """The assignments of all partitions being copied."""
        return [p for lease in self._plan for p in lease.partitions]

    def reframe(self, *, skip: tuple[int, ...], bulk: tuple[int, ...]) -> bool:
        """Take the producers to leave out and the bulk ids to write with; True if running tasks must end."""
        with self._changed:
            if (skip, bulk) == (self._frame.skip_producer_ids, self._frame.bulk_producer_ids):
                return False
            self._frame = replace(self._frame, skip_producer_ids=skip, bulk_producer_ids=bulk)
            self._write()
            if not self._busy:
                self.skips = skip
            return self._busy

    def update(self, placed: Iterable[PlacedPartition]) -> bool:
        """Set the partitions to copy from now on; return whether running tasks must end first.

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
        """Stop copying these source topics; return whether running tasks must end first."""
        with self._changed:
            kept = [(p, leader) for p, leader in self._placed.items() if p.source_topic not in topics]
            return self.update(PlacedPartition(*each) for each in kept)

    def fit(self, slots: Slots) -> bool:
        """Limit the number of tasks to these slots; return whether running tasks must end first.

        A task that waits for a slot copies nothing, for as long as the others run.
        """
        with self._changed:
            before, tasks = self.version, slots.share(self._most)
            if tasks != self._tasks and not self._held:
                self._tasks = tasks
                self._write()
            return self._busy and self.version > before

    def anew(self) -> bool:
        """Restart all tasks together; return whether running tasks must end first.

        Does nothing if partitions have end offsets: then a task ends when it has reached its own.
        """
        with self._changed:
            bounded = any(p.end is not None for p in self._placed)
            if self._held or not self._busy or bounded:
                return False
            self.version += 1
            self._plan = tuple(replace(x, plan=self.version) for x in self._plan)
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
            self.skips, self._busy = self._frame.skip_producer_ids, False
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
        frame = replace(self._frame, plan=self.version + 1)
        leases = tuple(
            replace(frame, task=task, partitions=partitions)
            for task, partitions in enumerate(assign(placed, self._tasks, self._rates))
        )
        if _work(leases) != _work(self._plan):
            self._plan, self.version = leases, self.version + 1
            self._changed.notify_all()


def _work(leases: Iterable[TaskAssignment]) -> list[Any]:
    return [(x.task, x.epoch_seconds, x.partitions, x.skip_producer_ids, x.bulk_producer_ids) for x in leases]


Report = dict[str, Any]
_STOP_SECONDS: Final = 10.0
_LAST_SECONDS: Final = 1.0
_CUT_SECONDS: Final = 2.5
"""Spark kills a worker two seconds after it has cut its task."""
_LOOK_SECONDS: Final = 0.05
_PAUSE_SECONDS: Final = 3.0
"""Between two looks at the tasks; those that end together drain for different times."""
_LONGEST_PAUSE_SECONDS: Final = 48.0
_COUNT_SECONDS: Final = 0.5
_RESTART_SECONDS: Final = 15.0
"""From the loss of a task to the first look of its next attempt, on a busy cluster."""
_DIED: Final = "copy_job_died"


class EpochLoop:
    """One epoch after another in a thread of its own, until :meth:`end`, or until one fails.

    :param clusters: source and target; they travel pickled inside the task's code, never as data
    :param on_epoch: gets the reports of all tasks when the last one has ended
    """

    def __init__(
        self,
        workshop: SharedSpark,
        epochs: Epochs,
        clusters: tuple[ClusterSettings, ClusterSettings],
        flow: FlowSettings,
        on_epoch: Callable[[list[Report]], None],
    ) -> None:
        self._workshop, self._epochs, self._on_epoch, self._flow = workshop, epochs, on_epoch, flow
        self._task = _copy_function(*clusters, flow)
        self._jobs = SparkJobs(workshop, f"drkit {flow.name}", _DIED, flow.name)
        self._error: BaseException | None = None
        self._pause, self._next_look, self._was_partly_over = _PAUSE_SECONDS, float("-inf"), False
        self._tasks, self._next_count, self._restarts_until = NO_TASKS, float("-inf"), float("-inf")
        self._thread = threading.Thread(target=self._run, name=f"epochs {flow.name}", daemon=True)

    def start(self) -> None:
        """Begin the first epoch as soon as there are Spark and a plan."""
        self._thread.start()

    @property
    def is_active(self) -> bool:
        """Return whether there is, or will be, another epoch: not if Spark ended while there was no plan."""
        return self._thread.is_alive() and not self._workshop.has_ended

    @property
    def has_tasks(self) -> bool:
        """Return whether tasks run, also after the epochs: cut tasks still copy for some seconds."""
        return self._jobs.tasks.at_work > 0

    def is_partly_over(self) -> bool:
        """Return whether a task has ended for good while others run, so that nothing copies its partitions.

        Becomes True less and less often, until :meth:`_run` sees a long epoch: a fault that ends one task
        each time must not end the others each time.
        """
        now = monotonic()
        if now < self._next_look:
            return False
        self._count(now)
        is_partly_over = bool(self._tasks.ended and self._tasks.at_work)
        before, self._was_partly_over = self._was_partly_over, is_partly_over
        is_confirmed = before and is_partly_over
        if is_confirmed:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        self._next_look = now + self._pause
        return is_confirmed

    def waits_for_renewal(self) -> bool:
        """Return whether a task may be about to start again; True at most twice a second.

        Spark restarts a lost task with the lease of its first start, which is over by now. The task counts
        only a renewal that follows its first look, and the driver does not see when that is.
        """
        now = monotonic()
        return self._count(now) and now < self._restarts_until

    def _count(self, now: float) -> bool:
        """Ask Spark for the tasks, at most twice a second; False when it was asked just before."""
        if now < self._next_count:
            return False
        self._next_count = now + _COUNT_SECONDS
        before, self._tasks = self._tasks, self._jobs.tasks
        if self._tasks.failed > before.failed:
            self._restarts_until = now + _RESTART_SECONDS
        return True

    def wait(self, seconds: float) -> None:
        """Wait for the end of the last epoch, once the epochs are held."""
        self._thread.join(seconds)

    def end(self) -> None:
        """Begin no further epoch; cut the tasks that run, which is safe anywhere."""
        self._epochs.hold()
        self._jobs.cancel(_STOP_SECONDS)
        self._thread.join(_LAST_SECONDS)
        deadline = monotonic() + _CUT_SECONDS
        while self.has_tasks and monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)  # Spark reports only when asked

    def failure(self) -> DrkitError:
        """Return the error that ended the epochs."""
        if self._error is None and self._workshop.has_ended:
            return self._jobs.gone()
        if self._error is None:
            return Failed("epochs_ended", where=self._flow.name)
        if isinstance(self._error, DrkitError):
            return self._error
        return cause_of(self._error, _DIED, self._flow.name)

    def _run(self) -> None:
        try:
            while self._jobs.wait() and (leases := self._epochs.begin()):
                began = monotonic()
                reports = self._jobs.run([lease.to_json() for lease in leases], self._task)
                if monotonic() - began > 2 * _LONGEST_PAUSE_SECONDS:
                    self._pause = _PAUSE_SECONDS
                self._on_epoch([json.loads(report) for report in reports])
        except Exception as error:  # noqa: BLE001  the thread's last line of defence; `failure` returns it
            self._error = error


def _copy_function(
    source: ClusterSettings, target: ClusterSettings, flow: FlowSettings
) -> Callable[[str], str]:
    def copy(lease: str) -> str:
        return json.dumps(copy_task(TaskAssignment.from_json(lease), source, target, flow).as_dict())

    return copy
