"""Keeps Spark's workers of a standby ready to copy: forked, and connected to both clusters."""

from __future__ import annotations

from collections.abc import Callable
import threading
from typing import Final

from drkit.config import ClusterSettings, FlowSettings
from drkit.copy_task.worker_links import warm_task
from drkit.errors import DrkitError
from drkit.spark.jobs import SparkJobs
from drkit.spark.session import SharedSpark

_STARTING: Final = "Spark is starting"
_WARMING: Final = "Spark's workers start and connect"
_AGAIN_SECONDS: Final = 30.0
"""Spark ends a worker that was idle for a minute."""
_RETRY_SECONDS: Final = 5.0
_END_SECONDS: Final = 1.0
_DIED: Final = "the job that warms Spark's workers died"


class Warmth:
    """A small job again and again, in a thread of its own, from the moment at which Spark has started."""

    def __init__(
        self, workshop: SharedSpark, clusters: tuple[ClusterSettings, ClusterSettings], flow: FlowSettings
    ) -> None:
        self._tasks = [str(number) for number in range(flow.tasks)]
        self._jobs = SparkJobs(workshop, f"drkit {flow.name} warm", _DIED, flow.name)
        self._task = _task(*clusters, flow)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"warm {flow.name}", daemon=True)
        self.reason: str = _WARMING if workshop.has_started else _STARTING
        """Why copying could not begin now; empty when it could."""
        self.was_ready = False
        """A round has ended well once: Spark works."""

    def start(self) -> None:
        """Begin, as soon as there is Spark."""
        self._thread.start()

    def end(self) -> None:
        """Release the workers: wait a moment for a running round, then cut it."""
        self._ended.set()
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive():
            self._jobs.cancel(_END_SECONDS)

    def _run(self) -> None:
        if not self._wait_for_spark():
            return
        self.reason = _WARMING
        while not self._ended.is_set():
            try:
                found = [reason for reason in self._jobs.run(self._tasks, self._task) if reason]
            except DrkitError as error:
                found = [str(error)]
            self.reason = found[0] if found else ""
            self.was_ready = self.was_ready or not found
            self._ended.wait(_RETRY_SECONDS if found else _AGAIN_SECONDS)

    def _wait_for_spark(self) -> bool:
        return self._jobs.wait() and not self._ended.is_set()


def _task(source: ClusterSettings, target: ClusterSettings, flow: FlowSettings) -> Callable[[str], str]:
    def warm(_: str) -> str:
        return warm_task(source, target, flow)

    return warm
