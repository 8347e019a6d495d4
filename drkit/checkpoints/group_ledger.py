"""The groups that a checkpoint round has to look at, and the known state of all groups. Pure.

A group's position on the target changes only when the group commits on the source, when the copy passes an
offset that it had not reached, or after the target prevented a write. The source's offsets topic shows the
first; groups in one of the other cases are read in each round until it is over. A full read of every group,
spread evenly over the rounds, finds any other change.

A look reads the source first. If the source has nothing new and nothing was left open, it does not read the
target: such a look is quick.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import Any, Final

from drkit.checkpoints.other_groups import OtherGroup, other_groups, to_state
from drkit.checkpoints.shard import NO_ROUND, SHOWN, Refusal, ShardReport
from drkit.config import FlowSettings, Settings
from drkit.counted import counted, first_of
from drkit.flow_state.copied_topics import known_of
from drkit.flow_state.records import CheckpointsRecord, RoleRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.codes import GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, error_name
from drkit.kafka.groups.asking import NO_ANSWER
from drkit.kafka.groups.requests import listed_groups
from drkit.min_max_mean import MinMaxMean
from drkit.observe import MOST_GROUPS
from drkit.offsets.group_guard import GuardVerdict
from drkit.topic_sync.preview import as_admin

_DONE: Final = {v.name: GuardVerdict.UNCHANGED.name for v in (GuardVerdict.WRITE, GuardVerdict.REFRESH)}
"""Verdict of a round → verdict that counts in later rounds."""

SOON_SECONDS: Final = 120.0
"""Within this time every group is looked at after :meth:`GroupLedger.look_soon`."""


@dataclass(slots=True)
class _Entry:
    """The result of the last look at a group."""

    looked_at: float = float("-inf")
    """When it was, on both sides."""
    round: int = NO_ROUND
    """Number of that round; `NO_ROUND` while a round looks at the group."""
    positions: int = 0
    verdicts: Mapping[str, int] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    unread: int = 0
    open: bool = True
    """The look left something to do, so the next look is not quick."""
    fresh: bool = False
    """The newest round looked at it."""


@dataclass(slots=True)
class _Pace:
    """Groups per second, in rounds of whole groups: the fraction left of one round counts in the next."""

    owed: float = 0.0

    def due(self, passed: float, per_second: float, most: int) -> int:
        """Return the number of due groups, `passed` seconds after the last call."""
        self.owed = min(most, self.owed + passed * per_second)
        whole = int(self.owed)
        self.owed -= whole
        return whole


class GroupLedger:
    """Keeps the groups' entries from round to round. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._pending: set[str] = set()
        self._changed: frozenset[str] = frozenset()
        """Changed since the last round: read twice, as the log may show an offset slightly before its
        coordinator does."""
        self._unsynced: set[str] = set()
        """Looked at in a round that wrote no positions on the target."""
        self._planned_at: float | None = None
        self._slow_pace, self._soon_pace = _Pace(), _Pace()
        self._soon: deque[str] = deque()
        self._soon_per_second = 0.0
        self.quick: frozenset[str] = frozenset()
        """Groups of the newest round for which a quick look suffices."""

    def due(
        self,
        groups: Collection[str],
        changed: frozenset[str] | None,
        now: float,
        *,
        look_seconds: float,
        sync: bool,
    ) -> list[str]:
        """Return the groups to look at in the next round.

        :param groups: all existing groups
        :param changed: groups with commits in the source's log; None if unknown
        :param look_seconds: within this time every group is looked at, changed or not
        :param sync: the round writes positions on the target
        """
        existing = frozenset(groups)
        for name in self._entries.keys() - existing:
            del self._entries[name]
        for entry in self._entries.values():
            entry.fresh = False
        self._changed = frozenset() if changed is None else changed & existing
        self._pending |= existing if changed is None else self._changed | existing.difference(self._entries)
        full_looks = self._unsynced & existing if sync else set[str]()
        self._unsynced = set() if sync else self._unsynced & existing
        passed = max(0.0, now - self._planned_at) if self._planned_at is not None else 0.0
        self._planned_at = now
        full_looks |= self._oldest(len(existing), now, passed, look_seconds)
        soon = self._soon_pace.due(passed, self._soon_per_second, len(self._soon))
        self._pending = (self._pending | full_looks | {self._soon.popleft() for _ in range(soon)}) & existing
        quick = () if changed is None else self._pending & self._entries.keys() - full_looks
        self.quick = frozenset(name for name in quick if not self._entries[name].open)
        return sorted(self._pending)

    def look_soon(self) -> None:
        """Let the next rounds look at every group, some in each: the source may have more than was known."""
        self._soon = deque(dict.fromkeys([*self._soon, *sorted(self._entries)]))
        self._soon_per_second = len(self._soon) / SOON_SECONDS

    def _oldest(self, count: int, now: float, passed: float, look_seconds: float) -> set[str]:
        """Return the least recently read groups: as many as spread the work evenly over the rounds.

        Groups that are due anyway count too: a group that repeats its commit gets only quick looks.
        """
        due = self._slow_pace.due(passed, count / look_seconds, count)
        looks = [(e.looked_at, name) for name, e in self._entries.items()]
        late = {name for at, name in looks if now - at >= look_seconds}
        return late.union(name for _, name in nsmallest(due, looks)) if due else late

    def sent(self, groups: Iterable[str]) -> tuple[int, ...]:
        """Return the groups' last rounds, and reset them until :meth:`take`: the round may fail."""
        rounds = []
        for name in groups:
            entry = self._entries.setdefault(name, _Entry())
            rounds.append(entry.round)
            entry.round = NO_ROUND
        return tuple(rounds)

    def take(self, report: ShardReport, now: float) -> None:
        """Record the result of a round; groups of a failed one stay due."""
        if report.error:
            return
        look_again, same = {*report.again, *report.unread}, frozenset(report.same)
        refused: dict[str, list[Refusal]] = {}
        for refusal in report.refused:
            refused.setdefault(refusal[0], []).append(refusal)
        for name, count in report.positions_of.items():
            previous = self._entries.get(name, _Entry())
            if name in same:
                verdicts = {_DONE.get(verdict, verdict): n for verdict, n in previous.verdicts.items()}
                self._entries[name] = replace(previous, round=report.round, verdicts=verdicts, fresh=True)
            else:
                if not report.synced:
                    self._unsynced.add(name)
                self._entries[name] = _Entry(
                    now, report.round, count,
                    report.verdicts_of.get(name, {}) if report.synced else previous.verdicts,
                    refused.get(name, []) if report.synced else previous.refused,
                    report.unread.get(name, 0), open=name in look_again, fresh=True,
                )  # fmt: skip
            if name not in look_again and name not in self._changed:
                self._pending.discard(name)

    @property
    def names(self) -> Collection[str]:
        """The known groups."""
        return self._entries.keys()

    @property
    def groups(self) -> int:
        """Number of known groups."""
        return len(self._entries)

    @property
    def positions(self) -> int:
        """Number of their committed offsets in copied partitions."""
        return sum(e.positions for e in self._entries.values())

    @property
    def looked_at(self) -> int:
        """Number of groups that the newest round looked at."""
        return sum(e.fresh for e in self._entries.values())

    def verdicts(self) -> Counter[str]:
        """Count positions by verdict; those that an earlier round wrote count as unchanged."""
        counts = Counter[str]()
        for entry in self._entries.values():
            for verdict, count in entry.verdicts.items():
                counts[verdict if entry.fresh else _DONE.get(verdict, verdict)] += count
        return counts

    def refused(self) -> list[Refusal]:
        """Return positions that were not written, those of the newest round first."""
        ordered = sorted(self._entries.values(), key=lambda e: not e.fresh)
        return [line for entry in ordered for line in entry.refused]

    def unread(self) -> dict[str, int]:
        """Groups whose offsets the source did not return, and the error code."""
        return {name: e.unread for name, e in self._entries.items() if e.unread}


