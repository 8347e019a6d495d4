from __future__ import annotations

import json
from pathlib import Path

import pytest

from drkit.cli import main as cli

TEXT = """clusters = west, east
west.bootstrap.servers = w:1
west.sasl.password = top-secret
east.bootstrap.servers = e:1
west->east.enabled = true
key.converter = x
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "mm2.properties"
    file.write_text(TEXT)
    return str(file)


def test_check_notes_what_does_nothing(config: str, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["config", "check", "--json", "--config", config]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["result"], answer["flows"]) == ("OK", "west->east")
    # The password, too: without security.protocol it is never sent.
    lines = ["line 3: west.sasl.password", "line 6: key.converter"]
    assert sorted((n["level"], n["setting"]) for n in answer["notes"]) == [("note", line) for line in lines]
    assert cli.run(["config", "check", "--config", config]) == 0
    assert "does nothing here" in capsys.readouterr().out


def test_show_names_lines_and_hides_secrets(config: str, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["config", "show", "--json", "--config", config]) == 0
    out = capsys.readouterr().out
    assert "top-secret" not in out
    rows = {row["setting"]: row for row in json.loads(out)}
    assert rows['clusters.west.client."sasl.password"']["from"] == "mm2.properties:3"
    assert rows["flows[0].source"]["from"] == "mm2.properties:5"
    assert rows["flows[0].naming"]["from"] == "MirrorMaker 2's default"
    assert (rows["flows[0].tasks"]["value"], rows["flows[0].tasks"]["from"]) == (
        "1",
        "MirrorMaker 2's default",
    )
    assert rows["flows[0].buckets"]["from"] == "default"


def test_flags_and_variables_win_and_are_named(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DRKIT_FLOWS__WEST__EAST__TASKS", "5")
    monkeypatch.setenv("DRKIT_FLOWS__WEST__EAST__TARGET_PRODUCER__SASL_PASSWORD", "hunter-2")
    flags = ["--set", "flows.west->east.topics=a, b", "--set", "flows.0.buckets=4"]
    monkeypatch.setenv("DRKIT_CLUSTERS__WEST__CLIENT__SASL_PASSWORD", "hunter-3")
    arguments = ["--set", "failover.rpo_seconds=9", "config", "show", "--json"]
    assert cli.run([*arguments, "--config", config, *flags]) == 0
    out = capsys.readouterr().out
    assert "hunter" not in out
    rows = {row["setting"]: (row["value"], row["from"]) for row in json.loads(out)}
    assert rows["flows[0].topics"] == ("a, b", "--set flows.west->east.topics")
    assert rows["flows[0].buckets"] == ("4", "--set flows.0.buckets")
    assert rows["failover.rpo_seconds"] == ("9.0", "--set failover.rpo_seconds")
    assert rows["flows[0].tasks"] == ("5", "DRKIT_FLOWS__WEST__EAST__TASKS")
    masked = "********"
    at = 'clusters.west.client."sasl.password"'
    assert rows[at] == (masked, "DRKIT_CLUSTERS__WEST__CLIENT__SASL_PASSWORD")
    variable = "DRKIT_FLOWS__WEST__EAST__TARGET_PRODUCER__SASL_PASSWORD"
    assert rows['flows[0].target_producer."sasl.password"'] == (masked, variable)


def test_a_wrong_flag_is_a_configuration_error(config: str, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["config", "show", "--config", config, "--set", "flows.0.tsks=1"]) == 2
    assert "did you mean 'tasks'?" in capsys.readouterr().err
