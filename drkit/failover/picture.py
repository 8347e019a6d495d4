"""The table of a failover for its page in the documentation: as a diagram, and row by row.

``python -m drkit.failover.picture`` writes both into ``docs/explanation/failover.md`` of the current folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
import re
import sys
from typing import Final

from drkit.detect.reasons import ROWS, runbook
from drkit.failover.checks.preconditions import GATES
from drkit.failover.core.machine import (
    FIRST_CHANGE,
    GROUNDS,
    POINT_OF_NO_RETURN,
    TABLE,
    RunState,
    is_before,
)

_PLACE: Final = "<!-- generated: {name} -->\n{text}\n<!-- end -->"


def diagram() -> str:
    """Return the states of a run as a mermaid diagram."""
    return "\n".join(["```mermaid", "stateDiagram-v2", *(f"    {line}" for line in _lines()), "```"])


def _lines() -> Iterator[str]:
    names = [row.step.value for row in TABLE]
    yield f"[*] --> {names[0]}"
    for name, following in pairwise(names):
        yield f"{name} --> {following}"
    yield f"{names[-1]} --> [*]: {RunState.DONE}"
    yield ""
    for row in TABLE:
        name = row.step.value
        if is_before(row.step, FIRST_CHANGE):
            yield f"{name} --> {RunState.REFUSED}: nothing was changed"
        else:
            yield f"{name} --> {RunState.HELD}: refused or failed"
    yield f"{RunState.REFUSED} --> [*]"
    yield ""
    yield f"{RunState.HELD} --> {FIRST_CHANGE}: --resume (looks at everything again)"
    yield f"{POINT_OF_NO_RETURN} --> {FIRST_CHANGE}: the old primary answers, unfenced"
    yield f"{RunState.HELD} --> {RunState.ABORTING}: --abort, before {POINT_OF_NO_RETURN}"
    yield f"{RunState.ABORTING} --> {RunState.ABORTED}: undone, the last step first"
    yield f"{RunState.ABORTED} --> [*]"
    yield f"note right of {POINT_OF_NO_RETURN}: the point of no return"


def steps() -> str:
    """Return the rows of the table."""
    lines = [
        "| step | does | rests on | may be repeated because | abort |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{row.step}` | {row.does} | {', '.join(row.rests_on)} | {row.repeatable} |"
        f" {'yes' if row.abortable else 'no'} |"
        for row in TABLE
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


_PARTS: Final = {
    "diagram": diagram, "steps": steps, "grounds": grounds, "gates": gates, "reasons": reasons,
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
