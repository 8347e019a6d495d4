"""Chaos Toolkit's exit code agrees with the verdict: 0 for `pass`, 1 for all else.

`chaos run` ends with 1 if the experiment has deviated or was not completed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import json
import os
from pathlib import Path
import signal
import subprocess
import sys
from typing import Any, Final

import pytest
import yaml

from drkit.chaos.run import RESULT, ScenarioRun, run_scenario
from drkit.chaos.scenario import load_scenario
from drkit.chaos.stage import ScenarioStage
from drkit.errors import Failed
from drkit.exercise.events import HISTORY
from drkit.exercise.processes import MODULE
from tests.support.errors import made, sentence

NO_PARENT: Final = "tests.no_such_module"


def activity(module: str, func: str, **arguments: Any) -> dict[str, Any]:
    """Return an action of an experiment."""
    provider = {"type": "python", "module": f"drkit.chaos.{module}", "func": func, "arguments": arguments}
    return {"name": func, "type": "action", "provider": provider}


WAIT: Final = activity("actions", "wait", until="acked")
RAISES: Final = activity("actions", "fault", name="end kill primary")
UNEXPECTED: Final = activity("actions", "drkit", words=["status"], expect=[7])
UP: Final = activity("actions", "wait", until="verdict UP")
SLOW, WELL = (activity("actions", "fault", name=name) for name in ("duty primary", "end duty primary"))
GRAY: Final = [activity("actions", "observe"), UP, SLOW, WAIT, WELL, UP]
"""An observer looks while the primary is slow."""
SEEN_UP: Final = ({"fault": "duty primary", "step": "UP"},)
NEVER: Final = ({"fault": "kill primary", "step": "OPEN"},)


def written(
    folder: Path, method: Sequence[Mapping[str, Any]], exercises: Sequence[Mapping[str, str]] = SEEN_UP
) -> Path:
    """Return the file of an experiment."""
    probe = activity("probes", "holds", exercises=list(exercises))
    probe |= {"type": "probe", "tolerance": {"type": "regex", "pattern": "^(steady|pass)$"}}
    experiment = {
        "title": "an experiment", "description": "of a test",
        "runtime": {"rollbacks": {"strategy": "always"}},
        "steady-state-hypothesis": {"title": "what drkit promises", "probes": [probe]},
        "method": list(method),
        "rollbacks": [activity("actions", "heal")],
    }  # fmt: skip
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(experiment), encoding="utf-8")
    return file


def run(
    folder: Path,
    method: Sequence[Mapping[str, Any]],
    exercises: Sequence[Mapping[str, str]] = SEEN_UP,
    parent_module: str = MODULE,
) -> ScenarioRun:
    """Write an experiment, and run it."""
    file = written(folder, method, exercises)
    return run_scenario(load_scenario(str(file)), folder, 1, parent_module=parent_module)


@pytest.mark.wide
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("method", "exercises", "word", "reason"),
    [
        pytest.param(GRAY, SEEN_UP, "pass", "", id="pass"),
        pytest.param([UNEXPECTED], SEEN_UP, "fail", "commands ended as documented: status", id="fail"),
        pytest.param(
            [WAIT], NEVER, "inconclusive", "was not in force: kill primary at OPEN", id="inconclusive"
        ),
        pytest.param([RAISES], SEEN_UP, "inconclusive", "not read: action fault", id="a fault that raised"),
    ],
)
def test_the_exit_code_agrees_with_the_verdict(
    method: list[Any], exercises: Sequence[Mapping[str, str]], word: str, reason: str, tmp_path: Path
):
    result = run(tmp_path, method, exercises)
    assert result.verdict.word == word, result.as_dict()
    assert any(each.startswith(reason) for each in [*result.verdict.reasons, ""])
    assert result.deviated is (word != "pass")


@pytest.mark.wide
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "word"), [(GRAY, "pass"), ([UNEXPECTED], "fail")])
def test_the_toolkits_own_command_ends_as_drkits(method: list[Any], word: str, tmp_path: Path):
    program = (
        "import sys, pathlib, yaml; from chaoslib.experiment import run_experiment;"
        "run_experiment(yaml.safe_load(pathlib.Path(sys.argv[1]).read_text()))"
    )
    typed = [sys.executable, "-c", program, str(written(tmp_path, method))]
    done = subprocess.run(
        typed, capture_output=True, text=True, check=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    [folder] = tmp_path.glob("drkit-chaos-*")
    assert f"{word.upper()}  experiment" in done.stderr
    assert str(folder / HISTORY) in done.stderr
    result = json.loads((folder / RESULT).read_text())
    assert result["verdict"] == word
    assert all(reason.partition(": ")[2] in done.stderr for reason in result["reasons"])
    assert not {"primary", "standby"} & {each.name for each in folder.iterdir()}


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_a_stage_without_processes_is_no_pass(tmp_path: Path):
    result = run(tmp_path, [WAIT], parent_module=NO_PARENT)
    assert (result.verdict.word, result.deviated) == ("inconclusive", True)
    assert any(sentence("child_not_started") in each for each in result.verdict.reasons)


def test_a_stage_that_does_not_come_up_is_no_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: ScenarioStage) -> ScenarioStage:
        raise made(Failed, "a cluster does not start", where="primary")

    monkeypatch.setattr(ScenarioStage, "__enter__", refuse)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    result = run(tmp_path, [WAIT])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert (result.verdict.word, result.deviated) == ("inconclusive", True)
    assert "a cluster does not start" in str(result.verdict.reasons)
