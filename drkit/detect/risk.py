"""The loss of a failover now, in seconds, and its evidence: one computation for all callers. Pure.

While the source answers, the loss is the age of the oldest record that is not copied. For a silent source,
three facts show up to when everything was copied: the replicator's note of the source's ends, the newest
heartbeat on the target, the last look of an observer at both clusters.

A heartbeat shows that its own partition is copied, and no other one. Other partitions may be far behind while
heartbeats pass: they are rebuilt after a return, copied for the first time, throttled, or stopped. So a
heartbeat counts only where all of the noted ends is copied, and only for a short time after the note: not at
all beyond it where a look of this machine is newer, which sees a partition that has stopped since. Where
records up to the noted ends are missing, the note says how old the oldest was; without that the loss is
unknown.

Until when the source took records is unknown to a site that cannot reach it: its applications may still
reach it. So the source counts as alive until now, unless its death is proven.

Times of other machines that are in the future do not count: they would hide the loss.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from drkit.counted import counted
from drkit.flow_state.records import HeldBack

_BEYOND_THE_NOTE_MS: Final = 20_000
"""How far a heartbeat counts beyond the note of the ends; the replicator makes one every 10 s."""


class Sighting(NamedTuple):
    """The last known times of a source that is silent now; milliseconds since 1970."""

    now_ms: int
    heartbeat_ms: int | None
    """The newest heartbeat that reached the target, by its emitter's clock; None: no heartbeat."""
    ends_seen_ms: int | None
    """When its ends were noted last, by the replicator's clock."""
    last_seen_ms: int | None = None
    """When the `drkit watch` that decided last saw the source answer."""
    dead_since_ms: int | None = None
    """Time from which the source provably took no record; None: its death is not proven."""
    copied_ms: int | None = None
    """Everything older was copied, by a look of this machine at both clusters."""
    looked_ms: int | None = None
    """When that look began; None: unknown, or there was none."""
    noted_copied_ms: int | None = None
    """Everything older was copied when the ends were noted, by the replicator's clock; None: not known."""
    margin_ms: int = 0
    """By how much the clocks of other machines may differ from this one's."""
    ahead_seconds: float = 0.0
    """How far the last heartbeat is ahead of our clock, if too far to count; else 0."""


class Risk(NamedTuple):
    """An upper bound on the loss of a failover."""

    seconds: float | None
    """The number to compare with ``rpo_seconds``; None: unknown."""
    records: int | None
    """Known to be missing, with those held back; of a silent source there may be more."""
    exact: bool
    basis: str
    """How that is known, in words."""
    held_back: int = 0
    """Among `records`: an upper bound on what open transactions held back."""
    acknowledged: int = 0
    """Of `held_back`: an upper bound on those not known to belong to an undecided transaction."""
    if_dead_seconds: float | None = None
    """For a silent source: the upper bound if it died when it was last seen."""
    counted_seconds: float | None = None
    """For a silent source: age of the noted ends that `records` were counted from, or None without any."""

    def to_json(self) -> dict[str, Any]:
        """For the journal."""
        return dict(self._asdict())

    @property
    def in_words(self) -> str:
        """The number to compare with a budget, and its evidence."""
        return self.basis if self.seconds is None else f"up to {self.seconds:,.1f} s: {self.basis}"

    @property
    def records_in_words(self) -> str:
        """The records at risk. Of a silent source they are unknown, or at least those that were counted."""
        when = "" if self.counted_seconds is None else f" (last counted {self.counted_seconds:,.0f} s ago)"
        if self.records is None or (when and not self.records):
            return f"unknown{when}"
        return f"{'at least ' if when else ''}{counted(self.records, 'record')}{when}"

    @property
    def above(self) -> float:
        """The number to compare with a budget: infinite while unknown."""
        return float("inf") if self.seconds is None else self.seconds


def unknown(basis: str, records: int | None = None) -> Risk:
    """An unknown loss.

    :param basis: why
    """
    return Risk(None, records, exact=False, basis=basis)


