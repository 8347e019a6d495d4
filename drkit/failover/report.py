"""The report of a failover, made from its journal alone."""

from __future__ import annotations

from collections.abc import Mapping
import json
from pathlib import Path
from typing import Any

from drkit import observe
from drkit.failover.core.step import LossEvidence
from drkit.failover.loss.divergence import LOSS
from drkit.journal.entries import EntryKind, RunLog
from drkit.journal.file import open_kept, path_of
from drkit.journal.machine import FAILOVER, RETURN, RunState, StepName

_CLIENTS_AGAIN = StepName.REPOINT
_NOTHING_LEFT = {
    FAILOVER.name: "nothing is left of it: the flow continues as before",
    RETURN.name: "nothing is left of it but its records: the old primary is fenced, and removes by its own"
    " retention, as before; the new one is not protected",
}
_PAGES = {FAILOVER.name: "drkit explain night", RETURN.name: "drkit explain failback"}


def report_of(run: RunLog, flow: str) -> dict[str, Any]:
    """Return the report as plain data."""
    results = {step: run.results[step] for step in run.table.order if step in run.results}
    evidence: dict[StepName, dict[str, Any]] = {s: r.get("evidence", {}) for s, r in results.items()}
    scope = run.scope
    report: dict[str, Any] = {
        "flow": flow,
        "kind": run.table.name,
        "run": run.run_id,
        "term": run.term,
        "state": run.state.value,
        "began_ms": run.entries[0].at_ms,
        "ended_ms": run.entries[-1].at_ms if run.state.is_over else None,
        "by": {k: run.holder.get(k) for k in ("host", "pid")},
        "request": run.request,
        "topics": scope.get("topics", {}),
        "moved_before": run.opening.get("asked", {}).get("moved", []),
        "outside": _outside(evidence),
        "groups": _groups(evidence, scope),
        "seconds": _seconds(run),
        "steps": [
            {
                "step": s.value,
                "seconds": r.get("seconds"),
                "notes": r.get("notes", []),
                "proof": r.get("proof", {}),
            }
            for s, r in results.items()
        ],
        "fence": evidence.get(StepName.FENCE),
        "acls": evidence.get(StepName.OPEN, {}).get("acls"),
        "loss": _loss(run, evidence),
        "next": evidence.get(StepName.DONE, {}).get("next", _next(run)),
        "decision": run.opening.get("decision", {}),
        "timeline": [
            {"at_ms": e.at_ms, "kind": e.kind.value, "step": str(e.step or ""), "effect": e.effect}
            for e in run.entries
        ],
    }
    if run.state not in {RunState.DONE, RunState.RUNNING}:
        report["held"] = _held(run)
    return report


def keep(run: RunLog, flow: str, folder: Path) -> None:
    """Write the report beside this machine's journals in `folder`; a failed write is only logged."""
    path = path_of(folder, run.run_id, "report.json")
    try:
        text = json.dumps(report_of(run, flow), indent=2, ensure_ascii=False)
        with open_kept(path, "w") as file:
            file.write(text + "\n")
    except OSError as error:
        observe.event("failover_report_not_kept", level="warning", path=str(path), evidence=str(error))


def _loss(run: RunLog, evidence: Mapping[StepName, Mapping[str, Any]]) -> Any:
    """Return the final loss: TRANSLATE knows where the copy ended, REPOINT when clients were redirected.

    DONE has it of a run that was continued behind OPEN.
    """
    again = run.effects.get(StepName.DONE, {}).get(LOSS, {}).get("result")
    found = again or evidence.get(StepName.TRANSLATE, {}).get("loss") or evidence.get(StepName.DRAIN)
    if found is None:
        return None
    loss: dict[str, Any] = {k: found.get(k) for k in LossEvidence.__annotations__}
    if run.is_final and not (again or run.state.is_over):
        loss |= {"exact": False, "statement": f"{loss['statement']}, before {run.last_step}: not final"}
    later = 0.0 if again else _still_writing(run)
    if later and loss["seconds"] is not None:
        loss["seconds"] += later
        loss["statement"] += (
            f"; it is not fenced, and may have taken records for {later:.1f} s more, until clients were"
            f" repointed: at most {loss['seconds']:.1f} s in all, and what clients write that do not follow"
        )
    return loss


