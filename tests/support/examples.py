"""How many examples the property tests try: some in `make test`, twenty-five times as many in `make soak`."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

_SHORT: Final = "drkit"
_EXAMPLES: Final = {_SHORT: 40, "soak": 1000}
"""By profile of hypothesis; ``make soak`` asks for its own with ``--hypothesis-profile``."""


def load_profiles() -> None:
    """Register both and load the short one. A part of conftest.py, before any test is read."""
    for name, number in _EXAMPLES.items():
        # Brokers and Spark work beside the pure tests: how long an example takes says nothing about it.
        settings.register_profile(name, deadline=None, max_examples=number)
    settings.load_profile(_SHORT)


def times(factor: float) -> int:
    """A multiple of the profile's examples, for ``settings(max_examples=...)``: at least five."""
    return max(5, round(factor * settings().max_examples))
