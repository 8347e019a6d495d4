"""Starts Spark's Python workers before they are needed, with all that copying imports."""

from __future__ import annotations

import threading
import time
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from drkit.replicate.allocator import keep_memory
from drkit.replicate.copier import copy_task

_COPIES: Final = copy_task
"""What a worker is to have loaded."""
_HELD_SECONDS: Final = 0.05


def warm_up(context: SparkContext, workers: int) -> threading.Thread:
    """Start so many workers at once, while the flows still look at their clusters; returns at once.

    The first task of a worker begins a second or two after Spark starts its process, which Spark does only
    when it has a task for it.
    """
    thread = threading.Thread(target=_start, args=(context, workers), name="warm up", daemon=True)
    thread.start()
    return thread


def _start(context: SparkContext, workers: int) -> None:
    try:
        context.parallelize(range(workers), workers).foreach(get_ready)
    except (PySparkException, Py4JError, OSError, AssertionError, AttributeError, EOFError, TypeError):
        return  # Spark has ended, or is being stopped and parts of pyspark are gone: the flows report it


def get_ready(_worker: int) -> None:
    """Runs in a worker: to find this function it has loaded this module, and so the one that copies."""
    keep_memory()
    time.sleep(_HELD_SECONDS)  # so that each task takes a worker of its own
