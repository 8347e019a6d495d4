"""One error of drkit: its sentence, its hint, its exit code and its page."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = Path("docs", "reference", "errors.md")
"""The list of all errors."""


class Entry(NamedTuple):
    """What drkit says about one error, whatever it was raised for."""

    sentence: str
    """What happened, without a full stop; ``{name}`` stands for a value that the raise gives."""
    exit_code: int
    """1 failed, 2 usage or configuration, 3 refused or held."""
    hint: str = ""
    """What to do next, with the same values: words, and commands such as ``{drkit:fence show}``; or an option
    to add to the typed command, as in ``{drkit:--term 2}``. Empty if the raise gives it."""
    page: str = ""
    """The runbook about it, without folder and suffix; empty: the list of all errors."""


def failed(sentence: str, *, hint: str = "", page: str = "") -> Entry:
    """Return an error with exit code 1: the work was tried and failed."""
    return Entry(sentence, 1, hint, page)


def wrong(sentence: str, *, hint: str = "", page: str = "") -> Entry:
    """Return an error with exit code 2: the command line or the configuration is wrong."""
    return Entry(sentence, 2, hint, page)


def refused(sentence: str, *, hint: str = "", page: str = "") -> Entry:
    """Return an error with exit code 3: drkit waits for a decision or a repair."""
    return Entry(sentence, 3, hint, page)


class Program:
    """The value ``drkit`` of a hint: formats the words behind the colon as a command or as options to add."""

    def __format__(self, words: str) -> str:
        return words if words.startswith("-") else f"drkit {words}"


class _Dots:
    def __format__(self, _: str) -> str:
        return "…"


def with_dots(template: str) -> str:
    """Return a template with ``…`` for each value."""
    return template.format_map(defaultdict(_Dots, drkit=Program()))
