"""Runs a flow's epochs, one Spark job each: leases → copy → reports back to the driver."""

from __future__ import annotations

from collections.abc import Callable
import json
import threading
import time
from typing import Any, Final

from drkit.clock import monotonic
from drkit.config import ClusterSettings, FlowSettings
from drkit.copy_task.copier import copy_task
from drkit.copy_task.core.assignment import TaskAssignment
from drkit.errors import DrkitError, Failed
from drkit.replicate.epochs import Epochs
from drkit.spark.jobs import NO_TASKS, SparkJobs, cause_of
from drkit.spark.session import SharedSpark

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
        """Whether there is, or will be, another epoch: not when Spark has ended while there was no plan."""
        return self._thread.is_alive() and not self._workshop.has_ended

    @property
    def has_tasks(self) -> bool:
        """Whether tasks run, also when the epochs have ended: cut tasks still copy for some seconds."""
        return self._jobs.tasks.at_work > 0

    def is_partly_over(self) -> bool:
        """Whether a task has ended for good while others work on: nothing copies its partitions.

        Becomes True less and less often, until :meth:`_run` sees a long epoch: a fault that ends one task
        each time must not end the others each time.
        """
        now = monotonic()
        if now < self._next_look:
            return False
        self._count(now)
        is_partly_over = bool(self._tasks.ended and self._tasks.at_work)
        before, self._was_partly_over = self._was_partly_over, is_partly_over
        found = before and is_partly_over
        if found:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        self._next_look = now + self._pause
        return found

    def waits_for_renewal(self) -> bool:
        """Whether a task may be about to start again; True at most twice a second.

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
        """Why the epochs ended by themselves."""
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
        except Exception as error:  # noqa: BLE001  the thread's last line of defence; `failure` tells it
            self._error = error


def _copy_function(
    source: ClusterSettings, target: ClusterSettings, flow: FlowSettings
) -> Callable[[str], str]:
    def copy(lease: str) -> str:
        return json.dumps(copy_task(TaskAssignment.from_json(lease), source, target, flow).as_dict())

    return copy
