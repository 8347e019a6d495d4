"""Report the holder of a flow's lease and its standbys, and whether they seem alive."""

from __future__ import annotations

from typing import Final, NamedTuple

from drkit.flow_state.processes import lives_here
from drkit.flow_state.records import LeaseRecord, StandbyRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic

_LATE_SECONDS: Final = 1.0
"""How late a renewal may come, in seconds."""


class LeaseHolder(NamedTuple):
    """Who holds the flow's lease."""

    host: str
    process: int
    age_seconds: float
    alive: bool


def replicator_of(state: FlowState, now: int) -> LeaseHolder | None:
    """The holder of the flow's lease, from its state; None when the lease is free."""
    lease = state.get(LeaseRecord)
    if lease is None:
        return None
    # A holder on this machine is known to be dead at once, not only when its lease expires.
    alive = lease.is_fresh(now) and lives_here(lease.holder) is not False
    return LeaseHolder(lease.holder.host, lease.holder.pid, lease.age_ms(now) / 1000, alive=alive)


class LeaseWatch:
    """Judges a lease by whether it is renewed while this process watches.

    Clocks of two machines differ: one that is an hour slow makes a living replicator look dead.
    """

    def __init__(self) -> None:
        self._known: LeaseRecord | None = None
        self._since = 0.0
        self.is_renewed = False
        """True if it was renewed while this process watched."""

    def look(self, state: FlowState, now_ms: int, clock: float) -> LeaseHolder | None:
        """The holder of the lease; alive until a due renewal is missing.

        :param clock: of this process, in seconds
        """
        lease, found = state.get(LeaseRecord), replicator_of(state, now_ms)
        if lease is None or found is None:
            return None
        if lease != self._known:
            self.is_renewed = self._known is not None
            self._known, self._since = lease, clock
        if lives_here(lease.holder) is not None:
            return found
        ttl = lease.ttl_ms / 1000
        allowed = ttl if self.is_renewed or found.alive else ttl / 3 + _LATE_SECONDS
        return found._replace(alive=clock - self._since < allowed)


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
