"""What a failover now would lose at the most, in seconds. Pure.

While the source answers, a look tells the age of the oldest record that is not copied. When it has died,
nobody can ask it; but everything older than that look minus that age was copied then, and a frontier never
goes back. So what is lost was produced between that moment and the primary's end.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Look(NamedTuple):
    """One look at a flow."""

    at: float
    """As of the observer's clock."""
    source_answers: bool
    target_answers: bool
    records: int | None
    """Known to be missing on the target; None: nobody knows."""
    seconds: float | None
    """Age of the oldest of them."""
    seen_seconds: float | None = 0.0
    """Age of what is known of the source: 0 when it answered."""


class Risk(NamedTuple):
    """The loss of a failover."""

    seconds: float | None
    """At the most so much; None: nobody knows."""
    records: int | None
    """Known to be missing; what nobody saw is not in it."""
    why: str


UNKNOWN: Final = Risk(None, None, "not known yet")


def risk_of(
    live: Look | None,
    newest: Look | None,
    alive_until: float | None,
    now: float,
    margin: float = 0.0,
) -> Risk:
    """The loss if the target took over now.

    :param live: the newest look in which both clusters answered
    :param newest: the newest look of all
    :param margin: by so much the replicator's clock may differ from ours
    :param alive_until: when the primary last worked for anybody we know of; None: it works, or nobody knows
    """
    end = now if alive_until is None else alive_until
    if newest is None:
        return Risk(None, None, "nobody has looked at the flow yet")
    if newest.source_answers and newest.target_answers and alive_until is None:
        return Risk(newest.seconds, newest.records, _told(newest.seconds, "by both clusters, just now"))
    bounds = []
    if live is not None and live.seconds is not None:
        bounds.append(max(0.0, end - live.at) + live.seconds)
    # The replicator's own note of the source's ends: if the target has all of that, the rest is younger.
    if newest.target_answers and newest.records == 0 and newest.seen_seconds is not None:
        bounds.append(max(0.0, end - (newest.at - newest.seen_seconds)) + margin)
    if not bounds:
        return Risk(None, newest.records, "the source was not seen when its records were last counted")
    return Risk(min(bounds), newest.records, _told(min(bounds), "since all before was known to be copied"))


def _told(seconds: float | None, how: str) -> str:
    return "the age of what is missing is not known" if seconds is None else f"{seconds:.1f} s, {how}"
