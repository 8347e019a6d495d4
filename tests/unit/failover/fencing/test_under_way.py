"""What a run under way excludes, and how the refusals name what ends it. Pure."""

from __future__ import annotations

import pytest

from drkit.errors import Refused
from drkit.failover.runs import refuse_held, refuse_owned
from drkit.journal.entries import EntryKind, JournalEntry, RunLog
from drkit.journal.journal import RunLocked
from drkit.journal.machine import FAILOVER, RETURN, StepName, Table
from tests.support.errors import coded, sentence


def run(table: Table, step: StepName, **error: str) -> RunLog:
    found = RunLog("r", 1)
    opening = {"holder": {"token": "a"}, "table": table.name}
    found.take(JournalEntry("r", 0, "a", 1, EntryKind.RUN, None, "", 0, opening))
    found.take(JournalEntry("r", 1, "a", 1, EntryKind.INTENT, step, "", 0, {}))
    found.take(JournalEntry("r", 2, "a", 1, EntryKind.HELD, step, "", 0, {"error": error}))
    return found


BACK, AWAY = "drkit reprotect --flow 'p->s'", "drkit failover --flow 'p->s'"
FENCES = "which fences it again after a failover"


@pytest.mark.parametrize(
    ("table", "step", "hint"),
    [
        (
            RETURN,
            StepName.DECIDE,
            f"{BACK} --resume, {FENCES}; or {BACK} --abort, then: drkit fence pay --flow 'p->s'",
        ),
        (FAILOVER, StepName.DRAIN, f"{AWAY} --resume, or {AWAY} --abort, which lifts its fences"),
    ],
    ids=["return", "failover"],
)
def test_the_refusal_names_the_kind_of_run_and_its_commands(table: Table, step: StepName, hint: str) -> None:
    with pytest.raises(Refused, match=sentence("fence_owned", table=table.name)) as refused:
        refuse_owned(run(table, step), "p->s")
    assert refused.value.hint == hint
    assert refused.value.evidence == f"it is held at {step}"


@pytest.mark.parametrize(
    ("table", "step", "hint"),
    [
        (FAILOVER, StepName.DRAIN, "drkit failover --resume, or drkit failover --abort"),
        (FAILOVER, StepName.OPEN, "drkit failover --resume"),
        (RETURN, StepName.DECIDE, "drkit reprotect --resume, or drkit reprotect --abort"),
    ],
    ids=["failover", "opened", "return"],
)
def test_a_held_run_is_named_with_its_reason_and_its_commands(
    table: Table, step: StepName, hint: str
) -> None:
    with pytest.raises(RunLocked, check=coded("run_held")) as refused:
        refuse_held(run(table, step, error="no answer"))
    assert refused.value.what == sentence("run_held", table=table.name)
    assert refused.value.hint.endswith(f": {hint}")
    assert (refused.value.where, refused.value.evidence) == ("run r, term 1", f"held at {step}: no answer")


def test_a_run_that_a_process_works_on_is_not_held() -> None:
    at_work = run(FAILOVER, StepName.DRAIN)
    at_work.take(JournalEntry("r", 3, "b", 1, EntryKind.HOLD, None, "", 0, {"holder": {"token": "b"}}))
    refuse_held(at_work)
    refuse_held(None)


def test_without_a_run_or_after_its_last_abort_anyone_may() -> None:
    refuse_owned(None, "p->s")
    refuse_owned(run(FAILOVER, StepName.OPEN), "p->s")
