"""Cuts what is to be exported into pieces, and shares them out to tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, TypeVar

from drkit.export.manifest import TailRange

T = TypeVar("T")
_LEAST: Final = 50_000
_MOST: Final = 2_000_000
PER_SLOT: Final = 6
"""Shares for each slot of Spark: some are quicker than others, and progress is told by shares."""


def cut(tails: Iterable[TailRange], slots: int) -> Iterator[TailRange]:
    """Pieces of about equal numbers of offsets, several for each slot, those of a partition in order."""
    tails = list(tails)
    total = sum(tail.end - tail.first for tail in tails)
    step = min(_MOST, max(_LEAST, -(-total // max(1, slots * PER_SLOT))))
    for tail in tails:
        for first in range(tail.first, tail.end, step):
            yield tail._replace(first=first, end=min(first + step, tail.end))


def shares(weights: Iterable[tuple[int, T]], most: int) -> list[list[T]]:
    """Things of these weights in at most so many lists of about equal weight, none of them empty."""
    ordered = sorted(weights, key=lambda each: -each[0])
    found: list[list[T]] = [[] for _ in range(min(most, len(ordered)))]
    lightest = [(0, number) for number in range(len(found))]
    for weight, thing in ordered:
        had, number = heappop(lightest)
        found[number].append(thing)
        # One weighs something whatever its size: opening it does.
        heappush(lightest, (had + weight + 1, number))
    return found
