"""Spark's Python daemon that imports what copying needs once, before it forks the first worker.

Spark starts it by ``spark.python.daemon.module``. A process that has threads must not fork: a lock that
one of them holds stays locked in the child. Where an import has begun a thread, or that cannot be seen,
this process becomes Spark's own daemon instead, whose workers import for themselves. The same happens where
a package is missing: a task reports which, see :mod:`drkit.spark.executor_check`.
"""

from __future__ import annotations

from collections.abc import Callable
import gc
import os
from pathlib import Path
import sys
from typing import Final

from pyspark.daemon import manager

LOADED: tuple[Callable[..., object], ...] = ()
"""What the workers find imported; empty where it cannot be."""
try:
    from drkit.checkpoints.round import checkpoint_task
    from drkit.copy_task.copier import copy_task

    LOADED = (copy_task, checkpoint_task)
except (ImportError, AttributeError, SyntaxError, TypeError) as error:
    sys.stderr.write(f"drkit's code is not loaded before it is needed: {error!r}\n")

_PLAIN: Final = "pyspark.daemon"
_THREADS: Final = Path("/proc/self/task")


def threads() -> int | None:
    """Return the number of threads of this process, with those of libraries in C, or None if unknown."""
    return len(list(_THREADS.iterdir())) if _THREADS.exists() else None


def main() -> None:
    """Fork workers until Spark ends."""
    if not LOADED or threads() != 1:
        os.execv(sys.executable, [sys.executable, "-m", _PLAIN, *sys.argv[1:]])  # noqa: S606  no shell is wanted
    # What is loaded stays for good: a collector that never looks at it leaves its pages shared.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
