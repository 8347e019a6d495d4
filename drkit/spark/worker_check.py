"""Checks that the workers of a Spark cluster can run drkit: at the start, and when workers are added."""

from __future__ import annotations

from collections.abc import Callable
import os
import platform
import threading
from typing import Final

from pyspark import SparkContext

from drkit import observe
from drkit.checkpoints.task import checkpoint_task
from drkit.copy_task.copier import copy_task
from drkit.errors import DrkitError
from drkit.spark.jobs import cause_of
from drkit.spark.shipping import SOME_WORKER
from drkit.spark.workshop import BROKEN, Task

_DRIVER: Final = "driver"
"""The id under which Spark lists the driver as an executor."""
_MOST_TASKS: Final = 1000
_PAUSES_SECONDS: Final = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Spark counts the slots of an executor before the executor takes tasks; others run the check instead."""


class NewWorkers:
    """Checks the workers again when slots are added, one check at a time.

    A worker loads drkit with its first task, which takes seconds. A task that Spark restarts there because
    another worker died must not wait for that.

    :param slots: whose workers are checked already
    :param check: runs a task in that many slots, returns whether every executor ran one; raises DrkitError
    """

    def __init__(self, slots: int, check: Callable[[int], bool]) -> None:
        self._checked, self._check = slots, check
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self, slots: int) -> None:
        """Take the present number of slots."""
        if slots < self._checked:
            self._checked = slots
        elif slots > self._checked and not (self._thread and self._thread.is_alive()):
            self._checked = slots
            self._thread = threading.Thread(target=self._run, args=(slots,), name="workers", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Report no more: Spark ends, and with it the check that runs."""
        self._ended.set()

    def _run(self, slots: int) -> None:
        try:
            for pause in _PAUSES_SECONDS:
                if self._ended.wait(pause) or self._check(slots):
                    return
        except DrkitError as problem:
            # A copy task that starts there fails with the same error, and that ends the flow.
            if not self._ended.is_set():
                observe.error(problem)


def check_workers(context: SparkContext, carry: Callable[[Task], Task], url: str, slots: int) -> bool:
    """Run one task in every free slot: it loads drkit. Returns whether every executor ran one.

    :raises DrkitError: a worker cannot run it, or Spark has ended
    """
    needed = (copy_task, checkpoint_task)

    def check(_text: str) -> str:
        return f"{platform.node()}:{os.getcwd()}" if needed else ""  # noqa: PTH109  as text

    try:
        ran = context.parallelize([str(n) for n in range(slots)], slots).map(carry(check)).collect()
        return len(set(ran)) >= len(executors(context))
    except BROKEN as error:
        cause = cause_of(error, "spark_workers_unusable", url)
        if cause.where == SOME_WORKER:
            cause.where = _failed_on(context) or SOME_WORKER
        raise cause from error


def executors(context: SparkContext) -> list[str]:
    """Host and port of each executor that lives; Spark lists this process with them."""
    found = context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001, FBT003  no public way
    listed = [found.apply(number) for number in range(found.size())]
    return [str(e.hostPort()) for e in listed if e.id() != _DRIVER]


def _failed_on(context: SparkContext) -> str:
    """Host and executor of a failed task of the first job; empty where Spark does not say it."""
    tasks = context._jsc.sc().statusStore().taskList(0, 0, _MOST_TASKS)  # noqa: SLF001  no public way
    found = [tasks.apply(number) for number in range(tasks.size())]
    failed = [task for task in found if task.status() == "FAILED"]
    return f"{failed[0].host()} executor {failed[0].executorId()}" if failed else ""
