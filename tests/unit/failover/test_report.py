"""What a report says of the loss, from a journal alone."""

from __future__ import annotations

from typing import Any

import pytest

from drkit.failover.report import report_of
from drkit.journal.entries import EntryKind, JournalEntry, RunLog
from drkit.journal.machine import StepName


def journal(*, proven: bool, decision: dict[str, Any] | None = None) -> RunLog:
    """A run whose loss is stated after 10 s, and whose clients are repointed after 17 s."""
    run = RunLog("r", 1)
    run.take(
        JournalEntry("r", 0, "t", 1, EntryKind.RUN, None, "", 0, {"decision": decision or {}, "holder": {}})
    )
    loss = {"seconds": 2.5, "statement": "lost is everything from here on", "exact": False}
    for at_ms, step, evidence in (
        (1000, StepName.FENCE, {"proven": proven}),
        (10_000, StepName.TRANSLATE, {"loss": loss}),
        (17_000, StepName.REPOINT, {}),
    ):
        body = {"evidence": evidence}
        run.take(JournalEntry("r", len(run.entries), "t", 1, EntryKind.RESULT, step, "", at_ms, body))
    return run


def test_an_unfenced_primary_may_take_records_until_clients_are_repointed():
    loss = report_of(journal(proven=False), "a->b")["loss"]
    assert loss["seconds"] == pytest.approx(9.5)
    assert "7.0 s more, until clients were repointed: at most 9.5 s in all" in loss["statement"]


@pytest.mark.parametrize(
    "run",
    [journal(proven=True), journal(proven=False, decision={"dead_since_ms": 5})],
    ids=["fenced", "dead"],
)
def test_one_that_is_fenced_or_proven_dead_takes_none(run: RunLog):
    loss = report_of(run, "a->b")["loss"]
    assert (loss["seconds"], loss["statement"]) == (2.5, "lost is everything from here on")
