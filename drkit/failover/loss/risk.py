"""The records that open transactions hold back: the sum over partitions, and in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from drkit.counted import counted
from drkit.status.lag.source import HeldBack


def held_total(held: Iterable[HeldBack]) -> HeldBack:
    """Return the sum over partitions; the oldest time is unknown if it is unknown for one partition."""
    some = [h for h in held if h.records]
    times = [h.oldest_ms for h in some if h.acknowledged]
    known = [t for t in times if t is not None]
    sizes = [h.bytes for h in some if h.bytes is not None]
    return HeldBack(
        sum(h.records for h in some),
        sum(h.acknowledged for h in some),
        min(known, default=None) if len(known) == len(times) else None,
        sum(sizes) if len(sizes) == len(some) else None,
    )


def held_text(records: int, acknowledged: int) -> str:
    """Return what open transactions hold back, in words; empty if nothing."""
    if not records:
        return ""
    return (
        f"up to {counted(records, 'record')} held back by open transactions ({acknowledged:,} acknowledged)"
    )
