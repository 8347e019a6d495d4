"""Whether a run owns the fence of the old primary: then nothing but that run applies or lifts it. Pure."""

from __future__ import annotations

from drkit.errors import Refused
from drkit.failover.core.machine import RETURN
from drkit.failover.journal.entries import RunLog
from drkit.flow_state.pending_fence import paid_with
from drkit.next_command import typed


def refuse_owned(run: RunLog | None, flow: str) -> None:
    """Refuse to apply or lift a fence while a run that can still be aborted owns it.

    :param run: the one that is under way
    :param flow: its flow's name
    :raises Refused: there is one
    """
    if run is None or not run.abortable:
        return
    command = typed(*run.table.command.split(), "--flow", flow)
    if run.table is RETURN:
        then = f", which fences it again after a failover; or {command} --abort, then: {paid_with(flow)}"
    else:
        then = f", or {command} --abort, which lifts its fences"
    raise Refused(
        "fence_owned",
        where=f"run {run.run_id}",
        evidence=f"it is {run.state} at {run.last_step or 'its beginning'}",
        table=run.table.name,
        command=command,
        then=then,
    )
