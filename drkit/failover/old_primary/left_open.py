"""Promoted topics that the old primary takes writes for, and whose fence is on no record any more.

Somebody has lifted it by `drkit fence lift --accept-divergence`: that takes it off the record, too. Only a
person knows whether it may be up again.
"""

from __future__ import annotations

from collections.abc import Mapping

from drkit.failover.core.context import Context
from drkit.failover.core.reverse import reverse_state
from drkit.failover.fencing.methods import recorded_acls, recorded_sizes
from drkit.failover.fencing.proof import prove
from drkit.failover.fencing.source_record import aborted_runs
from drkit.flow_state.records import PendingFence, PendingLift, ReturnRecord, RoleRecord
from drkit.flow_state.returns import still_away
from drkit.status.pair.facts import FENCED_HERE


def left_open(context: Context, fenced_by: Mapping[str, str]) -> list[str]:
    """Return the promoted source topics that take writes though their fence is on no record, sorted.

    Not those that are copied back since: the flow in the other direction has to write there. Not those of a
    run that was aborted at the source: clients write there.

    :param fenced_by: run → how its step FENCE ended
    :raises DrkitError: the source does not tell
    """
    state = context.state
    roles = state.records.readable(RoleRecord)
    pending = [r for r in (state.get(PendingFence), state.get(PendingLift)) if r is not None]
    accounted = {*recorded_sizes(state), *(a.name for a in recorded_acls(state))}
    accounted |= {topic for record in pending for topic in record.topics}
    copies = {topic: known[0] for topic, known in context.known.topics.items()}
    wanted = off_record({t: r for t, r in roles.items() if t not in accounted}, copies, fenced_by)
    if not wanted:
        return []
    returned = reverse_state(context).all(ReturnRecord)
    found = still_away(wanted, copies, returned)
    if not found or context.source() is None:
        return []
    proof = prove(context.source_settings, context.settings.failover.fence.canary, sorted(found))
    takes = {at.topic for at in proof.taking}
    ended = aborted_runs(context) if takes else frozenset()
    return sorted(t for t in takes if found[t].run_id not in ended)


def off_record(
    roles: Mapping[str, RoleRecord], copies: Mapping[str, str], fenced_by: Mapping[str, str]
) -> dict[str, RoleRecord]:
    """Those topics without a fence on record that a failover has promoted and fenced. Pure.

    :param roles: of the topics without a fence on record
    :param copies: source topic → its copy
    :param fenced_by: run → how its step FENCE ended
    """
    return {
        topic: role
        for topic, role in roles.items()
        if role.is_promoted and topic in copies and fenced_by.get(role.run_id, "") in FENCED_HERE
    }
