"""Check a report: recompute its hash, and judge its evidence again. Pure."""

from __future__ import annotations

from typing import Final

from drkit.chaos.verdict import FAIL, INCONCLUSIVE, PASS
from drkit.drill.judge import ABORTED, JUDGES, REFUSED, SKIPPED, judge
from drkit.drill.report.model import DrillReport, concluded

_VERDICTS: Final = {PASS, FAIL, INCONCLUSIVE, ABORTED, REFUSED, SKIPPED}


def check_report(report: DrillReport, previous: DrillReport | None = None) -> list[str]:
    """Return what is wrong with a report; empty: its hash and its conclusions hold.

    :param previous: the report before it
    """
    problems = []
    if report.self_hash != report.hash():
        problems.append("the hash does not match: the report was altered")
    if previous is not None and report.previous != previous.hash():
        problems.append("the hash of the previous report does not match")
    if report.kind not in JUDGES:
        return [*problems, f"the kind is unknown: {report.kind}"]
    judged = judge(report.kind, report.evidence, report.plan.objectives)
    if report.verdict not in _VERDICTS:
        problems.append(f"the verdict is unknown: {report.verdict}")
    if report.verdict in {PASS, FAIL, INCONCLUSIVE}:
        if report.verdict != judged.word:
            problems.append(f"the verdict is {report.verdict}, judged again it is {judged.word}")
        if report.reasons != judged.reasons:
            problems.append("the reasons do not follow from the evidence")
    for name, value in concluded(report.kind, report.evidence, report.plan.objectives, judged).items():
        if getattr(report, name) != value:
            problems.append(f"{name} does not follow from the evidence")
    return problems
