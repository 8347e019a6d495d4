"""The tables of a failover and of a return for their page: as a diagram, and row by row.

``python -m tests.pages.failover`` writes both into ``docs/explanation/failover.md`` of the current folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from itertools import groupby, zip_longest
from pathlib import Path
import re
import sys
from typing import Final, NamedTuple

from drkit.catalogue import ERRORS
from drkit.detect.reasons import ROWS, runbook
from drkit.failover.checks.preconditions import GATES
from drkit.journal.machine import FAILOVER, RETURN, RunState, StepName, Table

_PLACE: Final = "<!-- generated: {name} -->\n{text}\n<!-- end -->"


class Belief(StrEnum):
    """An assumption of a step about the clusters, which others can make false while the run continues."""

    MINE = "this process owns the run"
    SOURCE = "the old primary is silent"
    FENCE = "the fence holds"
    READY = "the standby is ready"
    LOSS = "the loss is known"
    FROZEN = "drkit's writers are fenced"
    POSITIONS = "group offsets are current"


_RESTS_ON: Final[Mapping[str, Mapping[StepName, tuple[Belief, ...]]]] = {
    FAILOVER.name: {
        StepName.SNAPSHOT: (Belief.MINE, Belief.SOURCE, Belief.READY),
        StepName.FENCE: (Belief.MINE, Belief.SOURCE),
        StepName.DRAIN: (Belief.MINE, Belief.FENCE, Belief.LOSS),
        StepName.FREEZE: (Belief.MINE, Belief.SOURCE, Belief.LOSS),
        StepName.TRANSLATE: (Belief.MINE, Belief.LOSS, Belief.FROZEN, Belief.POSITIONS),
        StepName.COMMIT_OFFSETS: (Belief.MINE, Belief.SOURCE, Belief.POSITIONS),
        StepName.OPEN: (
            Belief.MINE,
            Belief.SOURCE,
            Belief.FENCE,
            Belief.LOSS,
            Belief.FROZEN,
            Belief.POSITIONS,
            Belief.READY,
        ),
    },
    RETURN.name: {
        StepName.CONTACT: (Belief.MINE, Belief.FENCE),
        StepName.COMPARE: (Belief.MINE, Belief.FENCE),
        StepName.EXPORT: (Belief.MINE, Belief.FENCE),
        StepName.DEMOTE: (Belief.MINE, Belief.FENCE),
        StepName.BEGIN: (Belief.MINE, Belief.FENCE),
    },
}


def rests_on(table: Table, step: StepName) -> tuple[Belief, ...]:
    """Return the assumptions of a step."""
    return _RESTS_ON[table.name].get(step, (Belief.MINE,))


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
    Ground(Belief.LOSS, "producers, until they are fenced; the copy, until it is frozen; a person who deletes"
        " its records or recreates it",
        "measured again after each FENCE before OPEN, when the run is resumed, and at TRANSLATE; copies again"
        " at OPEN, which holds the run if they have lost more; by a run that is resumed behind OPEN at DONE,"
        " which holds it if more is lost or the old primary is silent"),
    Ground(Belief.FROZEN, "a replicator that resumes or starts",
        "by a canary of the older epoch on every partition, when the run is resumed"),
    Ground(Belief.POSITIONS, "consumers that still commit on the old primary",
        "translated and committed again after each FREEZE and when the run is resumed, until OPEN has begun;"
        " later commits are named at VERIFY"),
)  # fmt: skip


_GATES: Final = {
    "failover-wrong-cluster": "a name leads to another cluster, or both to the same one",
    "failover-signs-of-life": (
        "the primary is silent here, but a heartbeat of it arrives, or an observer sees it alive"
    ),
    "failover-no-quorum": (
        "the primary is silent here, but too few observers report it as lost, or this machine is blind"
    ),
    "failover-paused": ERRORS["failovers_paused"].sentence,
    "failover-already-promoted": "an earlier failover has promoted these topics",
    "failover-target-not-ready": "the standby has no leaders, too few replicas in sync, or no copy",
    "failover-live-members": "a group has members on the standby, live or static",
    "failover-own-positions": "a group has committed its own offsets on the standby",
    "failover-positions-in-return": (
        "a group has committed on a standby that a switchover made passive; no option overrules it"
    ),
    "failover-data-loss": (
        "the loss would exceed `rpo_seconds` or is unknown, or failback is incomplete for some topics"
    ),
    "failover-not-replayed": "`--planned`, and only an export has records that a failback was to replay",
    "failover-planned-not-possible": "`--planned` needs both clusters and a running replicator",
    "failover-topics-not-copied": "`--all`, and topics or groups of the flow would remain",
    "failover-no-exact-position": "`--planned`, and a group has no exact position to come",
    "failover-hanging-transactions": (
        "`--planned`, and transactions have hung on the target since it was fenced by size"
    ),
    "failover-written-standby": (
        "`--planned`, and another client wrote to the standby since a switchover; no option overrules it"
    ),
    "failover-standby-begins-later": (f"`--planned`, and {ERRORS['standby_begins_later'].sentence}"),
    "failover-acls-only-home": (
        "`--planned`, and the target has ACLs that allow clients more than the source does"
    ),
    "failover-repoint-others": "a repoint method would also move clients that stay on the primary",
}
"""When each gate refuses."""


_REPEATABLE: Final = {
    FAILOVER.name: {
        StepName.LOCK: "the run id is the same",
        StepName.SNAPSHOT: "it reads again, until OPEN has begun",
        StepName.FENCE: "the fences are the same",
        StepName.DRAIN: "it measures again",
        StepName.FREEZE: "it compares first, and never moves back",
        StepName.TRANSLATE: "it changes nothing",
        StepName.COMMIT_OFFSETS: "it compares, then writes",
        StepName.OPEN: "it applies the same again",
        StepName.REPOINT: "the newer term wins",
        StepName.VERIFY: "it runs again",
        StepName.DONE: "it does nothing",
    },
    RETURN.name: {
        StepName.LOCK: "the run id is the same",
        StepName.CONTACT: "the fences and settings are the same",
        StepName.COMPARE: "it only reads",
        StepName.EXPORT: "a complete export of the same offsets is kept",
        StepName.DECIDE: "it is recorded again",
        StepName.DEMOTE: "it compares, then writes",
        StepName.BEGIN: "emptying and the seed are the same",
        StepName.REPLAY: "its progress is in the transaction",
        StepName.DONE: "it does nothing",
    },
}
"""Why a step may be run again after its process was killed anywhere in it, by the name of its table."""


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
        f"| `{row.step}` | {row.does} | {', '.join(rests_on(table, row.step))} |"
        f" {_REPEATABLE[table.name][row.step]} |"
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
    return "\n".join(f"- [{gate}](../../runbooks/{gate}.md): {_GATES[gate]}" for gate in GATES)


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
