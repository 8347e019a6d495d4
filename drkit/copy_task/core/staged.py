"""A batch with a predicted target offset whose append is not yet acknowledged."""

from __future__ import annotations

from typing import Any, NamedTuple


class Staged(NamedTuple):
    """A batch ready to be sent, with the target offset it must get."""

    data: bytearray
    base: int
    records: int
    sequence_end: int
    next_source: int
    copied_end: int
    leader_epoch: int
    max_timestamp: int
    barrier: Any
    """Future of the intent that must be durable first, or None."""
