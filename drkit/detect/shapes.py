"""Shapes of the fields of notes in the topic of the observers, each with its bounds. Pure.

Notes are shown on terminals: a name with control characters is refused, and in a sentence they are replaced.
"""

from __future__ import annotations

import re
from typing import Any, Final

from drkit.flow_state.codec.fields import EXACT, Malformed, text, tuple_of, whole

_LABEL: Final = text(256, least=1)
_LINE: Final = text(16_384)
_MOST_LINES: Final = 10_000
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: Python's calendar has no later days."""
_SERVER: Final = re.compile(r"[A-Za-z0-9._:%\[\]-]{1,253}:([1-9][0-9]{0,4})")
_MOST_PORT: Final = 65_535

count: Final = whole(0, EXACT)
"""A number that counts up."""
moment: Final = whole(0, _LAST_MS)
"""Milliseconds since 1970."""


def label(value: Any) -> str:
    """A name: short, not empty, and printable."""
    found = _LABEL(value)
    if not found.isprintable():
        raise Malformed("a text without control characters was expected")
    return found


def line(value: Any) -> str:
    """A sentence for a person; unprintable characters are replaced by question marks."""
    found = _LINE(value)
    return found if found.isprintable() else "".join(c if c.isprintable() else "?" for c in found)


lines: Final = tuple_of(line, _MOST_LINES)


def server(value: Any) -> str:
    """An address: a host name or an IP address, and a port."""
    found = text(320)(value)
    parts = _SERVER.fullmatch(found)
    if parts is None or int(parts[1]) > _MOST_PORT:
        raise Malformed("an address as host:port was expected")
    return found