def _still_writing(run: RunLog) -> float:
    """Return the seconds from the loss statement to REPOINT's end in which an unfenced primary may write."""
    fence = run.results.get(StepName.FENCE, {}).get("evidence", {})
    if fence.get("proven") or run.opening.get("decision", {}).get("dead_since_ms") is not None:
        return 0.0
    ends = _ends(run)
    if StepName.TRANSLATE not in ends or _CLIENTS_AGAIN not in ends:
        return 0.0
    return max(0, ends[_CLIENTS_AGAIN] - ends[StepName.TRANSLATE]) / 1000


def _outside(evidence: Mapping[StepName, Mapping[str, Any]]) -> dict[str, Any]:
    outside: dict[str, Any] = dict(evidence.get(StepName.SNAPSHOT, {}).get("outside", {}))
    late = evidence.get(StepName.TRANSLATE, {}).get("late", {})
    too_late = evidence.get(StepName.VERIFY, {}).get("too_late", {})
    outside["groups"] = {**outside.get("groups", {}), **late.get("remaining", {}), **too_late}
    outside["not_copied"] = outside.get("not_copied", {}) | evidence.get(StepName.OPEN, {}).get("late", {})
    return outside


def _groups(evidence: Mapping[StepName, Mapping[str, Any]], scope: Mapping[str, Any]) -> dict[str, Any]:
    committed = evidence.get(StepName.COMMIT_OFFSETS, {})
    verified = evidence.get(StepName.VERIFY, {}).get("groups", {})
    translated = evidence.get(StepName.TRANSLATE, {})
    positions, away = translated.get("positions", {}), committed.get("away", {})
    lost = {group: dict.fromkeys(positions[group], reason) for group, reason in away.items()}
    return {
        "moved": committed.get("groups", []),
        "kept": committed.get("kept", []),
        "asked": scope.get("groups", []),
        "late": translated.get("late", {}).get("groups", []),
        "positions": {group: found for group, found in positions.items() if group not in away},
        "unavailable": {**translated.get("unavailable", {}), **lost},
        "at_work": verified,
        "repeats": evidence.get(StepName.VERIFY, {}).get("repeats", {}),
    }


def _seconds(run: RunLog) -> dict[str, float]:
    seconds = {s.value: float(r.get("seconds") or 0.0) for s, r in run.results.items()}
    ends = _ends(run)
    began = run.entries[0].at_ms
    if _CLIENTS_AGAIN in ends:
        seconds["until_repointed"] = (ends[_CLIENTS_AGAIN] - began) / 1000
    if StepName.VERIFY in ends:
        seconds["until_verified"] = (ends[StepName.VERIFY] - began) / 1000
    lost = run.opening.get("decision", {}).get("lost_at_ms")
    if lost is not None and _CLIENTS_AGAIN in ends:
        seconds["since_the_primary_was_lost"] = (ends[_CLIENTS_AGAIN] - lost) / 1000
    return seconds


def _ends(run: RunLog) -> dict[str | None, int]:
    return {e.step: e.at_ms for e in run.entries if e.kind is EntryKind.RESULT and not e.effect}


def _held(run: RunLog) -> dict[str, Any]:
    last = run.entries[-1]
    found = run.held or (last.body if last.kind is EntryKind.END else {})
    step = found.get("step")
    return {"step": str(step) if step else "", **found.get("error", {})}


def _next(run: RunLog) -> list[str]:
    if run.state in {RunState.ABORTED, RunState.REFUSED}:
        ended = (
            e.body.get("evidence", {}) for e in run.entries if e.kind in {EntryKind.UNDONE, EntryKind.END}
        )
        pending = [evidence["pending"] for evidence in ended if "pending" in evidence]
        return pending or [_NOTHING_LEFT[run.table.name]]
    return [
        f"clear the reason, then: {run.table.next_commands(abortable=run.abortable)}",
        f"how to decide: {_PAGES[run.table.name]}",
    ]
