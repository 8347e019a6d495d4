"""What a failover now would lose, in seconds, and how that is known. Pure.

While the source answers it is the age of the oldest record that is not copied. Of a silent source the newest
heartbeat on the target says up to when everything was copied. Until when it took records is not known to a
site that cannot reach it: its applications may reach it still. So it counts as alive until now, unless its
death is proven.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from drkit.replicate.lag_source import NOTHING_HELD, HeldBack


class Sighting(NamedTuple):
    """What is known of the last moments of a source that is silent now; milliseconds since 1970."""

    now_ms: int
    heartbeat_ms: int | None
    """The newest heartbeat that reached the target; None: there is none."""
    ends_seen_ms: int | None
    """When its ends were noted last."""
    last_seen_ms: int | None = None
    """When whoever decided (`drkit watch`) saw it answer last."""
    dead_since_ms: int | None = None
    """By when it took no record any more, proven; None: nothing proves that it is dead."""
    ahead_seconds: float = 0.0
    """How far its last heartbeat is ahead of our clock, if too far to count; else 0."""


class Risk(NamedTuple):
    """What would be lost, at the most."""

    seconds: float | None
    """None: nobody knows."""
    records: int | None
    """Known to be missing, and held back at the most; of a silent source there may be more."""
    exact: bool
    basis: str
    """How that is known, in words."""
    held_back: int = 0
    """Among `records`: what open transactions held back, at the most."""
    acknowledged: int = 0
    """Of `held_back`: not known to belong to an undecided transaction, at the most."""
    if_dead_seconds: float | None = None
    """Of a silent source: at the most so much if it died when it was seen last."""

    def to_json(self) -> dict[str, Any]:
        """For the journal."""
        return dict(self._asdict())


def of_silent_source(seen: Sighting, records: int | None, held: HeldBack = NOTHING_HELD) -> Risk:
    """At the most so many seconds of records are lost.

    :param records: between the frontiers and the last stable offsets that were noted last
    :param held: what open transactions held back above them, by the same note
    """
    missing = None if records is None else records + held.records
    found = _unknown(missing, held)
    if seen.ahead_seconds:
        wrong = f"the last heartbeat is {seen.ahead_seconds:,.1f} s ahead of this machine's clock"
        return found._replace(basis=f"{wrong}: one of the two is wrong, so nothing says how old it is")
    if seen.heartbeat_ms is None:
        return found._replace(basis="no heartbeat of this flow ever reached the target")
    beat = seen.heartbeat_ms
    last_sign = max(t for t in (seen.ends_seen_ms, seen.last_seen_ms, beat) if t is not None)
    # What stood there when its ends were noted last is copied, if no record up to them is missing.
    copied = max(beat, seen.ends_seen_ms) if records == 0 and seen.ends_seen_ms is not None else beat
    if held.acknowledged:  # a heartbeat passes while they wait
        if held.oldest_ms is None:
            return found._replace(basis="open transactions held records back, since when is not known")
        copied = min(copied, held.oldest_ms)
    if_dead = (last_sign - copied) / 1000
    # A death before a sign of life is one by a clock that is wrong, and proves no time.
    signs = [t for t in (seen.last_seen_ms, beat) if t is not None]
    if seen.dead_since_ms is not None and seen.dead_since_ms >= max(signs):
        seconds = max(0, seen.dead_since_ms - copied) / 1000
        return found._replace(seconds=seconds, basis="it is proven to be dead since then")
    seconds = (max(seen.now_ms, last_sign) - copied) / 1000
    basis = (
        f"nothing proves that it is dead, so it may have taken records until now; {if_dead:,.1f} s if it died"
        " when it was last seen"
    )
    return found._replace(seconds=seconds, if_dead_seconds=if_dead, basis=basis)


def of_answering_source(
    records: int | None,
    seconds: float | None,
    *,
    exact: bool,
    reason: str,
    held: HeldBack = NOTHING_HELD,
) -> Risk:
    """What is not copied yet.

    :param records: with what open transactions hold back
    :param reason: why records are not known
    :param held: what they hold back
    """
    found = _unknown(records, held)
    if records is None or seconds is None:
        return found._replace(basis=reason or "the lag of some partitions is not known")
    return found._replace(seconds=seconds, exact=exact and not held.records, basis="counted on the source")


def _unknown(records: int | None, held: HeldBack) -> Risk:
    counts = {"held_back": held.records, "acknowledged": held.acknowledged}
    return Risk(None, records, exact=False, basis="", **counts)


def held_total(held: Iterable[HeldBack]) -> HeldBack:
    """The sum over partitions; the time of the oldest record is not known where it is not of one."""
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
    """What open transactions hold back, in words; empty when it is nothing."""
    if not records:
        return ""
    return f"up to {records:,} records held back by open transactions ({acknowledged:,} acknowledged)"
