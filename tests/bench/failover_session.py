"""The part of a session about failovers: how fast a loss is seen, how fast groups and clients move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tests.bench import (
    detection,
    drills,
    failovers,
    homecoming,
    lost_primary,
    repointing,
    switchback,
    takeovers,
)
from tests.bench.peers.replicator import Flow
from tests.bench.results import Results
from tests.bench.session import FAILURES, clusters

FAILOVER: Final = "failover"
"""Its name in ``--only``."""
LOST: Final = "lost-primary"
"""The same of a lost primary, from the kill to the first record on the standby."""
STANDBY: Final = "standby"
"""The same of a replicator that is killed beside its standby."""
SWITCH: Final = "switch"
"""The same of a planned switchover there and back, under writes."""
RETURN: Final = "return"
"""The same of a primary that died and comes home."""
DRILL: Final = "drill"
"""The same of bubbles beside production."""
_FAILURES: Final = (*FAILURES, RuntimeError)
_STATES: Final = ("killed", "alive, fenced")
_Part = tuple[str, Callable[[], None]]
_PATIENCE: Final = 20.0
"""Seconds after which a client is not waited for any more."""


def measure_failovers(
    results: Results, folder: Path, tell: Callable[[str], None], *, rounds: int, quick: bool
) -> None:
    """Measure; what gives no figure costs no other. Each part starts clusters of its own.

    :param rounds: kills of a primary
    :param quick: failovers beside a replicator without Spark, clients of librdkafka alone
    """
    parts: tuple[_Part, ...] = (
        ("failover", lambda: results.failovers.extend(
            failovers.measure(folder / "failover", tell, quick=quick))),
        ("detection", lambda: results.detections.extend(detection.measure(("killed",), rounds, tell))),
        ("repointing", lambda: results.repoints.extend(
            repointing.measure(_STATES, 1 if quick else 3, _PATIENCE, tell, java=not quick))),
    )  # fmt: skip
    _measured(results, parts, tell)


def measure_lost_primaries(results: Results, tell: Callable[[str], None], *, rounds: int) -> None:
    """Measure; each round has clusters of its own."""

    def measure() -> None:
        for found in lost_primary.measure(rounds, tell):
            if isinstance(found, lost_primary.StartUp):
                results.starts.append(found)
            else:
                results.lost.append(found)

    _measured(results, ((LOST, measure),), tell)


def measure_switchovers(results: Results, folder: Path, tell: Callable[[str], None]) -> None:
    """Measure on clusters of its own."""
    _measured(
        results,
        ((SWITCH, lambda: results.switches.extend(switchback.measure(folder / "switch", tell))),),
        tell,
    )


def measure_returns(results: Results, folder: Path, tell: Callable[[str], None]) -> None:
    """Measure; each method has clusters of its own."""
    _measured(
        results, ((RETURN, lambda: results.returns.extend(homecoming.measure(folder / "home", tell))),), tell
    )


def measure_drills(
    results: Results, folder: Path, tell: Callable[[str], None], *, rounds: int, quick: bool
) -> None:
    """Measure on clusters of its own."""

    def measure() -> None:
        with clusters(tell) as (source, target):
            flow = Flow(source.bootstrap(), target.bootstrap(), "", "", folder / "drill")
            results.bubbles.extend(drills.measure(flow, rounds, tell, quick=quick))

    _measured(results, ((DRILL, measure),), tell)


def measure_takeovers(results: Results, folder: Path, tell: Callable[[str], None], *, rounds: int) -> None:
    """Measure on clusters of its own."""

    def measure() -> None:
        with clusters(tell) as (source, target):
            results.takeovers.extend(takeovers.measure(source, target, folder, rounds, tell))

    _measured(results, ((STANDBY, measure),), tell)


def _measured(results: Results, parts: Iterable[_Part], tell: Callable[[str], None]) -> None:
    for name, part in parts:
        try:
            part()
        except _FAILURES as error:
            results.failures.append(f"{name}: no figure, {(str(error) or repr(error)).splitlines()[0]}")
            tell(f"    {name}: failed: {error}")
