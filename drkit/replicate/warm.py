"""Keeps Spark's idle Python workers alive, and ready to copy, through long epochs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import threading
from typing import Final

from py4j.protocol import Py4JError
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from drkit.replicate.allocator import keep_memory
from drkit.replicate.copier import copy_task

_COPIES: Final = copy_task
"""What a worker is to have loaded."""
_SECONDS: Final = 20.0
_GOODBYE_SECONDS: Final = 1.0


@contextmanager
def kept_warm(spark: SparkSession) -> Iterator[None]:
    """Use an idle worker now and then for as long as the context lasts.

    Spark ends all idle workers of an executor when none was used for a minute (its PythonWorkerFactory), and
    gives a task whichever has been idle for longest. The worker that handed a task its lease is idle for a
    whole epoch and copies in the next one: started anew, or without what copying imports, it makes the gap
    between the two a second long instead of a third of one.
    """
    stop = threading.Event()
    thread = threading.Thread(target=_use, args=(spark, stop), name="warm workers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_GOODBYE_SECONDS)


def _use(spark: SparkSession, stop: threading.Event) -> None:
    row: DataFrame | None = None
    while not stop.wait(_SECONDS):
        try:
            row = row if row is not None else spark.range(0, 1, 1, 1).mapInArrow(get_ready, "id long")
            row.collect()
        except (PySparkException, Py4JError, OSError):
            return  # Spark has ended: the flows report it
        except (AssertionError, AttributeError, EOFError, TypeError):
            if not stop.is_set():
                raise
            return  # Spark is being stopped, and parts of pyspark's session are gone


def get_ready(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: to find this function it has loaded this module, and so the one that copies."""
    keep_memory()
    yield from batches
