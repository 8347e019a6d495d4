"""Numbers and lists of names for sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_SHOWN: Final = 5


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def first_of(names: Iterable[object], most: int = _SHOWN) -> str:
    """Return the first names, and the number of the others."""
    found = [str(name) for name in names]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
