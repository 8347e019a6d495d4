"""A cluster of Spark's: the slots that it gives, and whether its workers can run drkit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
import threading
from typing import Any, Final

from pyspark import SparkContext

from drkit import observe
from drkit.clock import monotonic
from drkit.errors import Failed, Refused
from drkit.spark.slots import Slots, SteadySlots
from drkit.spark.worker_check import NewWorkers, check_workers, executors
from drkit.spark.workshop import BROKEN, SharedSpark

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
    watch = SlotWatch(workshop, slots, lambda: slots_now(context), NewWorkers(checked, check))
    watch.start()
    try:
        yield
    finally:
        watch.stop()


class SlotWatch:
    """Follows the number of slots, from a thread of its own, and reports when there are too few.

    :param ask: how many slots there are now
    :param new_workers: gets each answer
    """

    def __init__(
        self, workshop: SharedSpark, first: Slots, ask: Callable[[], int], new_workers: NewWorkers
    ) -> None:
        self._workshop, self._ask, self._new_workers = workshop, ask, new_workers
        self._steady = SteadySlots(first)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slots", daemon=True)
        self._take(Slots(first.needed, first.needed))

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._new_workers.end()
        self._ended.set()
        self._thread.join(_STOP_SECONDS)

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
    return Refused(
        "spark_no_slot",
        where=url,
        evidence=f"no executor has registered at {driver} within {_FIRST_SLOT_SECONDS:.0f} s",
    )
