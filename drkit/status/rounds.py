"""How a flow's checkpoint rounds went, from the flow's state on the target."""

from __future__ import annotations

from drkit.config import FlowSettings
from drkit.flow_state.records import CheckpointsRecord, SourceSeenRecord
from drkit.flow_state.state import FlowState
from drkit.status.groups import STALE_ROUNDS, STALE_SECONDS, Rounds


def rounds_of(state: FlowState, flow: FlowSettings, now_ms: int, *, source_answers: bool) -> Rounds:
    """State of the rounds; for a lost source up to when it was last seen: no round can succeed since."""
    last, seen = state.get(CheckpointsRecord) or CheckpointsRecord(0), state.get(SourceSeenRecord)
    gone = 0 if source_answers or seen is None else max(0, now_ms - seen.at_ms)
    return Rounds(
        last.age_seconds(now_ms),
        max(STALE_SECONDS, STALE_ROUNDS * flow.checkpoint_interval_seconds), gone / 1000,
        last.error, last.seconds, dict(last.verdicts or {}),
    )  # fmt: skip


def not_stored_of(state: FlowState) -> dict[tuple[str, str], str]:
    """What the newest round wrote and did not find on the target afterwards, and why."""
    last = state.get(CheckpointsRecord) or CheckpointsRecord(0)
    return {(group, at): why for group, at, verdict, why in last.refused if verdict == "NOT_STORED"}
