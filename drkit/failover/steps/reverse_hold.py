"""Keeps the reverse flow off the topics of a switchover: it may run already, and would copy back at once.

After the switchover it may copy only what a return has begun: see :mod:`drkit.failover.returning`.
"""

from __future__ import annotations

from typing import Final

from drkit.config import FlowSettings
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.machine import StepName
from drkit.failover.core.reverse import state_of
from drkit.flow_state.lease.watch import replicator_of
from drkit.flow_state.records import ControlRecord, GenerationRecord, Role, RoleRecord
from drkit.flow_state.topic import StateTopic

_NOTICE_SECONDS: Final = 2.0
"""Time for a running replicator to leave the topics out of its plan."""
_PAUSE_SECONDS: Final = 0.1


def hold_reverse(context: Context) -> int:
    """Freeze the topics of the scope for the reverse flow; return how many. Repeated, it does nothing more.

    Nothing happens where no reverse flow is configured or ran, or the source does not answer.

    :raises DrkitError: its state cannot be written
    """
    back = _reverse(context)
    if back is None or context.source() is None:
        return 0
    with state_of(context.settings, back) as state:
        if state is None:
            return 0
        role = RoleRecord(Role.FROZEN, context.term, context.run_id, context.wall())
        roles, known = state.all(RoleRecord), state.all(GenerationRecord)
        mine = [t for t in context.scope.topics.values() if t in known and t not in roles]
        before = state.get(ControlRecord)
        state.put_all((topic, role) for topic in mine)
        if mine:
            _let_go(context, state, before)
    return len(mine)


def release_reverse(context: Context) -> None:
    """Undo :func:`hold_reverse`; a source that does not answer keeps its topics frozen, which is told.

    :raises DrkitError: the state cannot be written
    """
    back = _reverse(context)
    if back is None or context.source() is None:
        return
    with state_of(context.settings, back) as state:
        if state is None:
            return
        for topic, role in state.all(RoleRecord).items():
            if role.is_frozen and role.run_id == context.run_id:
                state.delete(RoleRecord, topic)


def _reverse(context: Context) -> FlowSettings | None:
    flow = context.flow
    pairs = (f for f in context.settings.flows if (f.source, f.target) == (flow.target, flow.source))
    return next(pairs, None)


def _let_go(context: Context, state: StateTopic, before: ControlRecord | None) -> None:
    """Wait until the replicator has another plan, or a moment: the fence refuses its tasks, too."""
    deadline = context.clock() + _NOTICE_SECONDS
    while context.clock() < deadline:
        runner = replicator_of(state.records, context.wall())
        now = state.get(ControlRecord)
        if runner is None or not runner.alive or (now and now.plan) != (before and before.plan):
            return
        context.pause(_PAUSE_SECONDS)
        state.load()
    context.tell(StepProgress(StepName.FREEZE, "the replicator of the reverse flow did not answer in time"))