_REFUSALS: Final = frozenset({GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED})


def wants_checkpoints(flow: FlowSettings) -> bool:
    """Return whether a flow needs the offsets of groups."""
    return flow.emit_checkpoints or flow.sync_group_offsets


def promoted_topics(state: FlowState) -> list[str]:
    """Topics of the target that a failover opened, or is about to, from the flow's state."""
    roles = state.all(RoleRecord)
    return [target for name, (target, *_) in known_of(state).topics.items() if name in roles]


@dataclass(slots=True)
class RoundTotals:
    """Totals of the rounds of a flow since it was started."""

    rounds: int = 0
    failed: int = 0
    """Number of rounds that failed for some groups."""
    refused: Counter[str] = field(default_factory=Counter)
    """Positions that were not written, by verdict, over all rounds."""
    latency_ms: dict[str, MinMaxMean] = field(default_factory=dict)
    """By group: time from the read of its offsets until its checkpoint was durable."""

    def take(self, reports: Sequence[ShardReport], groups: Container[str]) -> None:
        """Add one round.

        :param groups: all existing groups; others are forgotten
        """
        for group in [group for group in self.latency_ms if group not in groups]:
            del self.latency_ms[group]
        self.rounds += 1
        self.failed += any(r.error for r in reports)
        verdicts = Counter[str]()
        for report in reports:
            verdicts.update(report.verdicts)
            for group in report.emitted_groups:
                if group in self.latency_ms or len(self.latency_ms) < MOST_GROUPS:
                    self.latency_ms.setdefault(group, MinMaxMean()).add(report.latency_ms)
        self.refused.update({v: n for v, n in verdicts.items() if GuardVerdict[v].is_refusal})


