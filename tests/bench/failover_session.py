"""The part of a session about failovers: how fast a loss is seen, how fast groups and clients move."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench import detection, failovers, repointing
from tests.bench.results import Results
from tests.bench.session import FAILURES

FAILOVER: Final = "failover"
"""Its name in ``--only``."""
_FAILURES: Final = (*FAILURES, RuntimeError)
_STATES: Final = ("killed", "alive, fenced")
_PATIENCE: Final = 20.0
"""Seconds after which a client is not waited for any more."""


def measure_failovers(
    results: Results, folder: Path, tell: Callable[[str], None], *, rounds: int, quick: bool
) -> None:
    """Measure; what gives no figure costs no other. Each part starts clusters of its own.

    :param rounds: kills of a primary
    :param quick: failovers beside a replicator without Spark, clients of librdkafka alone
    """
    parts: tuple[tuple[str, Callable[[], None]], ...] = (
        ("failover", lambda: results.failovers.extend(
            failovers.measure(folder / "failover", tell, quick=quick))),
        ("detection", lambda: results.detections.extend(detection.measure(("killed",), rounds, tell))),
        ("repointing", lambda: results.repoints.extend(
            repointing.measure(_STATES, 1 if quick else 3, _PATIENCE, tell, java=not quick))),
    )  # fmt: skip
    for name, part in parts:
        try:
            part()
        except _FAILURES as error:
            results.failures.append(f"{name}: no figure, {(str(error) or repr(error)).splitlines()[0]}")
            tell(f"    {name}: failed: {error}")
