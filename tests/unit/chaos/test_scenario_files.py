"""Scenario files: those of drkit are whole, and a wrong one is refused before anything starts."""

from __future__ import annotations

import fcntl
from importlib import import_module
from pathlib import Path
from textwrap import dedent, indent
from unittest.mock import Mock

import pytest

from drkit.chaos.actions import fault
from drkit.chaos.run import ScenarioRun
from drkit.chaos.scenario import FOLDER, Scenario, load_scenario, scenarios
from drkit.cli import main as cli
from drkit.errors import ConfigError, Failed, Usage
from tests.chaos_page import circle_of
from tests.support.errors import coded, sentence

KILLED = (FOLDER / "primary-killed.yaml").read_text(encoding="utf-8")
FAULT = "func: fault\n      arguments: {name: kill primary}"
STOP = KILLED.replace(FAULT, "func: stop\n      arguments: {clients: CLIENTS}")
REPLICATE = KILLED.replace(FAULT, "func: replicate\n      arguments: {direction: fourth}")
PROBE = KILLED[KILLED.index("    - name: the history holds") : KILLED.index("method:")]
AGAIN = indent(dedent(PROBE), "  ")
NOTHING = KILLED.replace(KILLED[KILLED.index("exercises:") : KILLED.index("method:")], "exercises: []\n")


def activities(scenario: Scenario) -> list[dict[str, object]]:
    return [each["provider"] for each in scenario.experiment["method"]]


def faults_of(scenario: Scenario) -> set[str]:
    """Every fault that a scenario begins, at once or at an entry of a journal."""
    found: set[str] = set()
    for provider in activities(scenario):
        arguments = provider.get("arguments", {})
        assert isinstance(arguments, dict)
        if provider["func"] == "fault":
            found.add(arguments["name"])
        for trigger in arguments.get("at", ()):
            found |= {"rival orchestrator" if isinstance(each, dict) else each for each in trigger["then"]}
    return found


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda s: s.name)
def test_a_scenario_is_whole(scenario: Scenario):
    assert scenario.exercises
    assert {fault for fault, _ in scenario.exercises} <= faults_of(scenario)
    assert scenario.promised
    assert circle_of(scenario) in {"test", "wide", "soak"}
    assert (FOLDER.parent / "runbooks" / f"{scenario.runbook}.md").is_file()


