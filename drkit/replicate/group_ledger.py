"""Which groups a checkpoint round has to look at, and what is known of all of them. Pure.

A group's position on the target changes only when the group commits on the source, when the copy passes an
offset that it had not reached, or when something on the target stood in its way. The first is told by the log
of group offsets, the others are asked about again until they are over. Whatever else may happen is found by a
slow look at every group, spread evenly over the rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from drkit.offsets.group_guard import Verdict
from drkit.replicate.checkpoint_shard import NO_ROUND, Refusal, ShardReport

_DONE: Final = {v.name: Verdict.UNCHANGED.name for v in (Verdict.WRITE, Verdict.REFRESH)}
"""What the verdicts of a round are to the ones behind it."""

SOON_SECONDS: Final = 120.0
"""Within this time every group is looked at after :meth:`GroupLedger.look_soon`."""


@dataclass(slots=True)
class _Entry:
    """What the last look at a group showed."""

    looked_at: float = float("-inf")
    round: int = NO_ROUND
    """Which one that was; none while a round is at it."""
    positions: int = 0
    verdicts: Mapping[str, int] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    unread: int = 0
    fresh: bool = False
    """The newest round looked at it."""


class GroupLedger:
    """Keeps this from round to round. Times are seconds of a steady clock."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._pending: set[str] = set()
        self._changed: frozenset[str] = frozenset()
        """Changed since the round before: looked at twice, as the log may tell of an offset a moment before
        its coordinator does."""
        self._unsynced: set[str] = set()
        """Looked at in a round that wrote no positions on the target."""
        self._planned_at: float | None = None
        self._soon_until = float("-inf")
        self._owed = 0.0
        """Groups to which nothing is known to have happened, and which should have been looked at by now."""

    def due(
        self,
        groups: Collection[str],
        changed: frozenset[str] | None,
        now: float,
        *,
        look_seconds: float,
        sync: bool,
    ) -> list[str]:
        """The groups to look at in the next round.

        :param groups: all there are
        :param changed: those of which the source's log tells; None: nobody can say
        :param look_seconds: within this time every group is looked at, whatever is known of it
        :param sync: the round writes positions on the target
        """
        there = frozenset(groups)
        for name in self._entries.keys() - there:
            del self._entries[name]
        for entry in self._entries.values():
            entry.fresh = False
        self._changed = frozenset() if changed is None else changed & there
        self._pending |= there if changed is None else self._changed | there.difference(self._entries)
        if sync:
            self._pending |= self._unsynced
            self._unsynced.clear()
        self._pending &= there
        self._pending.update(self._oldest(len(there), now, look_seconds))
        self._planned_at = now
        return sorted(self._pending)

    def look_soon(self, now: float) -> None:
        """Let the next rounds look at every group, some in each: it may have more than was known."""
        self._soon_until = now + SOON_SECONDS

    def _oldest(self, count: int, now: float, look_seconds: float) -> Iterable[str]:
        """Those that were looked at longest ago: as many as keeps the work of all rounds even."""
        if self._planned_at is not None:
            soon = self._planned_at < self._soon_until
            every = min(SOON_SECONDS, look_seconds) if soon else look_seconds
            self._owed = min(count, self._owed + count * max(0.0, now - self._planned_at) / every)
        due, self._owed = int(self._owed), self._owed % 1
        idle = [(e.looked_at, name) for name, e in self._entries.items() if name not in self._pending]
        late = {name for at, name in idle if now - at >= look_seconds}
        return late.union(name for _, name in nsmallest(due, idle)) if due else late

    def sent(self, groups: Iterable[str]) -> tuple[int, ...]:
        """The rounds that looked at these groups last; until :meth:`take` none has: it may break off."""
        out = []
        for name in groups:
            entry = self._entries.setdefault(name, _Entry())
            out.append(entry.round)
            entry.round = NO_ROUND
        return tuple(out)

    def take(self, report: ShardReport, now: float) -> None:
        """Note what a round did; groups of one that broke off stay due."""
        if report.error:
            return
        again = {*report.again, *report.unread}
        refused: dict[str, list[Refusal]] = {}
        for line in report.refused:
            refused.setdefault(line[0], []).append(line)
        for name, count in report.positions_of.items():
            verdicts = report.verdicts_of.get(name)
            before = self._entries.get(name, _Entry())
            if not report.synced:
                self._unsynced.add(name)
            self._entries[name] = _Entry(
                now, report.round, count,
                (verdicts or {}) if report.synced else before.verdicts,
                refused.get(name, []) if report.synced else before.refused,
                report.unread.get(name, 0), fresh=True,
            )  # fmt: skip
            if name not in again and name not in self._changed:
                self._pending.discard(name)

    # -- all of them ----------------------------------------------------------------------------------

    @property
    def groups(self) -> int:
        """How many are known."""
        return len(self._entries)

    @property
    def positions(self) -> int:
        """Their committed offsets in copied partitions."""
        return sum(e.positions for e in self._entries.values())

    @property
    def looked_at(self) -> int:
        """How many of them the newest round looked at."""
        return sum(e.fresh for e in self._entries.values())

    def verdicts(self) -> Counter[str]:
        """What became of every position; what an earlier round wrote stands there unchanged."""
        found = Counter[str]()
        for entry in self._entries.values():
            for verdict, count in entry.verdicts.items():
                found[verdict if entry.fresh else _DONE.get(verdict, verdict)] += count
        return found

    def refused(self) -> list[Refusal]:
        """Positions that were not written, those of the newest round first."""
        ordered = sorted(self._entries.values(), key=lambda e: not e.fresh)
        return [line for entry in ordered for line in entry.refused]

    def unread(self) -> dict[str, int]:
        """Groups whose offsets the source did not tell, and Kafka's error code."""
        return {name: e.unread for name, e in self._entries.items() if e.unread}
