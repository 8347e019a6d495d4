"""The tables of a failover and of a return for their page: as a diagram, and row by row.

``python -m drkit.failover.picture`` writes both into ``docs/explanation/failover.md`` of the current folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
import re
import sys
from typing import Final

from drkit.detect.reasons import ROWS, runbook
from drkit.failover.checks.preconditions import GATES
from drkit.failover.core.machine import FAILOVER, GROUNDS, RETURN, RunState, Table

_PLACE: Final = "<!-- generated: {name} -->\n{text}\n<!-- end -->"


def diagram(table: Table) -> str:
    """Return the states of a run of a table as a mermaid diagram."""
    lines = (f"    {line}".rstrip() for line in _lines(table))
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def _lines(table: Table) -> Iterator[str]:
    names, last = [row.step.value for row in table.rows], table.point_of_no_return
    yield f"[*] --> {names[0]}"
    for name, following in pairwise(names):
        yield f"{name} --> {following}"
    yield f"{names[-1]} --> [*]: {RunState.DONE}"
    yield ""
    for row in table.rows:
        name = row.step.value
        if table.is_before(row.step, table.first_change):
            yield f"{name} --> {RunState.REFUSED}: nothing was changed"
        else:
            yield f"{name} --> {RunState.HELD}: refused or failed"
    yield f"{RunState.REFUSED} --> [*]"
    yield ""
    again = next(row.step for row in table.rows if row.is_finding)
    yield f"{RunState.HELD} --> {again}: {table.command} --resume (looks at everything again)"
    if table.row[last].looks_again:
        yield f"{last} --> {table.first_change}: the old primary answers, unfenced"
    yield f"{RunState.HELD} --> {RunState.ABORTING}: {table.command} --abort, before {table.last_abort}"
    yield f"{RunState.ABORTING} --> {RunState.ABORTED}: undone, the last step first"
    yield f"{RunState.ABORTED} --> [*]"
    yield f"note right of {last}: the point of no return"


def steps(table: Table) -> str:
    """Return the rows of a table."""
    lines = [
        "| step | does | rests on | may be repeated because | abort |",
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
    lines = ["| a step rests on | who can make it false | looked at again |", "| --- | --- | --- |"]
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
