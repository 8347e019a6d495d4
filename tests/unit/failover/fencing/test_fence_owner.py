"""A run that is under way owns its fence, and the refusal names how it goes on. Pure."""

from __future__ import annotations

import pytest

from drkit.errors import Refused
from drkit.failover.core.machine import FAILOVER, RETURN, StepName, Table
from drkit.failover.fence_owner import refuse_owned
from drkit.failover.journal.entries import EntryKind, JournalEntry, RunLog
from tests.support.errors import sentence


def run(table: Table, step: StepName) -> RunLog:
    found = RunLog("r", 1)
    opening = {"holder": {"token": "a"}, "table": table.name}
    found.take(JournalEntry("r", 0, "a", 1, EntryKind.RUN, None, "", 0, opening))
    found.take(JournalEntry("r", 1, "a", 1, EntryKind.INTENT, step, "", 0, {}))
    found.take(JournalEntry("r", 2, "a", 1, EntryKind.HELD, step, "", 0, {"error": {}}))
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


def test_without_a_run_or_after_its_last_abort_anyone_may() -> None:
    refuse_owned(None, "p->s")
    refuse_owned(run(FAILOVER, StepName.OPEN), "p->s")
