"""Errors in tests: recognised by their code, and made with a text of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from string import Formatter
from typing import TypeVar

from drkit.catalogue import ERRORS, filled
from drkit.errors import DrkitError

E = TypeVar("E", bound=DrkitError)


def coded(*codes: str) -> Callable[[DrkitError], bool]:
    """Return the ``check`` of :func:`pytest.raises` that accepts errors with one of these codes."""
    assert set(codes) <= ERRORS.keys(), codes
    return lambda error: error.code in codes


def sentence(code: str, **values: object) -> str:
    """Return the sentence of an error, to look for it on a screen.

    :param values: for its placeholders
    """
    return filled(ERRORS[code].sentence, values)


def longest_part(code: str) -> str:
    """Return the longest constant part of a sentence, for values that a test does not know."""
    return max(constant_parts(ERRORS[code].sentence), key=len)


def constant_parts(template: str) -> list[str]:
    """Return what stands between the placeholders of a sentence."""
    parts = [""]
    for text, name, _, _ in Formatter().parse(template):
        parts[-1] += text
        if name is not None:
            parts.append("")
    return [part.strip() for part in parts]


def made(kind: type[E], text: str, *, where: str = "", evidence: str = "", hint: str = "") -> E:
    """Return an error with a text that the catalogue does not have."""
    return kind("job_refused", where=where, evidence=evidence, hint=hint, reason=text)
