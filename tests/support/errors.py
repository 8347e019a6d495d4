"""Errors in tests: recognised by their code, and made with a text of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from drkit.catalogue import ERRORS
from drkit.errors import DrkitError

E = TypeVar("E", bound=DrkitError)


def coded(*codes: str) -> Callable[[DrkitError], bool]:
    """Return the ``check`` of :func:`pytest.raises` that accepts errors with one of these codes."""
    assert set(codes) <= ERRORS.keys(), codes
    return lambda error: error.code in codes


def made(kind: type[E], text: str, *, where: str = "", evidence: str = "", hint: str = "") -> E:
    """Return an error with a text that the catalogue does not have."""
    return kind("job_refused", where=where, evidence=evidence, hint=hint, reason=text)
