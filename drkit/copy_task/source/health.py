"""The partitions of a task that cannot be fetched, and when to report that. Pure: the caller passes the time.

A partition is in trouble from a failed fetch, a missing leader or an overdue answer until its next fetch
succeeds. While it is, the source is asked for leaders in rounds; a round is one try.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from drkit.copy_task.core.activity import Activity, ReportedBy, activity
from drkit.copy_task.core.context import SAY_AT
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.model import TopicPartition

ROUND_SECONDS = 1.0
"""Between two rounds of questions about leaders; the first ones after a failure follow faster."""
_FIRST_SECONDS = 0.1
_LONGEST_SECONDS = 5.0
"""Between two fetches of a partition that fails each time."""
_OVERDUE_SECONDS = 2.0
"""How long after the longest wait at the source an answer to a fetch is overdue."""


@dataclass(slots=True)
class _Trouble:
    reason: str = ""
    """Why the last fetch failed; empty when the fetches themselves do not fail."""
    failures: int = 0
    """Failed fetches in a row."""
    retry_at: float = 0.0
    held: bool = False
    """The source is being asked what the failure means."""
    tries: int = 0
    """Rounds in a row that found no progress."""
    due: float = 0.0
    """When the next round counts as a try."""


class UnavailablePartition(NamedTuple):
    """A partition that has made no progress for enough rounds to be reported."""

    partition: PartitionCopy
    reason: str
    tries: int


class SourceHealth:
    """The source side of all partitions of one task.

    :param max_wait_seconds: how long a source may wait for records before it answers a fetch
    :param reported: partitions reported as unavailable and not yet as available; kept from epoch to epoch
    """

    def __init__(self, max_wait_seconds: float, reported: set[TopicPartition]) -> None:
        self._overdue_after = max_wait_seconds + _OVERDUE_SECONDS
        self._reported = reported
        self._troubles: dict[PartitionCopy, _Trouble] = {}
        self._fetchers: set[int] = set()
        self._open: dict[int, float] = {}

    def fetcher_begins(self, node: int) -> None:
        """Note that a fetcher polls this broker."""
        self._fetchers.add(node)

    def fetch_begins(self, node: int, now: float) -> None:
        """Note that a fetch was sent to a broker."""
        self._open[node] = now

    def fetch_ends(self, node: int) -> None:
        """Note that the fetch was answered or failed."""
        self._open.pop(node, None)

    @property
    def is_quiet(self) -> bool:
        """Return whether no partition is failing or reported as unavailable."""
        return not self._troubles and not self._reported

    def may_fetch(self, p: PartitionCopy, now: float) -> bool:
        """Return whether a partition may be fetched: not while the back-off after a failure lasts."""
        trouble = self._troubles.get(p)
        return trouble is None or (not trouble.held and now >= trouble.retry_at)

    def failed(self, p: PartitionCopy, reason: str, now: float, *, hold: bool = False) -> bool:
        """A fetch of a partition failed. Returns whether it was in no trouble before.

        :param hold: fetch it again only after :meth:`settled`
        """
        fresh = p not in self._troubles
        trouble = self._trouble(p)
        trouble.reason = reason
        trouble.failures += 1
        trouble.retry_at = now + min(_LONGEST_SECONDS, _pause(trouble.failures - 1))
        trouble.held = hold
        return fresh

    def settled(self, p: PartitionCopy, reason: str) -> None:
        """The meaning of a failure is known.

        :param reason: why the partition still cannot be fetched; empty when it can be
        """
        trouble = self._trouble(p)
        trouble.reason, trouble.held = reason, False
        if not reason:
            trouble.failures, trouble.retry_at = 0, 0.0

    def retry(self, p: PartitionCopy) -> None:
        """Retry at once: another broker leads the partition, so the former one's errors no longer count."""
        if (trouble := self._troubles.get(p)) is not None:
            trouble.retry_at, trouble.held = 0.0, False

    def works(self, fetched: Iterable[PartitionCopy]) -> list[PartitionCopy]:
        """Fetches of some partitions succeeded. Returns those that were reported as unavailable."""
        if self.is_quiet:
            return []
        available = []
        for p in fetched:
            self._troubles.pop(p, None)
            if p.source in self._reported:
                self._reported.discard(p.source)
                available.append(p)
        return available

    def activity(self, p: PartitionCopy, now: float) -> Activity:
        """The activity for a partition, or the reason why it makes no progress."""
        trouble = self._troubles.get(p)
        error = self.overdue(p.leader, now) or (trouble.reason if trouble is not None else "")
        return activity(p, fetcher=p.leader in self._fetchers, source_error=error)

    def reason(self, p: PartitionCopy, now: float) -> str:
        """Why a partition makes no progress; empty when it does."""
        at_work = self.activity(p, now)
        return "" if at_work.progress else at_work.text

    def overdue(self, node: int, now: float) -> str:
        """Return why a broker counts as not answering; empty when its fetch is not overdue."""
        since = self._open.get(node)
        if since is None or now - since < self._overdue_after:
            return ""
        return f"broker {node} has not answered a fetch for {now - since:.0f} s"

    def round(self, partitions: Iterable[PartitionCopy], now: float) -> list[UnavailablePartition]:
        """Look at all partitions once. Return those to report now: not every try is reported."""
        unavailable = []
        for p in partitions:
            at_work = self.activity(p, now)
            if at_work.reported_by is ReportedBy.SOURCE:
                trouble = self._trouble(p)
                if now < trouble.due:
                    continue
                trouble.tries += 1
                trouble.due = now + min(ROUND_SECONDS, _pause(trouble.tries))
                if trouble.tries in SAY_AT:
                    self._reported.add(p.source)
                    unavailable.append(UnavailablePartition(p, at_work.text, trouble.tries))
            elif p.state is CopyState.STOPPED:
                self._troubles.pop(p, None)
            elif (trouble_before := self._troubles.get(p)) is not None:
                trouble_before.tries, trouble_before.due = 0, 0.0
        return unavailable

    def needs_leaders(self) -> bool:
        """Return whether the leaders of some partitions must be looked up."""
        return any(t.tries or t.failures for t in self._troubles.values())

    def pause(self, now: float) -> float:
        """Seconds until the next round."""
        due = min((t.due for t in self._troubles.values() if t.tries), default=now + ROUND_SECONDS)
        return min(ROUND_SECONDS, max(0.0, due - now))

    def _trouble(self, p: PartitionCopy) -> _Trouble:
        return self._troubles.setdefault(p, _Trouble())


def _pause(number: int) -> float:
    """Doubles from number to number."""
    return _FIRST_SECONDS * 2.0 ** min(number, 8)
