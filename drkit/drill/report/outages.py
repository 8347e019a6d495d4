"""The outages of a report as a reader sees them: the longest, and one line with a bar for each client."""

from __future__ import annotations

from typing import Final, NamedTuple

from drkit.drill.report.model import DrillReport

_BESIDE: Final = 0.2


class OutageRow(NamedTuple):
    """The outage of a client; its bar in percent of the strip's width."""

    client: str
    """Without the prefix that all names of the drill have."""
    operation: str
    seconds: float
    left: float
    width: float
    is_over: bool
    """Longer than the objective allows."""


def longest_outage(report: DrillReport) -> float | None:
    """Return the seconds of the longest outage, None if none was measured."""
    return max((outage.seconds for outage in report.rto), default=None)


def outage_window(report: DrillReport) -> tuple[float, float]:
    """Return the first and the last second that the strip shows: all outages, and a little beside them."""
    began = min((outage.began_seconds for outage in report.rto), default=0.0)
    ended = max((outage.began_seconds + outage.seconds for outage in report.rto), default=0.0)
    beside = (ended - began) * _BESIDE or 1.0
    return max(began - beside, 0.0), ended + beside


def outage_rows(report: DrillReport) -> list[OutageRow]:
    """Return the outages with their bars."""
    limit, (first, last) = report.plan.objectives.rto_seconds, outage_window(report)
    scale = 100 / (last - first)
    return [
        OutageRow(
            client=outage.client.rpartition(".")[2],
            operation=outage.operation,
            seconds=outage.seconds,
            left=round((outage.began_seconds - first) * scale, 2),
            width=round(outage.seconds * scale, 2),
            is_over=limit is not None and outage.seconds > limit,
        )
        for outage in report.rto
    ]
