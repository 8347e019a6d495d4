"""Cases of a test that run in `make test-wide` or `make soak`; one like each of them runs in `make test`."""

from __future__ import annotations

from typing import Any

import pytest


def in_soak(*values: Any) -> Any:
    """A case of ``pytest.mark.parametrize`` for the long runs: decision 0034 says which these are."""
    return pytest.param(*values, marks=pytest.mark.soak)


def in_wide(*values: Any) -> Any:
    """A case of ``pytest.mark.parametrize`` for ``make test-wide``."""
    return pytest.param(*values, marks=pytest.mark.wide)
