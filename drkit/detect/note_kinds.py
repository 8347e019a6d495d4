"""Notes of people, of mode auto, and of the primary's brokers in the topic of the observers. Pure.

The fields of all notes have bounds. Notes are shown on terminals: a name with control characters is refused,
and in a sentence they are replaced.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import Field

from drkit.detect.seen import Address
from drkit.flow_state.codec.fields import EXACT, Int32, Malformed, Many, checked, listed, row, text, whole
from drkit.flow_state.codec.record import StateRecord, state_record

LOOK: Final = "look"
"""Key of an observer without a vote. A successful write shows that the cluster works."""
MOST_ADDRESSES: Final = 1000
"""Maximum number of brokers in one note: each of them is probed by a thread."""
_LABEL: Final = text(256, least=1)
_LINE: Final = text(16_384)
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: Python's calendar has no later days."""
_SERVER: Final = re.compile(r"[A-Za-z0-9._:%\[\]-]{1,253}:([1-9][0-9]{0,4})")
_MOST_PORT: Final = 65_535


def label(value: Any) -> str:
    """Check a name: short, not empty, and printable."""
    name = _LABEL(value)
    if not name.isprintable():
        raise Malformed("a text without control characters was expected")
    return name


def _line(value: Any) -> str:
    line = _LINE(value)
    return line if line.isprintable() else "".join(c if c.isprintable() else "?" for c in line)


def _server(value: Any) -> str:
    server = text(320)(value)
    parts = _SERVER.fullmatch(server)
    if parts is None or int(parts[1]) > _MOST_PORT:
        raise Malformed("an address as host:port was expected")
    return server


Counter = Annotated[int, whole(0, EXACT)]
"""A number that counts up."""
Moment = Annotated[int, whole(0, _LAST_MS)]
"""Milliseconds since 1970."""
Label = Annotated[str, checked(label)]
Line = Annotated[str, checked(_line)]
"""A sentence for a person; unprintable characters are replaced by question marks."""
Lines = Annotated[Many[Line], Field(max_length=10_000)]
_Server = Annotated[str, checked(_server)]
"""A host name or an IP address, and a port."""
_Address = Annotated[Address, row(Annotated[tuple[Label, _Server, Int32], listed(3)], Address)]


@state_record("known", required=False)
class KnownBrokers(StateRecord):
    """The primary's known brokers, for an observer that starts when the primary is gone."""

    cluster_id: Label | None
    brokers: Annotated[Many[_Address], Field(max_length=MOST_ADDRESSES)]


@state_record("pause", required=False)
class Pause(StateRecord):
    """A person's pause of failovers."""

    by: Line
    why: Line = ""
    at_ms: Moment = 0

    def __str__(self) -> str:
        return f"paused by {self.by}" + (f": {self.why}" if self.why else "")


@state_record("automatic", required=False)
class Automatic(StateRecord):
    """The last automatic failover."""

    by: Label
    """The observer that started it."""
    run: Label
    at_ms: Moment
    evidence: Lines = ()
    outcome: Line = ""
    """How it ended; empty while it runs."""
    acknowledged_by: Line = ""
    acknowledged_ms: Moment | None = None
