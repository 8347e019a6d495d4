"""Metrics of a pair: the flows between two clusters in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drkit.status.model import FlowStatus
from drkit.status.pair.model import PairAlarm, PairState

_FLOW: Final = ("source", "target")

PAIR_ROWS: Final = (
    ("drkit_pair_topics", "gauge", (*_FLOW, "state"),
     "Topics of both directions: protected, unprotected, failing_over, failing_back, unknown."),
    ("drkit_pair_alarm_topics", "gauge", (*_FLOW, "fault"),
     "Topics that clients may write on both sides (both_open), or can write on neither (both_closed)."),
    ("drkit_unprotected_seconds", "gauge", _FLOW,
     "Since the earliest promotion of a topic that nothing copies back; 0 without one."),
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
    since, soonest = pair.since_ms, pair.soonest
    yield "drkit_unprotected_seconds", flow, 0 if since is None else max(0, status.at_ms - since) / 1000
    if soonest is not None and soonest.delta is not None and soonest.delta.until_ms is not None:
        yield "drkit_delta_whole_seconds", flow, (soonest.delta.until_ms - status.at_ms) / 1000
    unknown = any(t.delta is not None and t.delta.unknown for t in pair.topics)
    yield "drkit_delta_used_ratio", flow, pair.delta_used or (None if unknown else 0.0)
