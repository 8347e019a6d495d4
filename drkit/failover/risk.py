"""What a failover now would lose, in seconds, and how that is known. Pure.

While the source answers it is the age of the oldest record that is not copied. Once it is silent nobody can
ask it: then the newest heartbeat on the target says up to when the whole path worked, and the question is
until when the source went on taking records.
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
    runner_alive: bool
    """The replicator's lease is renewed: it waits for the source, and would have copied what came."""
    last_seen_ms: int | None = None
    """When whoever decided (`drkit watch`) saw it answer last."""


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
    if seen.heartbeat_ms is None:
        return found._replace(basis="no heartbeat of this flow ever reached the target")
    beat = seen.heartbeat_ms
    watched = seen.runner_alive or seen.last_seen_ms is not None
    known = [t for t in (seen.ends_seen_ms, seen.last_seen_ms, beat) if t is not None]
    until = max(known) if watched else max(seen.now_ms, *known)
    # What stood there when its ends were noted last is copied, if no record up to them is missing.
    copied = max(beat, seen.ends_seen_ms) if records == 0 and seen.ends_seen_ms is not None else beat
    if held.acknowledged:  # a heartbeat passes while they wait
        if held.oldest_ms is None:
            return found._replace(basis="open transactions held records back, since when is not known")
        copied = min(copied, held.oldest_ms)
    seconds = (until - copied) / 1000
    if seen.runner_alive:
        basis = "the replicator lives and waits for the source"
    elif watched:
        basis = "drkit watch saw the source until then"
    else:
        basis = "nobody replicates and nobody watched the source: it may have taken records until now"
    return found._replace(seconds=seconds, basis=basis)


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
