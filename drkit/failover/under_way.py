"""Refuse what a run under way excludes: another run, and a change of the fence that it owns. Pure."""

from __future__ import annotations

from drkit.errors import Refused
from drkit.failover.core.machine import RETURN
from drkit.failover.journal.entries import EntryKind, RunLog
from drkit.failover.journal.journal import RunLocked
from drkit.flow_state.pending_fence import paid_with


def refuse_held(run: RunLog | None) -> None:
    """Refuse to begin a run, or to show one that would begin, while another is held.

    :param run: the one that is under way
    :raises RunLocked: it is held; the error has its reason and the commands that end it
    """
    if run is None or run.entries[-1].kind is not EntryKind.HELD:
        return
    why = run.held.get("error", {}).get("error", "")
    raise RunLocked(
        "run_held",
        where=f"run {run.run_id}, term {run.term}",
        evidence=f"{run.state} at {run.last_step or 'its beginning'}" + (f": {why}" if why else ""),
        table=run.table.name,
        commands=run.table.next_commands(abortable=run.abortable),
    )


def refuse_owned(run: RunLog | None, flow: str) -> None:
    """Refuse to apply or lift a fence while a run that can still be aborted owns it.

    :param run: the one that is under way
    :param flow: its flow's name
    :raises Refused: there is one
    """
    if run is None or not run.abortable:
        return
    command = run.table.typed("--flow", flow)
    if run.table is RETURN:
        then = (
            f", which fences it again after a failover; or {command.plus('--abort')}, then: {paid_with(flow)}"
        )
    else:
        then = f", or {command.plus('--abort')}, which lifts its fences"
    raise Refused(
        "fence_owned",
        where=f"run {run.run_id}",
        evidence=f"it is {run.state} at {run.last_step or 'its beginning'}",
        table=run.table.name,
        command=command,
        then=then,
    )
