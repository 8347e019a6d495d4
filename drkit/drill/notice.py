"""The notice of a drill that did not pass, for the receivers of ``[watch]``. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from drkit.counted import utc
from drkit.drill.entry import SCHEDULED, DrillEntry
from drkit.drill.plan import DrillPlan
from drkit.next_command import typed

_REASONS: Final = 10


def ended_notice(
    plan: DrillPlan, verdict: str, reasons: Sequence[str], options: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the notice of a drill that ended.

    :param options: of the running command, such as its configuration file
    """
    command = typed("drkit", "drill", "report", plan.id, *options)
    return _notice((plan.name, plan.kind, plan.flow), plan.id, verdict, reasons, command)


def not_run_notice(entry: DrillEntry, options: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the notice of due times of a drill at which it was not run; None: no notice is due.

    :param options: of the running command, such as its configuration file
    """
    if entry.verdict == SCHEDULED:
        return None
    reason = f"missed since {utc(entry.began_ms)}: no scheduler ran, or it was busy"
    command = typed("drkit", "drill", "run", entry.name, *options)
    return _notice((entry.name, entry.kind, entry.flow), "", entry.verdict, [reason], command)


def _notice(
    drill: tuple[str, str, str], drill_id: str, verdict: str, reasons: Sequence[str], command: str
) -> dict[str, Any]:
    name, kind, flow = drill
    shown = [
        *reasons[:_REASONS],
        *([f"and {len(reasons) - _REASONS} more"] if len(reasons) > _REASONS else []),
    ]
    lines = [f"drill {name}, {kind} of {flow}: {verdict}", *(f"- {reason}" for reason in shown)]
    return {
        "flow": flow,
        "drill": name,
        "kind": kind,
        "id": drill_id,
        "verdict": verdict,
        "reasons": shown,
        "command": command,
        "text": "\n".join([*lines, f"next: {command}"]),
    }
