"""Runs a job and reports the number of its ended tasks every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final

from drkit.clock import monotonic
from drkit.spark.jobs import SparkJobs

_WATCH_SECONDS: Final = 0.25
_SAY_SECONDS: Final = 2.0
_STOP_SECONDS: Final = 10.0


def run_watched(
    jobs: SparkJobs, texts: Sequence[str], task: Callable[[str], str], say: Callable[[int], None]
) -> list[str]:
    """Run the only job of these jobs, and cancel it when this is interrupted.

    :param say: called with the number of ended tasks when it has grown
    :raises DrkitError: see :meth:`SparkJobs.run`
    """
    with ThreadPoolExecutor(1) as pool:
        collected = pool.submit(jobs.run, texts, task)
        try:
            said, told = monotonic(), 0
            while not collected.done():
                wait([collected], _WATCH_SECONDS)
                if collected.done() or monotonic() - said < _SAY_SECONDS:
                    continue
                said, ended = monotonic(), jobs.tasks.ended
                if ended > told:
                    told = ended
                    say(ended)
            return collected.result()
        finally:
            jobs.cancel(_STOP_SECONDS)
