"""How names are listed in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_SHOWN: Final = 5


def first_of(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    found = list(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
