"""What the plan of a return says while one is under way: nothing that would be refused. No broker."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

from drkit.cli.screens.outlook import commands_of, lines_of, show_outlook, under_way
from drkit.cli.session import Session
from drkit.config import FlowSettings
from drkit.failover.core.request import RunRequest
from drkit.failover.new_primary.costs import CopyRate
from drkit.failover.returning.return_plan import Missing, Outlook, TopicOutlook
from drkit.journal.entries import EntryKind, JournalEntry, RunLog
from drkit.journal.machine import StepName

FLOW = FlowSettings(source="p", target="s", topics=[".*"])
COMMAND = "drkit reprotect --flow 'p->s'"
ERROR = {"error": "a decision is missing", "evidence": "t: 4 records", "hint": "drkit reprotect --resume X"}
UNDECIDED = Outlook(
    [TopicOutlook("t", 0, planned=False, partitions=2, delta=30, whole=100, only_old=4)],
    CopyRate(1 << 20),
    Missing(dispositions=("t",), reason=True, undecided="t: what becomes of 4 records"),
    ("a method is not sound",),
)


def run(*more: tuple[EntryKind, StepName | None, dict[str, Any]]) -> RunLog:
    found = RunLog("r9", 1)
    request = RunRequest(clients_cut="closed", dispositions={"a": "discard"}).to_json()
    opening = {"holder": {"token": "a"}, "table": "return", "request": request}
    first = [(EntryKind.RUN, None, opening), (EntryKind.INTENT, StepName.DECIDE, {})]
    for number, (kind, step, body) in enumerate([*first, *more]):
        found.take(JournalEntry("r9", number, "a", 1, kind, step, "", 0, body))
    return found


HELD = (EntryKind.HELD, StepName.DECIDE, {"error": ERROR})
ABORT = (EntryKind.ABORT, None, {"reason": "x"})


def test_a_held_return_is_named_with_its_step_its_reason_and_its_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The plan said what would begin one, and that is refused."""
    show_outlook(UNDECIDED, FLOW, run=run(HELD))
    said = capsys.readouterr().out
    assert "the return r9 is under way, held at DECIDE: a decision is missing (t: 4 records)" in said
    assert "what its refusal names: drkit reprotect --resume X" in said
    assert "would not go on: a method is not sound" in said
    asked = f"1. {COMMAND} --resume --disposition 't=discard|replay|quarantine'" + ' --reason "WHY"'
    assert said.splitlines()[-2:] == [asked, f"2. to roll it back: {COMMAND} --abort"]
    assert "--until-export" not in said


def test_so_it_is_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    with click.Context(click.Command("reprotect"), obj=Session(as_json=True)):
        show_outlook(Outlook([], CopyRate(0.0)), FLOW, run=run(HELD))
    told = json.loads(capsys.readouterr().out)
    assert told["run"] == {
        "run": "r9", "state": "held", "step": "DECIDE", "held": ERROR["error"], "evidence": ERROR["evidence"],
        "hint": ERROR["hint"],
    }  # fmt: skip
    assert told["next"] == [f"{COMMAND} --resume", f"to roll it back: {COMMAND} --abort"]
    assert (told["topics"], told["rate"]) == ([], None)


def test_one_that_works_is_not_held_and_one_that_is_rolled_back_is_not_resumed() -> None:
    assert under_way(run())["held"] == ""
    [line] = lines_of(run())
    assert line.startswith("the return r9 is under way, running at DECIDE: it continues by itself")
    back = run(HELD, ABORT)
    assert commands_of(back, FLOW, RunRequest()) == [f"to roll it back: {COMMAND} --abort"]
    assert not under_way(back)["held"], "that was before"
    assert under_way(run(HELD, ABORT, HELD))["held"] == ERROR["error"]


def test_what_is_said_now_is_added_to_what_was_said_of_the_run() -> None:
    said = RunRequest.from_json(run(HELD).request).plus(
        RunRequest(dispositions={"t": "replay"}, reason="why")
    )
    assert said == RunRequest(
        clients_cut="closed", dispositions={"a": "discard", "t": "replay"}, reason="why"
    )
    added = RunRequest(dispositions={"t": "replay"}, reason="why")
    assert commands_of(run(HELD), FLOW, added)[0] == f"{COMMAND} --resume --disposition t=replay --reason why"
