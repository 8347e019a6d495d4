"""Display of a return: what becomes passive before it begins, and a short report at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from drkit.cli.session import to_type
from drkit.cli.talk import say_rows
from drkit.counted import counted, first_of
from drkit.errors import Refused
from drkit.failover.proposal import ReturnProposal
from drkit.journal.machine import RETURN, RunState, StepName

_SHOWN: Final = 10
_DECIDED: Final = frozenset({StepName.EXPORT, StepName.DECIDE})
_NAMES: Final = {
    StepName.EXPORT.value: "exported", StepName.DECIDE.value: "decided", StepName.DEMOTE.value: "groups",
    StepName.BEGIN.value: "begun", StepName.REPLAY.value: "replayed",
}  # fmt: skip
"""Steps whose notes a person gets, and what they are about."""


def show_return(proposal: ReturnProposal) -> None:
    """Print a return that a person must confirm, on stderr."""
    names = (a if a == b else f"{b} → {a}" for a, b in proposal.topics.items())
    say_rows({
        "standby": [f"{proposal.old_primary}, by the flow {proposal.back}"],
        "topics": [first_of(names, _SHOWN)],
        "steps": _changes(proposal),
    })  # fmt: skip


def _changes(proposal: ReturnProposal) -> Iterator[str]:
    """What the steps that change something would do."""
    for step, effect in proposal.lines:
        if RETURN.row[step].changes or step in _DECIDED:
            why = f" ({effect.why})" if effect.why else ""
            yield f"{effect.what}, {effect.where}{why}"


def verdict_of_return(found: ReturnProposal) -> str:
    """A dry run in one line; a return that would be refused has raised that."""
    if found.undecided:
        return f"would be refused: a decision is required: {found.undecided}"
    some = counted(len(found.topics), "topic", "becomes")
    return f"would begin: {some} passive on {found.old_primary}"


def shown_return(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a return for a person, without its next commands: at most five lines."""
    topics = counted(len(report["topics"]), "topic")
    run = f"run {report['run']}, term {report['term']}"
    out = {"return": f"{report['state']}: {report['flow']}, {topics}, {run}"}
    for step in report["steps"]:
        name = _NAMES.get(step["step"])
        if name and step["notes"] and not _is_undone(report, step["step"]):
            out[name] = to_type("; ".join(step["notes"]))
    if why := held_in_words(report):
        out["held"] = why
    return out


def _is_undone(report: Mapping[str, Any], step: str) -> bool:
    began = any(s["step"] == StepName.BEGIN.value for s in report["steps"])
    return report["state"] == RunState.ABORTED.value and step == StepName.DEMOTE.value and not began


def held_in_words(report: Mapping[str, Any]) -> str:
    """Return the step at which a run is held and why, or "" if it is not held or was rolled back.

    What is no refusal is named as a failure: the command ends with 1 or 2 then, not with 3.
    """
    if report["state"] == RunState.ABORTED.value:
        return ""
    held = report.get("held") or {}
    failed = "failed:" * (held.get("exit_code", Refused.exit_code) != Refused.exit_code)
    return " ".join(filter(None, [held.get("step"), failed, held.get("error")]))


def steps_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """The seconds and the notes of each step, of a return or of a failover."""
    out: dict[str, Any] = {}
    if seconds := report["seconds"]:
        out["seconds"] = ", ".join(f"{name} {value:.2f}" for name, value in seconds.items())
    for step in report["steps"]:
        for number, note in enumerate(step["notes"]):
            out[step["step"] if not number else f"{step['step']} {number + 1}"] = to_type(note)
    return out