def of_silent_source(
    seen: Sighting, records: int | None, held: HeldBack | None = None, gone: int = 0
) -> Risk:
    """The loss of a source that does not answer.

    :param records: between the frontiers and the last stable offsets that were noted last
    :param held: what open transactions held back above them, by the same note
    :param gone: number of copied records that the target has lost since
    """
    more, acknowledged = (held.records, held.acknowledged) if held is not None else (0, 0)
    found = Risk(None, None if records is None else records + more, exact=False, basis="")
    noted = _from_the_past(seen, seen.ends_seen_ms)
    since = max(0, seen.now_ms - noted[0]) / 1000 if noted else None
    found = found._replace(held_back=more, acknowledged=acknowledged, counted_seconds=since)
    lost = f"the standby has lost {counted(gone, 'record')} that it had copied, of unknown age"
    copied = lost if gone else _copied_ms(seen, records, held)
    if isinstance(copied, str):
        return found._replace(basis=copied)
    signs = (seen.ends_seen_ms, seen.last_seen_ms, seen.heartbeat_ms, seen.copied_ms)
    last_sign = max(_from_the_past(seen, *signs), default=copied)
    # A death before a sign of life comes from a wrong clock, and proves no time.
    alive_ms = max(_from_the_past(seen, seen.last_seen_ms, seen.heartbeat_ms), default=0)
    if seen.dead_since_ms is not None and seen.dead_since_ms >= alive_ms - seen.margin_ms:
        seconds = max(0, seen.dead_since_ms - copied) / 1000
        return found._replace(seconds=seconds, basis="it is proven to be dead since then")
    if_dead = max(0, last_sign - copied) / 1000
    seconds = (max(seen.now_ms, last_sign) - copied) / 1000
    basis = (
        f"nothing proves that it is dead, so it may have taken records until now; {if_dead:,.1f} s if it died"
        " when it was last seen"
    )
    return found._replace(seconds=seconds, if_dead_seconds=if_dead, basis=basis)


def of_answering_source(
    records: int | None, seconds: float | None, *, exact: bool, reason: str, held: HeldBack | None = None
) -> Risk:
    """The loss of records that are not copied yet.

    :param records: with what open transactions hold back
    :param reason: why records are not known
    :param held: what they hold back
    """
    more, acknowledged = (held.records, held.acknowledged) if held is not None else (0, 0)
    found = Risk(None, records, False, "", more, acknowledged)  # noqa: FBT003
    if records is None or seconds is None:
        return found._replace(basis=reason or "the lag of some partitions is not known")
    return found._replace(seconds=seconds, exact=exact and not more, basis="counted on the source")


def _from_the_past(seen: Sighting, *times: int | None) -> list[int]:
    return [t for t in times if t is not None and t <= seen.now_ms + seen.margin_ms]


def _copied_ms(seen: Sighting, records: int | None, held: HeldBack | None) -> int | str:
    """Time before which everything is known to be copied; else why that is unknown."""
    beats = [] if seen.ahead_seconds else _from_the_past(seen, seen.heartbeat_ms)
    source_times, why = _shown_by_the_note(seen, records, beats)
    known = max(source_times) - seen.margin_ms if beats and source_times else None
    if seen.heartbeat_ms is None:
        why = "no heartbeat of this flow ever reached the target"
    if seen.ahead_seconds or (seen.heartbeat_ms is not None and not beats):
        why = "the newest heartbeat is from the future: one of two clocks is wrong"
    if held is not None and held.acknowledged and known is not None:  # a heartbeat passes while they wait
        why = "open transactions held records back, since when is not known"
        known = min(known, held.oldest_ms) if held.oldest_ms is not None else None
    copied_times = [t for t in (known, seen.copied_ms) if t is not None]
    return max(copied_times) if copied_times else why


def _shown_by_the_note(seen: Sighting, records: int | None, beats: list[int]) -> tuple[list[int], str]:
    """Times before which everything is copied, by the note of the ends; and why there is none."""
    noted = _from_the_past(seen, seen.ends_seen_ms)
    if records == 0:
        # What the source had when its ends were noted last is copied, if no record up to them is missing.
        most = max(noted) + _BEYOND_THE_NOTE_MS if noted else None
        if noted and seen.looked_ms is not None and seen.looked_ms > max(noted):
            most = max(noted)  # of the time since, that look says more than a heartbeat
        return [*noted, *(t if most is None else min(t, most) for t in beats)], ""
    if records is None:
        return [], "what some partitions of the source had at the last look is not known"
    why = f"{records:,} records were missing at the last look, the age of the oldest is not known"
    return _from_the_past(seen, seen.noted_copied_ms) if noted else [], why
