"""The tables of a failover and of a return: steps, what each assumes, what may be undone or repeated. Pure.

The interpreter runs a table, a dry run walks it without effects, the journal is checked against it, and the
picture in the documentation is generated from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple

from drkit.next_command import NextCommand


class StepName(StrEnum):
    """The steps of a failover in their order, then those that only a return has."""

    LOCK = "LOCK"
    SNAPSHOT = "SNAPSHOT"
    FENCE = "FENCE"
    DRAIN = "DRAIN"
    FREEZE = "FREEZE"
    TRANSLATE = "TRANSLATE"
    COMMIT_OFFSETS = "COMMIT_OFFSETS"
    OPEN = "OPEN"
    REPOINT = "REPOINT"
    VERIFY = "VERIFY"
    DONE = "DONE"

    CONTACT = "CONTACT"
    COMPARE = "COMPARE"
    EXPORT = "EXPORT"
    DECIDE = "DECIDE"
    DEMOTE = "DEMOTE"
    BEGIN = "BEGIN"
    REPLAY = "REPLAY"


class RunState(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    HELD = "held"
    """A step refused or failed: the run waits until a person resumes or aborts it."""
    ABORTING = "aborting"
    ABORTED = "aborted"
    REFUSED = "refused"
    """The run ended before any change."""
    DONE = "done"

    @property
    def is_over(self) -> bool:
        """Return whether the run has ended and cannot continue."""
        return self in {RunState.ABORTED, RunState.REFUSED, RunState.DONE}


class StepRow(NamedTuple):
    """One step."""

    step: StepName
    does: str
    changes: bool
    """Whether it changes anything but the journal; a refusal before the first such step ends the run."""
    abortable: bool
    """Whether the run may still be aborted when this step has begun or ended."""
    must_hold: bool
    """Whether its effect must still hold later: a resumed run proves it again."""
    looks_again: bool = False
    """Whether the old primary is asked again just before it."""
    until_effect: bool = False
    """Whether the step has changed nothing until the first of its effects begins."""
    abort_leaves: str = ""
    """Effects that an abort in or after it does not undo, or empty if it undoes all or is refused."""

    @property
    def is_final(self) -> bool:
        """Return whether no earlier step is repeated once it has begun: not all of it can be undone."""
        return not self.abortable or bool(self.abort_leaves)

    @property
    def is_finding(self) -> bool:
        """Return whether `--resume` repeats it, until the point of no return: it looks, or compares first."""
        return not self.must_hold and self.step is not StepName.LOCK and not self.is_final


@dataclass(frozen=True)
class Table:
    """The steps of one kind of run."""

    name: str
    """In the journal."""
    command: str
    """The command that resumes or aborts such a run."""
    rows: tuple[StepRow, ...]

    def typed(self, *options: str) -> NextCommand:
        """Return the command with options, to be printed."""
        return NextCommand((*self.command.split(), *options))

    @property
    def resume(self) -> NextCommand:
        """The command that continues such a run."""
        return self.typed("--resume")

    @property
    def abort(self) -> NextCommand:
        """The command that rolls such a run back."""
        return self.typed("--abort")

    def next_commands(self, *, abortable: bool) -> str:
        """Return the commands that end a run under way: continue it, or roll it back."""
        return f"{self.resume}, or {self.abort}" if abortable else str(self.resume)

    @cached_property
    def order(self) -> tuple[StepName, ...]:
        """The steps in their order."""
        return tuple(row.step for row in self.rows)

    @cached_property
    def row(self) -> Mapping[str, StepRow]:
        """The row of each step."""
        return {row.step: row for row in self.rows}

    @cached_property
    def point_of_no_return(self) -> StepName:
        """The first step that cannot be undone completely."""
        return next(row.step for row in self.rows if row.is_final)

    @cached_property
    def last_abort(self) -> StepName:
        """The first step in which an abort is refused."""
        return next(row.step for row in self.rows if not row.abortable)


_S: Final = StepName
TABLE: Final[tuple[StepRow, ...]] = (
    StepRow(_S.LOCK, "lock the journal, increment the term", changes=False, abortable=True, must_hold=False),
    StepRow(_S.SNAPSHOT, "read the state of both clusters, and its age",
        changes=False, abortable=True, must_hold=False),
    StepRow(_S.FENCE, "fence the old primary, proven by a rejected canary; or record the fence as pending",
        changes=True, abortable=True, must_hold=True),
    StepRow(_S.DRAIN, "wait until the copy reaches the fenced end, or the deadline; state the loss",
        changes=False, abortable=True, must_hold=False),
    StepRow(_S.FREEZE, "stop the flow for these topics, fence its writers, proven on every partition",
        changes=True, abortable=True, must_hold=True, looks_again=True),
    StepRow(_S.TRANSLATE, "translate the offset of every group and partition",
        changes=False, abortable=True, must_hold=False),
    StepRow(_S.COMMIT_OFFSETS, "commit the groups' offsets, read them back",
        changes=True, abortable=True, must_hold=False, looks_again=True),
    StepRow(_S.OPEN, "make the target's topics writable: the point of no return",
        changes=True, abortable=False, must_hold=True, looks_again=True),
    StepRow(_S.REPOINT, "repoint the clients, with the term", changes=True, abortable=False, must_hold=False),
    StepRow(_S.VERIFY, "write and read a canary; check that each group has members and moves",
        changes=False, abortable=False, must_hold=False),
    StepRow(_S.DONE, "report what is unprotected and what to do next",
        changes=False, abortable=False, must_hold=False),
)  # fmt: skip

FAILOVER: Final = Table("failover", "drkit failover", TABLE)
ROW: Final = FAILOVER.row
ORDER: Final = FAILOVER.order

RETURN: Final = Table("return", "drkit reprotect", (
    TABLE[0],
    StepRow(_S.CONTACT, "check the old primary's identity, keep its records, fence it; no group reads"
        " there, no transaction is open", changes=True, abortable=True, must_hold=False, until_effect=True),
    StepRow(_S.COMPARE, "compare every partition of both sides: ends, topics, contents, divergent records",
        changes=False, abortable=True, must_hold=False),
    StepRow(_S.EXPORT, "export the records that only the old primary has, and read the files back",
        changes=True, abortable=True, must_hold=False, until_effect=True),
    StepRow(_S.DECIDE, "decide what happens to these records, and how each log is reconciled: by name, with a"
        " reason", changes=False, abortable=True, must_hold=False),
    StepRow(_S.DEMOTE, "make the old primary passive, mark its groups' offsets as drkit's",
        changes=True, abortable=True, must_hold=False),
    StepRow(_S.BEGIN, "topic by topic: empty partitions, begin the offset map, turn the fence into a passive"
        " side's guard", changes=True, abortable=True, must_hold=False, until_effect=True,
        abort_leaves="topics that have begun continue to be copied; one that was only emptied is incomplete"),
    StepRow(_S.REPLAY, "append exported records to the new primary, if that was decided",
        changes=True, abortable=True, must_hold=False, abort_leaves="appended records stay"),
    StepRow(_S.DONE, "report what protects the new primary", changes=False, abortable=False, must_hold=False),
))  # fmt: skip
"""The steps that make the old primary the standby of the new one."""

TABLES: Final[Mapping[str, Table]] = {table.name: table for table in (FAILOVER, RETURN)}
"""By their names in the journal."""
