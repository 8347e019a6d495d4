"""How names are listed in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_SHOWN: Final = 5


def counted(number: int, noun: str) -> str:
    """A number with its noun, which has an s unless there is one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def first_of(names: Iterable[object], most: int = _SHOWN) -> str:
    """The first names, and how many more there are."""
    found = [str(name) for name in names]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
