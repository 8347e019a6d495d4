"""Processes that wait for a flow's lease: their records, and which of them are gone."""

from __future__ import annotations

from typing import Final, NamedTuple

from drkit.flow_state.processes import lives_here
from drkit.flow_state.records import LeaseRecord, StandbyRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic

_FORGET_MS: Final = 3_600_000
"""A record not renewed for this time is deleted; a standby that is alive writes it again."""


class WaitingProcess(NamedTuple):
    """A process that waits for the lease, or waited until it was gone."""

    run_id: str
    record: StandbyRecord
    alive: bool


def waiting_for(state: FlowState, now_ms: int) -> list[WaitingProcess]:
    """All recorded waiting processes except the holder; the longest waiting one first."""
    lease = state.get(LeaseRecord)
    found = [
        WaitingProcess(run_id, record, _lives(record, now_ms))
        for run_id, record in state.readable(StandbyRecord).items()
        if lease is None or lease.run_id != run_id
    ]
    return sorted(found, key=lambda w: w.record.since_ms)


def forget_gone(state: StateTopic, now_ms: int) -> None:
    """Delete the records of processes that are gone. A living one, deleted by a wrong clock, writes it again.

    :raises DrkitError: the target does not accept it
    """
    for run_id, record, _ in waiting_for(state.records, now_ms):
        alive = lives_here(record.process)
        if alive is False or (alive is None and record.age_ms(now_ms) > _FORGET_MS):
            state.delete(StandbyRecord, run_id)


def _lives(record: StandbyRecord, now_ms: int) -> bool:
    alive = lives_here(record.process)
    return record.age_ms(now_ms) <= record.ttl_ms if alive is None else alive
