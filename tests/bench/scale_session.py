"""The part of a session about size: many topics and groups, and more and more copy tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tests.bench import scale, scale_model, workers
from tests.bench.results import Results
from tests.bench.session import FAILURES, clusters

SCALE: Final = "scale"
"""Its name in ``--only``."""
WORKERS: Final = "workers"
"""The same of one copy by one, two and more tasks."""
_BROKER: Final = {"log.index.size.max.bytes": "65536"}
"""Thousands of partitions: each has two index files of this size."""
_FAILURES: Final = (*FAILURES, RuntimeError)
Tell = Callable[[str], None]


def measure_scale(
    results: Results,
    folder: Path,
    tell: Tell,
    sizes: Iterable[int],
    done: Callable[[], None],
    *,
    quick: bool,
) -> None:
    """Measure each size on clusters of its own; one that gives no figure costs no other.

    :param done: called after every size
    """
    tell("computing plans, leases and state")
    results.models.extend(map(scale_model.measure, scale_model.PARTITIONS))
    for topics in sizes:
        try:
            with clusters(tell, _BROKER) as (source, target):
                results.scale.append(
                    scale.measure(source, target, topics, folder / f"scale-{topics}", tell, quick=quick)
                )
        except _FAILURES as error:
            _failed(results, tell, f"{topics} topics", error)
        done()


def measure_workers(results: Results, folder: Path, tell: Tell, *, rounds: int, quick: bool) -> None:
    """Measure on clusters of its own."""
    try:
        with clusters(tell) as both:
            for run in workers.measure(*both, folder / "workers", rounds, tell, quick=quick):
                results.workers.append(run)
    except _FAILURES as error:
        _failed(results, tell, WORKERS, error)


def _failed(results: Results, tell: Tell, what: str, error: Exception) -> None:
    results.failures.append(f"{what}: no figure, {(str(error) or repr(error)).splitlines()[0]}")
    tell(f"    {what}: failed: {error}")
