"""Numbers, times and lists of names for sentences."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

_SHOWN: Final = 5
_STEP: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_PLURALS: Final = {"has": "have", "is": "are", "was": "were"}


def counted(number: int, noun: str, does: str = "") -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    :param does: a verb that follows, as it is with 1: ``has``
    """
    told = f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
    return f"{told} {verb(number, does)}" if does else told


def total(values: Iterable[int | None]) -> int | None:
    """Return the sum, or None when one is unknown."""
    found = list(values)
    known = [v for v in found if v is not None]
    return sum(known) if len(known) == len(found) else None


def is_reported(count: int) -> bool:
    """Return whether one of many equal events is reported: the first five, then the 10th, the 100th, …."""
    return count <= _SHOWN or str(count).strip("0") == "1"


def verb(number: int, does: str) -> str:
    """Return a verb that fits a number of things; it is given as it is with 1."""
    return does if number == 1 else _PLURALS.get(does) or does.removesuffix("s")


def size_text(size: float) -> str:
    """Return a number of bytes in the unit that fits."""
    unit = 0
    while size >= _STEP and unit + 1 < len(_UNITS):
        size, unit = size / _STEP, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def first_of(names: Iterable[object], most: int = _SHOWN) -> str:
    """Return the first names, and the number of the others."""
    found = [str(name) for name in names]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def utc(at_ms: int) -> str:
    """Return a time in UTC, to the second."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return "a time beyond the calendar"
