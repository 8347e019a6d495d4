"""Keeps the reverse flow off the topics of a switchover: it may run already, and would copy back at once.

After the switchover it may copy only what a return has begun: see :mod:`drkit.failover.returning`.
"""

from __future__ import annotations

from drkit.config import FlowSettings
from drkit.failover.core.context import Context
from drkit.failover.core.reverse import state_of
from drkit.flow_state.lease.watch import replicator_of
from drkit.flow_state.records import ControlRecord, GenerationRecord, Role, RoleRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic


class ReverseHold:
    """Freezes the topics of the scope for the reverse flow; does nothing where that has no state."""

    def __init__(self, context: Context, state: StateTopic | None) -> None:
        self._context, self._state, self._topics = context, state, 0
        self._before = state.get(ControlRecord) if state is not None else None

    def freeze(self) -> int:
        """Freeze them; return how many. Repeated, it does nothing more.

        :raises DrkitError: its state cannot be written
        """
        state, context = self._state, self._context
        if state is None:
            return 0
        role = RoleRecord(Role.FROZEN, context.term, context.run_id, context.wall())
        roles, known = state.all(RoleRecord), state.all(GenerationRecord)
        mine = [t for t in context.scope.topics.values() if t in known and t not in roles]
        state.put_all((topic, role) for topic in mine)
        self._topics = len(mine)
        return len(mine)

    def is_noticed(self) -> bool:
        """Whether no replicator copies the topics any more: it has another plan, or does not run."""
        if self._state is None or not self._topics:
            return True
        self._state.load()
        return has_left(self._state.records, self._before, self._context.wall())


def has_left(state: FlowState, before: ControlRecord | None, now_ms: int) -> bool:
    """Whether the replicator of a flow has another plan than before, or does not run.

    :param state: of the flow, loaded after its topics were frozen
    """
    runner, now = replicator_of(state, now_ms), state.get(ControlRecord)
    return runner is None or not runner.alive or _plan(now) != _plan(before)


def _plan(control: ControlRecord | None) -> int | None:
    return None if control is None else control.plan


def reverse_hold(context: Context) -> ReverseHold:
    """Return the means to freeze the reverse flow; its state stays open until the run ends.

    They do nothing in a failover that is not planned, where no reverse flow is configured or ran, or while
    the source does not answer.

    :raises DrkitError: its state cannot be read
    """
    back = _reverse(context) if context.request.planned else None
    if back is None or context.source() is None:
        return ReverseHold(context, None)
    state = context.kept.reverse_of(lambda: state_of(context.settings, back))
    if state is not None:
        state.load()
    return ReverseHold(context, state)


def release_reverse(context: Context) -> None:
    """Undo :meth:`ReverseHold.freeze`; a source that does not answer keeps its topics frozen, as is noted.

    :raises DrkitError: the state cannot be written
    """
    back = _reverse(context)
    if back is None or context.source() is None:
        return
    with state_of(context.settings, back) as state:
        if state is None:
            return
        roles = state.all(RoleRecord).items()
        state.delete_all(RoleRecord, [t for t, r in roles if r.is_frozen and r.run_id == context.run_id])


def _reverse(context: Context) -> FlowSettings | None:
    flow = context.flow
    pairs = (f for f in context.settings.flows if (f.source, f.target) == (flow.target, flow.source))
    return next(pairs, None)
