"""Who replicates a flow, and who waits to take over, as the flow's state says."""

from __future__ import annotations

from dataclasses import dataclass

from drkit.flow_state.lease.watch import waiting_for
from drkit.flow_state.records import LeaseRecord
from drkit.flow_state.state import FlowState


@dataclass(frozen=True, slots=True)
class Runner:
    """Who replicates: the holder of the flow's lease."""

    host: str
    process: int
    run_id: str
    renewed_seconds: float
    alive: bool
    """Whether the lease was renewed in time."""


@dataclass(frozen=True, slots=True)
class StandbyStatus:
    """A process that waits for the lease."""

    host: str
    process: int
    run_id: str
    since_ms: int
    renewed_seconds: float
    """Since its last note."""
    ready: bool
    reason: str = ""
    """Why it is not ready."""


def runner_of(state: FlowState, now_ms: int) -> Runner | None:
    """The holder of the lease; None without a holder."""
    lease = state.get(LeaseRecord)
    if lease is None:
        return None
    holder, age = lease.holder, lease.age_ms(now_ms) / 1000
    return Runner(holder.host, holder.pid, lease.run_id, age, alive=lease.is_fresh(now_ms))


def standbys_of(state: FlowState, now_ms: int) -> tuple[StandbyStatus, ...]:
    """All waiting processes, the longest waiting first; one that is gone is not ready."""
    found = []
    for run_id, record, alive in waiting_for(state, now_ms):
        age = record.age_ms(now_ms)
        reason = record.reason
        if not alive:
            reason = "gone"
        elif age > record.ttl_ms:
            reason = f"no note from it for {age / 1000:.0f} s"
        ready = record.ready and not reason
        who = record.process
        found.append(
            StandbyStatus(who.host, who.pid, run_id, record.since_ms, age / 1000, ready=ready, reason=reason)
        )
    return tuple(found)
