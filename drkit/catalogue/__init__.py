"""Every error of drkit by its code: the one place of its sentence, hint, exit code and page.

``drkit explain CODE`` prints an entry; ``--json`` shows the code of an error.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
import shlex
from string import Formatter
from typing import Any, Final

from drkit.catalogue.entry import Entry

AREAS: Final = (
    "command_line", "config", "export", "failback", "failover", "fence", "flow", "journal", "kafka", "local",
    "old_primary", "rehearsal", "replay", "repoint", "spark", "topics", "translate", "watch",
)  # fmt: skip
"""Modules of this package, each with its ``ERRORS``."""


@cache
def errors() -> dict[str, Entry]:
    """Return every error: code → entry."""
    found: dict[str, Entry] = {}
    for area in AREAS:
        found |= import_module(f"{__name__}.{area}").ERRORS
    return found


def entry(code: str) -> Entry:
    """Return the entry of a code.

    :raises KeyError: there is no such code
    """
    return errors()[code]


def filled(template: str, values: dict[str, object]) -> str:
    """Return a sentence or a hint with its values; ``{name!q}`` quotes one for a shell.

    :raises KeyError: a value is missing
    """
    return _QUOTING.vformat(template, (), values) if template else ""


class _Quoting(Formatter):
    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return shlex.quote(str(value)) if conversion == "q" else super().convert_field(value, conversion)


_QUOTING: Final = _Quoting()
