"""Cells and tables in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import NamedTuple


class Spread(NamedTuple):
    """Median and range of a few rounds."""

    middle: float
    low: float
    high: float

    def show(self, form: Callable[[float], str]) -> str:
        if self.low == self.high:
            return form(self.middle)
        return f"{form(self.middle)} ({form(self.low)}–{form(self.high)})"


def spread(values: Iterable[float]) -> Spread | None:
    """None when no round gave a figure."""
    found = list(values)
    return Spread(median(found), min(found), max(found)) if found else None


def cell(value: Spread | None, form: Callable[[float], str]) -> str:
    return value.show(form) if value else "–"


def count(value: float) -> str:
    return f"{value:,.0f}"


def whole(value: float) -> str:
    return f"{value:.0f}"


def times(value: float) -> str:
    return f"{value:.1f}×"


def seconds(value: float) -> str:
    return f"{value:.1f}"


def ms(value: float) -> str:
    return f"{value:.1f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
