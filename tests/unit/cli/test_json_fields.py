"""The fields that commands print with ``--json`` stay: programs of other people read them.

What a command prints of its own values is made from a sample of them, so no cluster is asked. Other answers,
such as those of ``drkit replicate``, are compared by the tests with brokers that type these commands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
import json
from pathlib import Path
from typing import Any, Final, TypeAlias

import click
import pytest

from drkit.chaos.run import ScenarioRun
from drkit.chaos.scenario import Scenario
from drkit.cli import main as cli
from drkit.cli.actions.back import reprotect
from drkit.cli.actions.divergence import _answer
from drkit.cli.actions.failover import show_rehearsal
from drkit.cli.actions.repoint import _row
from drkit.cli.render import emit
from drkit.cli.screens.drill import entry_row, report_data
from drkit.cli.screens.holding import show_held
from drkit.cli.screens.outlook import show_outlook
from drkit.cli.screens.status import Shown, as_data
from drkit.cli.session import Session
from drkit.config import FlowSettings
from drkit.detect.note_kinds import Automatic
from drkit.drill.entry import DrillEntry
from drkit.drill.evidence import DrillEvidence
from drkit.drill.position_rows import PackedPositions, PositionEvidence
from drkit.drill.report import DrillReport
from drkit.exercise.events import CommandEnded
from drkit.exercise.verdict import ScenarioVerdict
from drkit.export.run import Exported
from drkit.failover.core.step import LossEvidence, StepEffect
from drkit.failover.loss.count import Lost
from drkit.failover.loss.findings import Divergence
from drkit.failover.new_primary.hold import HeldTopic
from drkit.failover.pending_fences import Fences
from drkit.failover.proposal import Rehearsal, ReturnProposal
from drkit.failover.report import report_of
from drkit.failover.returning.return_plan import Outlook
from drkit.failover.third_cluster import ThirdCluster
from drkit.journal.entries import EntryKind, JournalEntry, RunLog
from drkit.journal.machine import RunState, StepName
from drkit.repoint import CurrentEndpoint
from drkit.status.model import FlowStatus
from drkit.translate.positions import Line
from drkit.verify.report import FlowReport, answer
from drkit.watch.observer import Moment
from tests.commands import commands
from tests.support.cli.json_fields import FILE, PAGE, complaints, merged, page, pin
from tests.support.cli.sample import sample
from tests.support.config.silent_pair import silent_pair

ROOT: Final = Path(__file__).parents[3]
_TABLES: Final = """
[fence_agent]
state_file = "~/agent.json"
[[drills]]
name = "nightly"
kind = "readiness"
cron = "0 3 * * *"
"""
_ALONE: Final = {
    "config init": ("new.toml",),
    "config check": (),
    "config show": (),
    "control create": ("control.key",),
    "files list": (),
    "files show": ("compose.yaml",),
    "files write": ("files", "systemd"),
    "explain": ("no_quorum",),
    "explain --list": (),
    "chaos list": (),
    "chaos list --coverage": (),
    "drill schedule --print systemd": (),
    "drill schedule --print kubernetes": (),
    "local status": ("--folder", "none"),
    "local down": ("--folder", "none"),
    "fence-agent": ("--lift",),
}
"""Commands that ask no cluster, with what is typed besides."""
Make: TypeAlias = Callable[..., Any]
_FLOW: Final = FlowSettings(source="a", target="b")


def _scenario_run(make: Make) -> ScenarioRun:
    """A scenario that is finished."""
    run = ScenarioRun(make(Scenario), Path("x"), make(int))
    run.verdict, run.commands, run.seconds = make(ScenarioVerdict), (make(CommandEnded),), make(float)
    run.covered, run.deviated = (make(tuple[str, str, str]),), make(bool | None)
    return run


def _run(make: Make) -> RunLog:
    """Return a run whose loss is stated."""
    evidence = {
        StepName.FENCE: {"proven": True},
        StepName.TRANSLATE: {"loss": {**make(LossEvidence), "partitions": [make(Lost)._asdict()]}},
        StepName.OPEN: {"acls": {"granted": ["a"], "lifted": ["a"], "left_out": ["a"]}},
        StepName.DONE: {"next": ["drkit status"]},
    }
    opening = {"decision": {}, "holder": {"host": "h", "pid": 1}}
    run = RunLog("r", 1)
    run.take(JournalEntry("r", 0, "t", 1, EntryKind.RUN, None, "", 0, opening))
    for step, found in evidence.items():
        body = {"evidence": found, "seconds": 0.5, "notes": ["n"]}
        run.take(JournalEntry("r", len(run.entries), "t", 1, EntryKind.RESULT, step, "", 1000, body))
    return run


def _report(make: Make) -> DrillReport:
    positions = PackedPositions.of([make(PositionEvidence)])  # windows are beside the rows
    report: DrillReport = make(DrillReport, {"evidence": make(DrillEvidence, {"positions": positions})})
    return report


_MADE: Final[dict[str, Callable[[Make], object]]] = {
    "status": lambda make: as_data([make(FlowStatus)], Shown()),
    "status --short": lambda make: as_data([make(FlowStatus)], Shown(short=True)),
    "watch": lambda make: make(Moment).as_dict() | {"command": ""},
    "watch --once": lambda make: [make(Moment).as_dict() | {"command": ""}],
    "watch acknowledge": lambda make: [make(Automatic)],
    "verify": lambda make: answer([make(FlowReport)], 10, whole=True),
    "translate": lambda make: [make(Line)],
    "failover": lambda make: report_of(replace(_run(make), state=RunState.DONE), "a->b"),
    "failover#not ended": lambda make: report_of(_run(make), "a->b"),
    "failover --dry-run": lambda make: show_rehearsal("a->b", make(Rehearsal, {"refusals": []})),
    "fence show": lambda make: make(Fences).to_json(),
    "fence pay --dry-run": lambda make: [make(StepEffect)._asdict()],
    "repoint show": lambda make: [_row(make(CurrentEndpoint, {"error": None}))],
    "divergence export": lambda make: _answer(make(Exported), make(Divergence)),
    "divergence export#all of it": lambda make: _answer(make(Exported), Divergence("a->b", ())),
    "divergence": lambda make: make(Divergence, {"unanswered": ""}).to_json(),
    "divergence#no answer": lambda make: make(Divergence).to_json(),
    "reprotect --plan": lambda make: show_outlook(make(Outlook), _FLOW),
    "reprotect --plan#under way": lambda make: show_outlook(make(Outlook), _FLOW, run=_run(make)),
    "reprotect --dry-run": lambda make: reprotect.show_rehearsal(make(ReturnProposal)),
    "reprotect --hold": lambda make: show_held([make(HeldTopic)], _FLOW, done=True),
    "reprotect --to": lambda make: make(ThirdCluster).to_json() | {"next": [""]},
    "drill history": lambda make: [entry_row(make(DrillEntry), as_json=True)],
    "drill run": lambda make: report_data(make(DrillReport), Path("x")),
    "drill report": lambda make: _report(make).model_dump(mode="json", by_alias=True),
    "chaos run": lambda make: _scenario_run(make).as_dict(),
}
"""Answers with the values of clusters; after ``#`` another answer of a command."""
_WITHOUT: Final = {
    "drkit completion": "a script of the shell",
    "drkit help": "a text",
    "drkit config schema": "a JSON schema itself",
}
"""Commands whose answer has no fields."""


