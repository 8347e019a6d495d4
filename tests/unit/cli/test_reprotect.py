"""``drkit reprotect`` without brokers: what it refuses to parse, what it proposes, and its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drkit.cli.main import run
from drkit.cli.render import emit
from drkit.cli.screens.failover import rows_of, shown
from drkit.cli.screens.reprotect import show_return, verdict_of_return
from drkit.failover.core.step import StepEffect
from drkit.failover.proposal import Planned, ReturnProposal
from drkit.failover.report import report_of
from drkit.journal.entries import EntryKind, JournalEntry, RunLog
from drkit.journal.machine import RETURN, StepName
from tests.support.errors import sentence

FLOWS = """
[clusters.a]
bootstrap_servers = "127.0.0.1:1"
[clusters.b]
bootstrap_servers = "127.0.0.1:1"
[clusters.c]
bootstrap_servers = "127.0.0.1:1"
[[flows]]
source = "a"
target = "b"
topics = [".*"]
[[flows]]
source = "a"
target = "c"
topics = [".*"]
"""
PROPOSAL = ReturnProposal("a", "b", "b->a", {"orders": "a.orders", "audit": "audit"}, [
    Planned(StepName.CONTACT, StepEffect("look at 2 topics", "a", "fenced, and no group has a member")),
    Planned(StepName.DEMOTE, StepEffect("make 2 topics passive", "a")),
    Planned(StepName.BEGIN, StepEffect("begin the map of 2 topics", "b->a", "nothing is copied")),
])  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("reprotect", "--resume", "--abort"), "--resume and --abort exclude each other"),
        (("reprotect", "--dry-run", "--abort"), "not --abort"),
        (("reprotect", "--take-over"), "--take-over is for --resume or --abort"),
        (("reprotect", "--abort", "--clients-cut", "x"), "--clients-cut is not for --abort"),
        (("reprotect", "--abort", "--disposition", "a=replay"), "--disposition is not for --abort"),
        (("reprotect", "--plan", "--resume"), "--plan shows a return that would begin, not --resume"),
        (("reprotect", "--plan", "--dry-run"), "--plan and --dry-run exclude each other"),
        (("reprotect", "--resume", "--topic", "a"), "--topic is not for --resume"),
        (
            ("reprotect", "--until-export", "--disposition", "a=discard"),
            "--until-export is for a return that is decided later",
        ),
        (("reprotect", "--hold", "--export-to", "x"), "--export-to is not for it"),
        (("reprotect", "--hold", "--resume"), "--resume is not for it"),
        (("reprotect", "--hold", "--until-export"), "--until-export is not for it"),
        (("reprotect", "--hold", "--abort", "--topic", "a"), "--topic is not for --abort"),
        (("reprotect", "--hold", "--abort", "--dry-run"), "not --abort"),
        (("reprotect", "--hold", "--abort", "--take-over"), "--take-over is for a run, not for --hold"),
        (
            ("reprotect", "--disposition", "discard"),
            sentence("choice_malformed", option="--disposition", kind="discard|replay|quarantine"),
        ),
        (
            ("reprotect", "--disposition", "a=keep"),
            sentence("choice_malformed", option="--disposition", kind="discard|replay|quarantine"),
        ),
        (
            ("reprotect", "--method", "a=replay"),
            sentence("choice_malformed", option="--method", kind="delta|rebuild|trim|keep"),
        ),
        (
            ("reprotect", "--method", "a=trim", "--method", "a=delta"),
            sentence("choice_contradicts", option="--method"),
        ),
        (("failover", "--all", "--clients-cut", "x"), sentence("clients_cut_without_planned")),
    ],
)
def test_options_that_contradict_each_other(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
):
    assert run(words) == 2
    assert said in capsys.readouterr().err


def test_without_a_pair_it_asks_for_the_flow_and_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "drkit.toml"
    file.write_text(FLOWS, encoding="utf-8")
    assert run(["--config", str(file), "reprotect"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: {sentence('several_flows', count=2)}\n")
    assert "no topic of them waits for a return" in said
    assert "--flow 'a->b', --flow 'a->c'" in said


def test_a_proposal_says_what_would_change(capsys: pytest.CaptureFixture[str]):
    show_return(PROPOSAL)
    assert capsys.readouterr().err.splitlines() == [
        "standby   a, by the flow b->a",
        "topics    a.orders → orders, audit",
        "steps     look at 2 topics, a (fenced, and no group has a member)",
        "          make 2 topics passive, a",
        "          begin the map of 2 topics, b->a (nothing is copied)",
    ]
    assert verdict_of_return(PROPOSAL) == "would begin: 2 topics become passive on a"
    assert "would be refused" in verdict_of_return(PROPOSAL._replace(undecided="orders: 3 records"))
    assert [row["step"] for row in rows_of(PROPOSAL.lines)] == ["CONTACT", "DEMOTE", "BEGIN"]


def report(*, held: bool = False) -> dict[str, Any]:
    """The report of a return, made from its journal."""
    log = RunLog("r1", 4)
    body: dict[str, Any] = {"holder": {}, "table": RETURN.name, "scope": {"topics": {"orders": "orders"}}}
    told: list[tuple[EntryKind, StepName | None, dict[str, Any]]] = [(EntryKind.RUN, None, body)]
    for step in RETURN.order:
        told.append((EntryKind.INTENT, step, {}))
        if held and step is StepName.DEMOTE:
            told.append((EntryKind.HELD, step, {"error": {"error": "it takes writes", "hint": "look"}}))
            break
        evidence = {"next": ["drkit replicate --flow 'b->a'"]} if step is StepName.DONE else {}
        note = f"a note of {step.value}"
        told.append((EntryKind.RESULT, step, {"evidence": evidence, "notes": [note], "seconds": 0.5}))
    if not held:
        told.append((EntryKind.END, None, {"state": "done"}))
    for number, (kind, step_, more) in enumerate(told):
        log.take(JournalEntry("r1", number, "t", 4, kind, step_, "", number, more))
    return report_of(log, "a->b")


def lines(shown_: list[dict[str, Any] | str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    for part in shown_:
        emit(part)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_return_ends_in_a_few_lines_and_says_nothing_of_a_failover(capsys: pytest.CaptureFixture[str]):
    assert lines(shown(report()), capsys) == [
        "return    done: a->b, 1 topic, run r1, term 4",
        "exported  a note of EXPORT",
        "decided   a note of DECIDE",
        "groups    a note of DEMOTE",
        "begun     a note of BEGIN",
        "replayed  a note of REPLAY",
        "1. drkit replicate --flow 'b->a'",
    ]
    verbose = "\n".join(lines(shown(report(), verbose=True), capsys))
    assert "a note of CONTACT" in verbose
    assert "BEGIN 0.50" in verbose
    assert "groups moved" not in verbose


def test_one_that_was_held_and_rolled_back_says_nothing_of_what_was_undone(
    capsys: pytest.CaptureFixture[str],
):
    whole = report()
    ended = [s for s in whole["steps"] if s["step"] in {"EXPORT", "DECIDE", "DEMOTE"}]
    aborted = whole | {
        "state": "aborted",
        "held": {"step": "BEGIN", "error": "it has"},
        "next": ["nothing is left"],
    }
    assert lines(shown(aborted | {"steps": ended}), capsys) == [
        "return    aborted: a->b, 1 topic, run r1, term 4",
        "exported  a note of EXPORT",
        "decided   a note of DECIDE",
        "1. nothing is left",
    ]
    begun = lines(shown(aborted), capsys)
    assert "groups    a note of DEMOTE" in begun, "what has begun is copied on"


def test_one_that_was_killed_and_rolled_back_is_held_by_nothing(capsys: pytest.CaptureFixture[str]):
    for shown_ in (shown(report() | {"held": {"step": ""}}), shown(report() | {"held": {}})):
        assert not any(line.startswith("held") for line in lines(shown_, capsys))


def test_one_that_is_held_names_its_own_command(capsys: pytest.CaptureFixture[str]):
    said = lines(shown(report(held=True)), capsys)
    assert "held      DEMOTE it takes writes" in said
    assert said[-2].startswith(
        "1. clear the reason, then: drkit reprotect --resume, or drkit reprotect --abort"
    )


@pytest.mark.parametrize(("code", "said"), [(1, "EXPORT failed: it is full"), (3, "EXPORT it is full")])
def test_a_run_that_a_failure_holds_says_so_as_its_exit_code_does(
    code: int, said: str, capsys: pytest.CaptureFixture[str]
):
    """It said `held`, which was documented as exit code 3, and ended with 1."""
    held = {"step": "EXPORT", "error": "it is full", "exit_code": code}
    found = lines(shown(report(held=True) | {"held": held}), capsys)
    assert f"held      {said}" in found
