"""The tables of a failover and of a return for their page: as a diagram, and row by row.

``python -m tests.pages.failover`` writes both into ``docs/explanation/failover.md`` of the current folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import groupby, zip_longest
from pathlib import Path
import re
import sys
from typing import Final, NamedTuple

from drkit.detect.reasons import ROWS, runbook
from drkit.failover.checks.preconditions import GATES
from drkit.journal.machine import FAILOVER, RETURN, Belief, RunState, StepName, Table

_PLACE: Final = "<!-- generated: {name} -->\n{text}\n<!-- end -->"


class Ground(NamedTuple):
    """A belief, the parties that can make it false, and the times of further checks."""

    belief: Belief
    changed_by: str
    """The parties that can make it false."""
    looked_again: str
    """The times of further checks, and the consequence if it is false."""


GROUNDS: Final[tuple[Ground, ...]] = (
    Ground(Belief.MINE, "another orchestrator that resumes or aborts",
        "at each journal entry: the log rejects an orchestrator that was replaced; an abort of a switchover"
        " at the source: when the run is resumed, and before OPEN"),
    Ground(Belief.SOURCE, "a primary that recovers, a network path that recovers",
        "within a second before FREEZE, COMMIT_OFFSETS and OPEN: if it answers, the run returns to FENCE"),
    Ground(Belief.FENCE, "a person who lifts it, a broker that applies it late",
        "by a canary on every partition before OPEN and when the run is resumed: else back to FENCE"),
    Ground(Belief.READY, "brokers of the standby, group members and commits there",
        "all reasons to refuse are checked again when the run is resumed, until OPEN has begun"),
    Ground(Belief.LOSS, "producers, until they are fenced; the copy, until it is frozen",
        "measured again after each FENCE, when the run is resumed, and at TRANSLATE"),
    Ground(Belief.FROZEN, "a replicator that resumes or starts",
        "by a canary of the older epoch on every partition, when the run is resumed"),
    Ground(Belief.POSITIONS, "consumers that still commit on the old primary",
        "translated and committed again after each FREEZE and when the run is resumed, until OPEN has begun"),
)  # fmt: skip


def diagram(table: Table) -> str:
    """Return the steps of a table as a picture in text: what a failure in each of them leads to."""
    lines, first_change = [], _first_change(table)
    for _, rows in groupby(table.rows, key=lambda row: (_is_before(table, row.step, first_change),
                                                        row.is_final, row.abortable)):  # fmt: skip
        steps = [row.step for row in rows]
        for step, note in zip_longest(steps, _after_failure(table, steps[0]), fillvalue=""):
            lines.append(f"{step:<15} │ {note}".rstrip())
        lines.append(f"{'':<15} │")
    return "\n".join(["```text", *lines[:-1], "```"])


def _is_before(table: Table, step: StepName, other: StepName) -> bool:
    return table.order.index(step) < table.order.index(other)


def _first_change(table: Table) -> StepName:
    return next(row.step for row in table.rows if row.changes)


def _after_failure(table: Table, step: StepName) -> list[str]:
    first_change = _first_change(table)
    if _is_before(table, step, first_change):
        return [f"{RunState.REFUSED}, and nothing is changed"]
    again = next(row.step for row in table.rows if row.is_finding)
    resume, abort = table.resume, table.abort
    if _is_before(table, step, table.point_of_no_return):
        return [f"{RunState.HELD}; to continue: {resume} (checks again from {again})",
                f"      to roll back: {abort} (undoes the last step first)"]  # fmt: skip
    lines = ["the point of no return"] if step is table.point_of_no_return else []
    if table.row[step].looks_again:
        lines.append(f"back to {first_change} if the old primary answers and is not fenced")
    if table.row[step].abortable:
        return [*lines, f"{RunState.HELD}: {resume}, or {abort}, which undoes a part"]
    return [*lines, f"{RunState.HELD}: {resume}; there is no abort"]


def steps(table: Table) -> str:
    """Return the rows of a table."""
    lines = [
        "| step | does | preconditions | can be repeated because | abort |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{row.step}` | {row.does} | {', '.join(row.rests_on)} | {row.repeatable} |"
        f" {(row.abort_leaves or 'yes') if row.abortable else 'no'} |"
        for row in table.rows
    ]
    return "\n".join(lines)


def grounds() -> str:
    """Return what the steps assume, what can make it false, and when it is checked again."""
    lines = ["| precondition | invalidated by | re-checked |", "| --- | --- | --- |"]
    lines += [f"| {g.belief} | {g.changed_by} | {g.looked_again} |" for g in GROUNDS]
    return "\n".join(lines)


def gates() -> str:
    """Return the reasons to refuse, each with its page."""
    return "\n".join(f"- [{gate.name}](../../runbooks/{gate.name}.md): {gate.why}" for gate in GATES)


def reasons() -> str:
    """Return the reasons that `drkit watch` and `drkit failover` share."""
    lines = ["| reason | `drkit watch` holds | `drkit failover` refuses | overruled by |"]
    lines += ["| --- | --- | --- | --- |"]
    lines += [
        f"| {row.condition} | [`{row.reason}`](../../{runbook(row.reason)}) |"
        f" [{row.gate}](../../runbooks/{row.gate}.md) | {f'`{row.flag} REASON`' if row.flag else 'nothing'} |"
        for row in ROWS
    ]
    return "\n".join(lines)


_PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "diagram": partial(diagram, FAILOVER), "steps": partial(steps, FAILOVER), "grounds": grounds,
    "gates": gates, "reasons": reasons,
    "diagram of a return": partial(diagram, RETURN), "steps of a return": partial(steps, RETURN),
}  # fmt: skip


def filled(page: str) -> str:
    """Return a page with its generated parts replaced."""
    for name, make in _PARTS.items():
        place = re.compile(rf"<!-- generated: {name} -->\n(?:.*?\n)??<!-- end -->", re.DOTALL)
        text = _PLACE.format(name=name, text=make())
        page = place.sub(text.replace("\\", r"\\"), page)
    return page


def main(page: Path) -> None:
    """Write the generated parts into the page."""
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{page}\n")


if __name__ == "__main__":
    main(Path("docs/explanation/failover.md"))
