"""The activity of a copied partition: it makes progress, or there is a reason why not. Pure.

Every reason has an event that reports it, so that no partition waits in silence.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from drkit.copy_task.core.partition import CopyState, PartitionCopy

NO_LEADER = "the source partition has no leader"
_NO_FETCH = "no fetch from the source partition's leader has begun"


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


def activity(p: PartitionCopy, *, fetcher: bool, source_error: str) -> Activity:
    """The activity for a partition, or the reason why it makes no progress.

    :param fetcher: a fetcher asks its leader
    :param source_error: why the last fetch failed, or why the open one is overdue; empty when neither is so
    """
    if p.state is CopyState.STOPPED:
        return Activity(ReportedBy.STOP, p.reason or "stopped")
    if p.state is CopyState.RESOLVING:
        return _resolving(p)
    if not p.exhausted:
        missing = source_error or ("" if fetcher else _NO_FETCH)
        if p.leader < 0 or missing:
            return Activity(ReportedBy.SOURCE, NO_LEADER if p.leader < 0 else missing)
    if p.in_flight or p.waiting or p.ready:
        return Activity(ReportedBy.NOTHING, "fetched batches are being appended")
    return Activity(ReportedBy.NOTHING, "copied up to its end" if p.exhausted else "a fetch is open")


def _resolving(p: PartitionCopy) -> Activity:
    if p.in_flight:
        return Activity(ReportedBy.NOTHING, "the answers to appends are awaited")
    if p.leader < 0:
        return Activity(ReportedBy.SOURCE, NO_LEADER)
    if p.attempts:
        return Activity(ReportedBy.RESYNC, p.reason or "the target is asked again")
    return Activity(ReportedBy.NOTHING, "the target is asked")
