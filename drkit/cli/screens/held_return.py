"""What ``drkit reprotect --plan`` says of a return that is under way: it begins no other one. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from drkit.config import FlowSettings
from drkit.failover.core.machine import RETURN, RunState
from drkit.failover.core.request import RunRequest
from drkit.failover.journal.entries import EntryKind, RunLog

_DEAD: Final = "it continues by itself while its process lives"


def under_way(run: RunLog) -> dict[str, Any]:
    """The run, its step, and why it is held, as plain data; not held: without a reason."""
    error = run.held.get("error", {}) if is_held(run) else {}
    step = (run.held.get("step") if error else None) or run.last_step
    return {
        "run": run.run_id,
        "state": run.state.value,
        "step": str(step or ""),
        "held": error.get("error", ""),
        "evidence": error.get("evidence", ""),
        "hint": error.get("hint", ""),
    }


def is_held(run: RunLog) -> bool:
    """Whether a person has to continue it: its newest entry says so."""
    return run.entries[-1].kind is EntryKind.HELD


def lines_of(run: RunLog) -> Iterator[str]:
    """What a person reads of it, before the commands."""
    told = under_way(run)
    at = f"the return {told['run']} is under way, {told['state']} at {told['step'] or 'its beginning'}"
    evidence = f" ({told['evidence']})" if told["evidence"] else ""
    yield f"{at}: {told['held']}{evidence}" if told["held"] else f"{at}: {_DEAD}"
    if told["hint"]:
        yield f"what its refusal names: {told['hint']}"


def commands_of(run: RunLog, flow: FlowSettings, added: RunRequest) -> list[str]:
    """Return the commands that continue the run, and roll it back.

    :param flow: the flow that was failed over
    :param added: options that the run needs in addition
    """
    command = RETURN.typed("--flow", flow.name)
    lines = []
    if run.state is not RunState.ABORTING:
        lines.append(str(command.plus("--resume", *added.options())))
    if run.abortable:
        lines.append(f"to roll it back: {command.plus('--abort')}")
    return lines
