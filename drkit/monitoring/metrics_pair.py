"""Metrics of a pair: the flows between two clusters in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from drkit.status.model import FlowStatus
from drkit.status.pair.model import PairAlarm, PairState

_FLOW: Final = ("source", "target")

PAIR_ROWS: Final = (
    ("drkit_pair_topics", "gauge", (*_FLOW, "state"),
     "Topics of both directions, by state; the states are those of drkit status."),
    ("drkit_pair_alarm_topics", "gauge", (*_FLOW, "fault"),
     "Topics with an alarm: both_open, both_closed, incomplete, unreplayed (see drkit status)."),
    ("drkit_held_run_topics", "gauge", _FLOW,
     "Topics of a failover or failback that is held: it waits for a person."),
    ("drkit_returning_partitions", "gauge", (*_FLOW, "in_step"),
     "Partitions of topics that are copied to an old primary after an unplanned failover: in step, or not."),
    ("drkit_unprotected_seconds", "gauge", _FLOW,
     "Since the earliest promotion of a topic that is not copied back, or not in step yet; 0 without one."),
    ("drkit_delta_whole_seconds", "gauge", _FLOW,
     "Until the active side may remove records written since a promotion; none without a limit."),
    ("drkit_delta_used_ratio", "gauge", _FLOW,
     "Used share of that time, or of retention.bytes; 0 without a limit."),
)  # fmt: skip
Sample = tuple[str, tuple[str, ...], float | None]


def pair_samples(flow: tuple[str, str], status: FlowStatus) -> Iterator[Sample]:
    """Every value for the pair of one flow."""
    pair = status.pair
    if pair is None:
        return
    for state in PairState:
        yield "drkit_pair_topics", (*flow, state.value), pair.count(state)
    for alarm in PairAlarm:
        yield "drkit_pair_alarm_topics", (*flow, alarm.value), len(pair.with_alarm(alarm))
    yield "drkit_held_run_topics", flow, sum(t.is_held for t in pair.topics)
    returning = [t for t in pair.topics if t.state is PairState.RETURNING]
    in_step = sum(t.in_step or 0 for t in returning)
    yield "drkit_returning_partitions", (*flow, "true"), in_step
    left = sum(t.partitions or 0 for t in returning) - in_step
    yield "drkit_returning_partitions", (*flow, "false"), left
    since, soonest = pair.since_ms, pair.soonest
    yield "drkit_unprotected_seconds", flow, 0 if since is None else max(0, status.at_ms - since) / 1000
    if soonest is not None and soonest.delta is not None and soonest.delta.until_ms is not None:
        yield "drkit_delta_whole_seconds", flow, (soonest.delta.until_ms - status.at_ms) / 1000
    unknown = any(t.delta is not None and t.delta.unknown for t in pair.topics)
    yield "drkit_delta_used_ratio", flow, pair.delta_used or (None if unknown else 0.0)


_DRILL: Final = ("source", "target", "drill", "kind")
"""Files for different pairs may have drills of one name."""
PASSED: Final = "drkit_drill_last_pass_timestamp_seconds"
VERDICT: Final = "drkit_drill_last_verdict"
OVERDUE: Final = "drkit_drill_overdue"
OWED: Final = "drkit_drill_cleanup_owed"

DRILL_ROWS: Final = (
    (
        PASSED,
        "gauge",
        _DRILL,
        "When the last drill that passed began, since 1970; none before the first pass.",
    ),
    (VERDICT, "gauge", (*_DRILL, "verdict"), "1 for the verdict of the last drill that ended."),
    (OVERDUE, "gauge", _DRILL, "1: it did not pass within max_age_days."),
    (OWED, "gauge", _DRILL, "1: what it made may still be there, see drkit drill cleanup."),
)
DrillSamples = Callable[[], Iterable[Sample]]
