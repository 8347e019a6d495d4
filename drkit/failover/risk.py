"""What a failover now would lose, in seconds, and how that is known. Pure.

While the source answers it is the age of the oldest record that is not copied. Once it is silent nobody can
ask it: then the newest heartbeat on the target says up to when the whole path worked, and the question is
until when the source went on taking records.
"""

from __future__ import annotations

from typing import Any, NamedTuple


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
    """Known to be missing; of a silent source there may be more."""
    exact: bool
    basis: str
    """How that is known, in words."""

    def to_json(self) -> dict[str, Any]:
        """For the journal."""
        return dict(self._asdict())


def of_silent_source(seen: Sighting, records: int | None) -> Risk:
    """At the most so many seconds of records are lost.

    :param records: between the frontiers and the ends that were noted last
    """
    if seen.heartbeat_ms is None:
        return Risk(None, records, exact=False, basis="no heartbeat of this flow ever reached the target")
    beat = seen.heartbeat_ms
    watched = seen.runner_alive or seen.last_seen_ms is not None
    known = [t for t in (seen.ends_seen_ms, seen.last_seen_ms, beat) if t is not None]
    until = max(known) if watched else max(seen.now_ms, *known)
    # What stood there when its ends were noted last is copied, if no record up to them is missing.
    copied = max(beat, seen.ends_seen_ms) if records == 0 and seen.ends_seen_ms is not None else beat
    seconds = (until - copied) / 1000
    if seen.runner_alive:
        basis = "the replicator lives and waits for the source"
    elif watched:
        basis = "drkit watch saw the source until then"
    else:
        basis = "nobody replicates and nobody watched the source: it may have taken records until now"
    return Risk(seconds, records, exact=False, basis=basis)


def of_answering_source(records: int | None, seconds: float | None, *, exact: bool, reason: str) -> Risk:
    """What is not copied yet.

    :param reason: why records are not known
    """
    if records is None or seconds is None:
        return Risk(None, records, exact=False, basis=reason or "the lag of some partitions is not known")
    return Risk(seconds, records, exact, "counted on the source")
