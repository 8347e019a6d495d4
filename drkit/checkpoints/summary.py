"""What checkpoint rounds leave behind: a summary in the flow's state, and figures for metrics. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from drkit.checkpoints.group_ledger import GroupLedger
from drkit.checkpoints.other_groups import OtherGroup, to_state
from drkit.checkpoints.shard import SHOWN, ShardReport
from drkit.config import FlowSettings
from drkit.counted import counted, first_of
from drkit.flow_state.copied_topics import known_of
from drkit.flow_state.records import CheckpointsRecord, RoleRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.codes import GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, error_name
from drkit.kafka.groups.asking import NO_ANSWER
from drkit.min_max_mean import MinMaxMean
from drkit.observe import MOST_GROUPS
from drkit.offsets.group_guard import GuardVerdict

_REFUSALS: Final = frozenset({GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED})


def wants_checkpoints(flow: FlowSettings) -> bool:
    """Whether group offsets of a flow are to be looked at."""
    return flow.emit_checkpoints or flow.sync_group_offsets


def promoted_topics(state: FlowState) -> list[str]:
    """Topics of the target that a failover opened, or is about to, from the flow's state."""
    roles = state.all(RoleRecord)
    return [target for name, (target, *_) in known_of(state).topics.items() if name in roles]


@dataclass(slots=True)
class RoundTotals:
    """What the rounds of a flow did since it was started."""

    rounds: int = 0
    failed: int = 0
    """Of these, how many broke off for some groups."""
    refused: Counter[str] = field(default_factory=Counter)
    """Positions that were not written, by verdict, over all rounds."""
    latency_ms: dict[str, MinMaxMean] = field(default_factory=dict)
    """By group: from the reading of its offsets to the moment when its checkpoint was durable."""

    def take(self, reports: Sequence[ShardReport], groups: Container[str]) -> None:
        """Add one round.

        :param groups: all that there are: others are forgotten
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
    before: CheckpointsRecord | None,
    ledger: GroupLedger,
    seconds: float = 0.0,
    others: Sequence[OtherGroup] = (),
) -> CheckpointsRecord:
    """A summary of one round, which shows how fresh positions are.

    A round without reports counts as well: the source's log has shown that no group had moved.

    :param before: the summary of the round before
    :param ledger: has these reports already; it knows the groups that were not looked at, too
    :param seconds: how long the round took, where no report contains it
    :param others: groups that are not consumer groups
    """
    error = next((r.error for r in reports if r.error), "") or _unanswered(ledger.unread())
    ended_well = before.ok_ms if before is not None else 0
    return CheckpointsRecord(
        now_ms,
        # A round that broke off or got no answer for some groups does not count: which positions are old is
        # not reported.
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
    """Which groups the source did not answer about; empty: none.

    A refusal does not count: it lasts until a person grants the right, and says nothing about other groups.
    """
    silent = {group: code for group, code in unread.items() if code not in _REFUSALS}
    if not silent:
        return ""
    whose = f"{counted(len(silent), 'group')} ({first_of(sorted(silent))})"
    why = sorted({"no answer" if code == NO_ANSWER else error_name(code) for code in silent.values()})
    return f"the source did not return the offsets of {whose}: {', '.join(why)}"


def _span(reports: Sequence[ShardReport]) -> float:
    """Seconds from the first shard's begin to the last one's end: shards may wait for each other's slots."""
    told = [r for r in reports if r.started_ms]
    if not told:
        return 0.0
    return max(r.started_ms / 1000 + r.seconds for r in told) - min(r.started_ms for r in told) / 1000
