"""The holder of a flow's lease, and whether it seems alive. Pure, but reads processes of this machine."""

from __future__ import annotations

from typing import Final, NamedTuple

from drkit.flow_state.processes import lives_here
from drkit.flow_state.records import LeaseRecord
from drkit.flow_state.state import FlowState

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
        self._renewed = False

    def look(self, state: FlowState, now_ms: int, clock: float) -> LeaseHolder | None:
        """The holder of the lease; alive until a due renewal is missing.

        :param clock: of this process, in seconds
        """
        lease, found = state.get(LeaseRecord), replicator_of(state, now_ms)
        if lease is None or found is None:
            return None
        if lease != self._known:
            self._renewed = self._known is not None
            self._known, self._since = lease, clock
        if lives_here(lease.holder) is not None:
            return found
        ttl = lease.ttl_ms / 1000
        allowed = ttl if self._renewed or found.alive else ttl / 3 + _LATE_SECONDS
        return found._replace(alive=clock - self._since < allowed)

    @property
    def is_renewed(self) -> bool:
        """Whether it was renewed while this process watched."""
        return self._renewed
