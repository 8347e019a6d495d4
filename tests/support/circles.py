"""Cases of a test that run in `make test-wide` or `make soak`; one like each of them runs in `make test`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

_CIRCLES: Final = ("wide", "soak")


def in_soak(*values: Any) -> Any:
    """A case of ``pytest.mark.parametrize`` for the long runs: decision 0034 says which these are."""
    return pytest.param(*values, marks=pytest.mark.soak)


def in_wide(*values: Any) -> Any:
    """A case of ``pytest.mark.parametrize`` for ``make test-wide``."""
    return pytest.param(*values, marks=pytest.mark.wide)


def mark_neighbours(items: Iterable[pytest.Item]) -> None:
    """Mark the other tests of a file in which some are wide, or soak: these may need what those have done.

    The tests of a file share its clusters, and follow each other. ``-m wide`` alone would run the second
    half of some stories.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    for circle in _CIRCLES:
        for mine in files.values():
            if any(item.get_closest_marker(circle) for item in mine):
                for item in mine:
                    if not any(item.get_closest_marker(c) for c in _CIRCLES):
                        item.add_marker(f"beside_{circle}")
