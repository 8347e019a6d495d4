"""Keeps Spark's idle Python workers alive through long epochs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import threading
from typing import Final

from py4j.protocol import Py4JError
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_SECONDS: Final = 20.0
_GOODBYE_SECONDS: Final = 1.0


@contextmanager
def kept_warm(spark: SparkSession) -> Iterator[None]:
    """Use an idle worker now and then for as long as the context lasts.

    Spark ends all idle workers of an executor when none was used for a minute (its PythonWorkerFactory).
    The worker that hands a task its lease is idle for a whole epoch: started anew, with all that it imports,
    it makes the gap between two epochs a second long instead of a third of one.
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
    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    row = spark.range(0, 1, 1, 1).mapInArrow(nothing, "id long")
    while not stop.wait(_SECONDS):
        try:
            row.collect()
        except (PySparkException, Py4JError, OSError):
            return  # Spark ends: whoever needs it says so
