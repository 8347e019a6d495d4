"""Spark while it runs: what jobs, flows and checks share of one session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import threading
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from drkit.spark.slots import UNLIMITED, Slots
from drkit.status.model import Fault

BROKEN: Final = (Py4JError, PySparkException, OSError, AttributeError, AssertionError)
"""What a call to Spark raises; the last two where it was stopped meanwhile."""
_START_POLL_SECONDS: Final = 0.05
Task = Callable[[str], str]


class SharedSpark:
    """Spark, running or starting, and a folder that lives as long as it.

    :param carry: makes of a task what Spark's workers can run; on this machine that is the task itself
    """

    def __init__(self, folder: Path, carry: Callable[[Task], Task] = lambda task: task) -> None:
        self.folder = folder
        self.carry = carry
        self.slots: Slots = UNLIMITED
        """Slots that Spark has now, and how many are needed."""
        self._context: SparkContext | None = None
        self._inner: Any = None
        self._is_there = threading.Event()

    @property
    def has_started(self) -> bool:
        """Return whether there is a :attr:`context`."""
        return self._is_there.is_set()

    @property
    def context(self) -> SparkContext:
        """Spark, which has started."""
        assert self._context is not None, "Spark has not started"  # noqa: S101  a programming error
        return self._context

    def wait(self, stop: threading.Event) -> bool:
        """Return whether Spark has started; waits for it until `stop` is set."""
        while not self._is_there.wait(_START_POLL_SECONDS):
            if stop.is_set():
                return False
        return True

    def started(self, context: SparkContext) -> None:
        """Wake the threads that wait for Spark."""
        self._context, self._inner = context, context._jsc.sc()  # noqa: SLF001  no public way
        self._is_there.set()

    def faults(self) -> tuple[Fault, ...]:
        """Return Spark's current faults."""
        return (Fault("spark_slots_missing", self.slots.text()),) if self.slots.missing else ()

    @property
    def has_ended(self) -> bool:
        """Return whether Spark's JVM is gone, or has stopped Spark, as when it has no memory or no master."""
        try:
            return self.has_started and bool(self._inner.isStopped())
        except BROKEN:
            return True
