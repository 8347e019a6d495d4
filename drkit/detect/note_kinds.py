"""Notes of people, of mode auto, and of the primary's brokers in the topic of the observers. Pure."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from drkit.detect.seen import Address
from drkit.detect.shapes import label, line, lines, moment, server
from drkit.flow_state.codec.body import record, stored
from drkit.flow_state.codec.fields import optional, row, tuple_of, whole
from drkit.flow_state.codec.record import StateRecord

LOOK: Final = "look"
"""Key of an observer without a vote. A successful write shows that the cluster works."""
MOST_ADDRESSES: Final = 1000
"""Maximum number of brokers in one note: each of them is probed by a thread."""


def _address(value: Any) -> Address:
    return Address(*row(label, server, whole(0, 2**31 - 1))(value))


@record
class KnownBrokers(StateRecord):
    """The primary's known brokers, for an observer that starts when the primary is gone."""

    KEY: ClassVar[str] = "known"
    REQUIRED: ClassVar[bool] = False

    cluster_id: str | None = stored(optional(label))
    brokers: tuple[Address, ...] = stored(tuple_of(_address, MOST_ADDRESSES))


@record
class Pause(StateRecord):
    """A person's pause of failovers."""

    KEY: ClassVar[str] = "pause"
    REQUIRED: ClassVar[bool] = False

    by: str = stored(line)
    why: str = stored(line, default="")
    at_ms: int = stored(moment, default=0)

    def __str__(self) -> str:
        return f"paused by {self.by}" + (f": {self.why}" if self.why else "")


@record
class Automatic(StateRecord):
    """The last automatic failover."""

    KEY: ClassVar[str] = "automatic"
    REQUIRED: ClassVar[bool] = False

    by: str = stored(label)
    """The observer that started it."""
    run: str = stored(label)
    at_ms: int = stored(moment)
    evidence: tuple[str, ...] = stored(lines, default=())
    outcome: str = stored(line, default="")
    """How it ended; empty while it runs."""
    acknowledged_by: str = stored(line, default="")
    acknowledged_ms: int | None = stored(optional(moment), default=None)