def summary(
    reports: Sequence[ShardReport],
    now_ms: int,
    last_summary: CheckpointsRecord | None,
    ledger: GroupLedger,
    seconds: float = 0.0,
    others: Sequence[OtherGroup] = (),
) -> CheckpointsRecord:
    """Return a summary of one round, which shows how recent positions are.

    A round without reports counts, too: the source's log showed no commits.

    :param last_summary: the summary of the round before
    :param ledger: includes these reports already, and the groups that were not looked at
    :param seconds: how long the round took, where no report contains it
    :param others: groups that are not consumer groups
    """
    error = next((r.error for r in reports if r.error), "") or _unanswered(ledger.unread())
    ended_well = last_summary.ok_ms if last_summary is not None else 0
    return CheckpointsRecord(
        now_ms,
        # A round that failed or got no answer for some groups does not count: the report does not show
        # which positions are outdated.
        ok_ms=ended_well if error else now_ms,
        groups=ledger.groups,
        looked_at=ledger.looked_at,
        positions=ledger.positions,
        emitted=sum(r.emitted for r in reports),
        verdicts=dict(ledger.verdicts()),
        refused=tuple(ledger.refused()[:SHOWN]),
        unread=ledger.unread(),
        not_synchronised=to_state(others),
        seconds=round(_span(reports) or seconds, 3),
        error=error,
    )


def _unanswered(unread: Mapping[str, int]) -> str:
    """Return an error that names the groups without an answer of the source, or an empty text.

    A refusal does not count: it lasts until a person grants the right, and concerns no other groups.
    """
    silent = {group: code for group, code in unread.items() if code not in _REFUSALS}
    if not silent:
        return ""
    whose = f"{counted(len(silent), 'group')} ({first_of(sorted(silent))})"
    reasons = sorted({"no answer" if code == NO_ANSWER else error_name(code) for code in silent.values()})
    return f"the source did not return the offsets of {whose}: {', '.join(reasons)}"


def _span(reports: Sequence[ShardReport]) -> float:
    """Return the seconds from the first shard's begin to the last one's end: shards may wait for slots."""
    timed = [r for r in reports if r.started_ms]
    if not timed:
        return 0.0
    return max(r.started_ms / 1000 + r.seconds for r in timed) - min(r.started_ms for r in timed) / 1000


def group_plan(settings: Settings, flows: Sequence[FlowSettings]) -> list[dict[str, Any]]:
    """One row for each group that a flow's filter accepts and that is not a consumer group.

    :raises DrkitError: a source does not answer
    """
    rows: list[dict[str, Any]] = []
    for flow in filter(wants_checkpoints, flows):
        listed = listed_groups(as_admin(settings, [flow])[flow.source])
        rows += [
            {"flow": flow.name, "topic": "", "what": "leave out group", "setting": o.group,
             "from": None, "to": None, "why": o.reason}
            for o in other_groups(listed, flow.group_filter.accepts)
        ]  # fmt: skip
    return rows
