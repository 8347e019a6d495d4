"""The activity of a copied partition: it makes progress, or there is a reason why not. Pure.

Every reason has an event that reports it, so that no partition waits in silence.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from drkit.copy_task.core.partition import CopyState, PartitionCopy

NO_LEADER = "the source partition has no leader"


class ReportedBy(Enum):
    """The event that reports why a partition makes no progress."""

    NOTHING = "progress needs no event"
    STOP = "the event with which the partition was stopped"
    RESYNC = "resync"
    SOURCE = "source_unavailable"


class Activity(NamedTuple):
    """Progress, or the reason for no progress."""

    reported_by: ReportedBy
    text: str

    @property
    def progress(self) -> bool:
        """Return whether the partition makes progress."""
        return self.reported_by is ReportedBy.NOTHING


class ActivityView(NamedTuple):
    """The state that determines a partition's activity."""

    state: CopyState
    reason: str
    """Why it was stopped, or why the target has to be asked again."""
    asked_before: bool
    """The target was asked before without an answer (`RESOLVING` only)."""
    exhausted: bool
    """The lease's end is fetched: the source is not needed any more."""
    waiting: bool
    """Something is fetched and not sent."""
    in_flight: bool
    """An append was sent and is not answered."""
    leader_known: bool
    fetcher: bool
    """A fetcher asks that leader."""
    source_error: str
    """Why the last fetch failed, or why the open one is overdue; empty when neither is so."""


def activity(view: ActivityView) -> Activity:
    """The activity for a partition, or the reason why it makes no progress."""
    if view.state is CopyState.STOPPED:
        return Activity(ReportedBy.STOP, view.reason or "stopped")
    if view.state is CopyState.RESOLVING:
        return _resolving(view)
    if not view.exhausted and (missing := _missing_for_fetch(view)):
        return Activity(ReportedBy.SOURCE, missing)
    if view.in_flight or view.waiting:
        return Activity(ReportedBy.NOTHING, "fetched batches are being appended")
    return Activity(ReportedBy.NOTHING, "copied up to its end" if view.exhausted else "a fetch is open")


def _missing_for_fetch(view: ActivityView) -> str:
    """Return why no fetch is open; empty when one is."""
    if not view.leader_known:
        return NO_LEADER
    if view.source_error:
        return view.source_error
    return "" if view.fetcher else "no fetch from the source partition's leader has begun"


def _resolving(view: ActivityView) -> Activity:
    if view.in_flight:
        return Activity(ReportedBy.NOTHING, "the answers to appends are awaited")
    if not view.leader_known:
        return Activity(ReportedBy.SOURCE, NO_LEADER)
    if view.asked_before:
        return Activity(ReportedBy.RESYNC, view.reason or "the target is asked again")
    return Activity(ReportedBy.NOTHING, "the target is asked")


def view_of(p: PartitionCopy, *, fetcher: bool, source_error: str) -> ActivityView:
    """Return the state that determines a partition's activity now."""
    return ActivityView(
        state=p.state,
        reason=p.reason,
        asked_before=p.attempts > 0,
        exhausted=p.exhausted,
        waiting=bool(p.waiting or p.ready),
        in_flight=p.in_flight > 0,
        leader_known=p.leader >= 0,
        fetcher=fetcher,
        source_error=source_error,
    )