def test_there_are_thirty():
    circles = [circle_of(scenario) for scenario in scenarios()]
    assert len(circles) == 30
    assert circles.count("test") == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title: [", sentence("scenario_not_yaml")),
        ("- 1\n- 2\n", sentence("scenario_not_an_experiment")),
        ("title: x\n", sentence("scenario_not_an_experiment")),
        ("title: 2024-99-99\n", sentence("scenario_not_yaml")),
        (
            KILLED.split("steady-state")[0] + KILLED[KILLED.index("method:") :],
            "'steady-state-hypothesis' is missing",
        ),
        (KILLED.replace("name: kill primary", "name: klil primary"), "unknown: klil primary"),
        (KILLED.replace("step: OPEN", "step: OPNE"), "unknown: OPNE"),
        (KILLED.replace("until: acked", "until: aked"), "unknown: aked"),
        (KILLED.replace("{name: kill primary}", "{name: end kill primari}"), "unknown: end kill primari"),
        (KILLED.replace("until: acked", "until: verdict LOSST"), "unknown: verdict LOSST"),
        (KILLED.replace("until: acked", "until: protected X"), "unknown: protected X"),
        (KILLED.replace("until: acked", "until: left X shop"), "unknown: left X shop"),
        (KILLED.replace("until: acked", "until: acked, by: wirter"), "unknown: wirter"),
        (KILLED.replace("until: acked", "until: acked, records: many"), "unknown: records"),
        (
            KILLED.replace("{name: kill primary}", "{name: kill primary, dealy_ms: 5}"),
            "not part of the function signature",
        ),
        (
            KILLED.replace(
                "func: holds\n        arguments:", "func: holds\n        arguments:\n          brokers: 0"
            ),
            "brokers",
        ),
        (KILLED.replace("expect: [1]", "expect: 1"), "unknown: expect"),
        (KILLED.replace("expect: [1]", "expect: [no_such_code]"), "unknown: no_such_code"),
        (KILLED.replace("expect: [1]", "machine: elswhere"), "unknown: elswhere"),
        (KILLED.replace("[fence, pay]", "fence"), "unknown: words"),
        (KILLED.replace("expect: [1]", "at: [{entry: OPEN intnet, then: []}]"), "unknown: OPEN intnet"),
        (KILLED.replace("expect: [1]", "at: [{entry: OPEN intent, then: [kill all]}]"), "unknown: kill all"),
        (KILLED.replace("expect: [1]", "at: [{entry: OPEN intent, thne: []}]"), "at.0.thne"),
        (KILLED.replace("expect: [1]", "at: [{entry: OPEN intent, then: [{drkt: []}]}]"), "drkt"),
        (KILLED.replace("{until: acked}", "{until: acked, by: shop}"), "unknown: shop"),
        (KILLED.replace("step: OPEN}", "step: OPEN, when: now}"), "exercises.1.when"),
        (KILLED.replace("promised:", "promissed:"), "unknown: promissed"),
        (STOP.replace("CLIENTS", "[wirter]"), "unknown: wirter"),
        (STOP.replace("CLIENTS", "writer"), "unknown: clients"),
        (REPLICATE, "unknown: fourth"),
        (NOTHING, "exercises without a fault"),
        (NOTHING.replace("exercises: []", "exercises:"), "exercises without a fault"),
        (KILLED.replace("func: fault", "func: fautl"), "a function called 'fautl'"),
        (KILLED.replace("func: heal", "func: current_stage"), "unknown: drkit.chaos.actions.current_stage"),
        (KILLED.replace("method:", f"{PROBE}method:"), "unknown: a second probe"),
        (KILLED.replace("method:\n", f"method:\n{AGAIN}"), "unknown: drkit.chaos.probes.holds"),
        (KILLED.replace("until: acked", "until: acked, records: -5"), "unknown: records"),
        (KILLED.replace("until: acked", "until: acked, seconds: .nan"), "unknown: seconds"),
        (KILLED.replace("[fence, pay]", "[]"), "unknown: words"),
        (KILLED.replace("func: heal}", "func: heal, arguments: {now: true}}"), "now"),
        (KILLED.replace("{name: kill primary}", "{nmae: kill primary}"), "name"),
    ],
)
def test_a_wrong_file_is_refused(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "wrong.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError):
        load_scenario(str(file))
    assert cli.run(["chaos", "run", str(file), "--folder", str(tmp_path)]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert words in printed
    assert "what to do" in printed


def test_an_unknown_name_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["chaos", "run", "primary-kiled"]) == 2
    assert "primary-killed" in capsys.readouterr().err
    assert cli.run(["chaos", "run", "xyzzy"]) == 2
    assert "what to do all scenarios: drkit chaos list\n" in capsys.readouterr().err, "no settings"
    with pytest.raises(Usage, check=coded("scenario_unreadable")) as refused:
        load_scenario("/nowhere/else.yaml")
    assert refused.value.evidence == "No such file or directory"


@pytest.mark.parametrize("words", [["chaos", "run"], ["chaos", "run", "--all", "primary-killed"]])
def test_what_to_run_is_named(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert cli.run(words) == 2
    assert "--all" in capsys.readouterr().err


def test_a_second_run_in_the_same_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert cli.run(["chaos", "run", "primary-killed", "--folder", str(tmp_path)]) == 3
    assert sentence("chaos_run_under_way") in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("missing", ["yaml", "chaoslib"])
def test_without_the_extra_the_command_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def without(name: str) -> object:
        if name.partition(".")[0] == missing:
            raise ImportError(f"No module named '{missing}'")
        return import_module(name)

    monkeypatch.setattr("drkit.chaos.scenario.import_module", without)
    assert cli.run(["chaos", "list"]) == 2
    assert "pip install 'chaostoolkit-lib>=1.44,<1.45' 'pyyaml>=6,<7'" in capsys.readouterr().err


def test_every_scenario_is_listed(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["chaos", "list"]) == 0
    listed = capsys.readouterr().out
    assert all(scenario.name in listed for scenario in scenarios())
    assert cli.run(["chaos", "list", "--coverage"]) == 0
    assert "COMMIT_OFFSETS" in capsys.readouterr().out


def test_an_action_outside_of_a_scenario_is_refused():
    with pytest.raises(Failed, check=coded("no_scenario_running")):
        fault("kill primary")


def test_an_action_that_fails_by_any_error_is_in_the_history(monkeypatch: pytest.MonkeyPatch):
    stage = Mock(faults={})
    monkeypatch.setattr(ScenarioRun, "current", ScenarioRun(Mock(), Path(), stage=stage))
    with pytest.raises(TypeError):
        fault("kill orchestrator", delay_ms=1)
    [look] = [call.args[0] for call in stage.recorder.record.mock_calls]
    assert (look.what, "delay_ms" in look.error) == ("action fault", True)


@pytest.mark.parametrize("folder", ["/dev/null", "/dev/null/x"])
def test_a_folder_that_cannot_be_written_is_refused(folder: str, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["chaos", "run", "primary-killed", "--folder", folder]) == 3
    assert sentence("chaos_folder_unwritable") in " ".join(capsys.readouterr().err.split())
