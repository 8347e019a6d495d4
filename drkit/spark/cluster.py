"""A cluster of Spark's: the slots that it gives, and whether its workers can run drkit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
import os
import platform
import threading
from typing import Any, Final

from pyspark import SparkContext

from drkit import observe
from drkit.background import Background
from drkit.checkpoints.round import checkpoint_task
from drkit.clock import monotonic
from drkit.copy_task.copier import copy_task
from drkit.errors import DrkitError, Failed, Refused
from drkit.spark.jobs import cause_of
from drkit.spark.shipping import SOME_WORKER
from drkit.spark.slots import Slots, SteadySlots
from drkit.spark.workshop import BROKEN, SharedSpark, Task

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
    registered = context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001, FBT003  no public way
    listed = [registered.apply(number) for number in range(registered.size())]
    return [str(e.hostPort()) for e in listed if e.id() != _DRIVER]


def _failed_on(context: SparkContext) -> str:
    """Return host and executor of a failed task of the first job, or "" if Spark has none."""
    tasks = context._jsc.sc().statusStore().taskList(0, 0, _MOST_TASKS)  # noqa: SLF001  no public way
    listed = [tasks.apply(number) for number in range(tasks.size())]
    failed = [task for task in listed if task.status() == "FAILED"]
    return f"{failed[0].host()} executor {failed[0].executorId()}" if failed else ""


_FIRST_SLOT_SECONDS: Final = 30.0
_MORE_SLOTS_SECONDS: Final = 5.0
"""Time after the newest slot until no more slots are expected for now."""
_POLL_SECONDS: Final = 0.2
_WATCH_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 2.0


@contextmanager
def ready_cluster(
    workshop: SharedSpark, context: SparkContext, url: str, tasks: int, stop: threading.Event
) -> Iterator[None]:
    """Wait until workers are there and checked; watch their number for as long as the context lasts.

    :param tasks: slots that are needed
    :raises Refused: no slot at all
    :raises ConfigError: drkit cannot work on one of the workers
    """
    slots = Slots(_wait_for_slots(context, tasks, stop), tasks)
    if stop.is_set():
        yield
        return
    if not slots.now:
        raise _no_slots(context, url)
    check = partial(check_workers, context, workshop.carry, url)
    checked = slots.now if check(slots.now) else 0
    workers = sorted({address.rsplit(":", 1)[0] for address in executors(context)})
    observe.event("spark_workers", master=url, slots=slots.now, needed=slots.needed, workers=workers)
    with SlotWatch(workshop, slots, lambda: slots_now(context), NewWorkers(checked, check)):
        yield


class SlotWatch(Background):
    """Follows the number of slots, from a thread of its own, and reports when there are too few.

    :param ask: how many slots there are now
    :param new_workers: gets each answer
    """

    def __init__(
        self, workshop: SharedSpark, first: Slots, ask: Callable[[], int], new_workers: NewWorkers
    ) -> None:
        super().__init__("slots", patience=_STOP_SECONDS)
        self._workshop, self._ask, self._new_workers = workshop, ask, new_workers
        self._steady = SteadySlots(first)
        self._take(Slots(first.needed, first.needed))

    def stop(self) -> None:
        """Stop the new workers, then the thread."""
        self._new_workers.end()
        super().stop()

    def look(self, seconds: float) -> None:
        """Ask once.

        :param seconds: the time, by a monotonic clock
        """
        try:
            now = self._ask()
        except BROKEN:
            return  # Spark is gone: its jobs say so
        self._new_workers.look(now)
        before = self._steady.slots
        if self._steady.look(now, seconds):
            self._take(before)

    def _take(self, before: Slots) -> None:
        slots = self._workshop.slots = self._steady.slots
        if slots.missing:
            observe.event("spark_slots_missing", level="warning", slots=slots.now, needed=slots.needed)
        elif before.missing:
            observe.event("spark_slots_back", slots=slots.now, needed=slots.needed)

    def _run(self) -> None:
        while not self._ended.wait(_WATCH_SECONDS):
            self.look(monotonic())


def slots_now(context: SparkContext) -> int:
    """Tasks that can run at once on the current executors."""
    inner: Any = context._jsc.sc()  # noqa: SLF001  no public way
    return int(inner.maxNumConcurrentTasks(inner.resourceProfileManager().defaultResourceProfile()))


def _wait_for_slots(context: SparkContext, tasks: int, stop: threading.Event) -> int:
    """The slots of a cluster, whose executors register one after another; fewer than `tasks` will do."""
    began = newest = monotonic()
    seen = 0
    while not stop.is_set():
        now = slots_now(context)
        if now >= tasks:
            return now
        if now != seen:
            seen, newest = now, monotonic()
        patience = newest + _MORE_SLOTS_SECONDS if now else began + _FIRST_SLOT_SECONDS
        if monotonic() >= patience:
            return now
        stop.wait(_POLL_SECONDS)
    return 0


def _no_slots(context: SparkContext, url: str) -> Failed | Refused:
    conf = context.getConf()
    driver = f"{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}"
    if context._jsc.sc().isStopped():  # noqa: SLF001  no public way
        return Failed("spark_application_ended", where=url, evidence=f"the driver's address is {driver}")
    evidence = f"no executor has registered at {driver} within {_FIRST_SLOT_SECONDS:.0f} s"
    return Refused("spark_no_slot", where=url, evidence=evidence)