@pytest.mark.parametrize("command", _ALONE)
def test_a_command_that_asks_no_cluster(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    text = silent_pair(_TABLES)
    (tmp_path / "drkit.toml").write_text(text, encoding="utf-8")
    assert cli.run([*command.split(), *_ALONE[command], "--json"]) == 0
    pin(command, json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("absent", [False, True], ids=["all", "nothing that may be absent"])
@pytest.mark.parametrize("command", _MADE)
def test_an_answer_about_clusters(command: str, absent: bool, capsys: pytest.CaptureFixture[str]):  # noqa: FBT001
    with click.Context(click.Command("drkit"), obj=Session(as_json=True)):
        if (made := _MADE[command](partial(sample, absent=absent))) is not None:
            emit(made)
    pin(command.partition("#")[0], json.loads(capsys.readouterr().out))


def test_the_cleanup_of_a_drill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "drkit.toml"
    file.write_text(silent_pair(_TABLES), encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("drkit.cli.actions.drills.drill.clean_up", lambda *_: {"d": ["a topic is left"]})
    assert cli.run(["drill", "cleanup", "--config", str(file), "--json"]) == 1
    pin("drill cleanup", json.loads(capsys.readouterr().out))


def test_a_refusal(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["config", "check", "--config", "/nowhere.toml", "--json"]) == 2
    pin("error", json.loads(capsys.readouterr().err))


def test_each_command_is_pinned_or_named_here():
    pinned = {f"drkit {name.partition(' --')[0]}" for name in json.loads(FILE.read_text(encoding="utf-8"))}
    runs = {
        path
        for path, command in commands()
        if not isinstance(command, click.Group) or command.invoke_without_command
    }
    assert runs == (pinned - {"drkit error"}) | _WITHOUT.keys()
    assert not pinned & _WITHOUT.keys()


def test_the_page_is_up_to_date():
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page(), "run: python -m tests.support.cli.json_fields"


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ({"rows": [{"a": 1, "b": "x"}, {"a": 2}], "more": None, "new": 1}, []),
        ({"rows": [{"b": "x"}, {"a": 2}], "more": None}, ["rows[].a is missing in some objects"]),
        ({"rows": [{"a": 1}], "more": None}, ["rows[].b is missing"]),
        ({"rows": [], "more": None}, ["rows[] is missing"]),
        ({"rows": [{"a": 1, "b": ""}], "more": 1}, ["more is number, not null"]),
        ({"rows": [{"a": "1", "b": ""}], "more": None}, ["rows[].a is string, not number"]),
        ({"more": None}, ["rows is missing"]),
        ([], [" is array, not object", "more is missing", "rows is missing"]),
    ],
)
def test_what_differs_from_the_record_is_named(found: object, wrong: list[str]):
    recorded = merged(None, {"rows": [{"a": 1, "b": "x"}, {"a": 2}], "more": None})
    assert complaints(recorded, found) == wrong


def test_a_field_that_only_some_runs_have_may_be_absent():
    recorded = merged(merged(None, {"a": 1, "b": 1}), {"a": None})
    assert complaints(recorded, {"a": 2}) == complaints(recorded, {"a": None, "b": 1}) == []
    assert complaints(recorded, {"b": 1}) == ["a is missing"]
