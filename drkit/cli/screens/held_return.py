"""What ``drkit reprotect --plan`` says of a return that is under way: it begins no other one. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from drkit.config import FlowSettings
from drkit.failover.core.machine import RETURN, RunState
from drkit.failover.core.request import RunRequest
from drkit.failover.core.said import begin_words, decision_words
from drkit.failover.journal.entries import EntryKind, RunLog

_DEAD: Final = "it continues by itself while its process lives"


def request_with(run: RunLog, added: RunRequest) -> RunRequest:
    """What was said of a run, with what a person would add; a choice of one topic leaves those of others."""
    said = dict(run.request)
    for name, value in added.to_json().items():
        if value:
            said[name] = {**said.get(name, {}), **value} if isinstance(value, dict) else value
    return RunRequest.from_json(said)


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


def commands_of(run: RunLog, flow: FlowSettings, added: RunRequest, missing: list[str]) -> list[str]:
    """What to type: the command that continues the run, with what was said now and is missing, and the abort.

    :param flow: the flow that was failed over
    :param added: what was said with the command that asks
    :param missing: the options that are missing, as they are typed
    """
    command = f"{RETURN.command} --flow '{flow.name}'"
    lines = []
    if run.state is not RunState.ABORTING:
        said = [*begin_words(added), *decision_words(added)]
        lines.append(" ".join((command, "--resume", *said, *missing)))
    if run.abortable:
        lines.append(f"to roll it back: {command} --abort")
    return lines
