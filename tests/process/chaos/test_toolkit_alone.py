"""Chaos Toolkit's own command: it ends a scenario with the same screen as `drkit chaos run`."""

from __future__ import annotations

import json
from pathlib import Path
import resource
import subprocess
import sys

import pytest

from drkit.chaos.scenario import FOLDER
from tests.support.errors import sentence

PROGRAM = """
from pathlib import Path
import sys

from chaoslib.experiment import run_experiment
import yaml

from drkit.chaos import stage
from drkit.errors import Failed


def refuse(primary, standby):
    primary.folder.mkdir(exist_ok=True)
    raise Failed("broker_still_running", where="primary")


stage.start_together = refuse
run_experiment(yaml.safe_load(Path(sys.argv[1]).read_text()))
"""


@pytest.mark.timeout(120)
def test_a_pair_that_does_not_start_is_told_as_by_drkit(tmp_path: Path):
    file = FOLDER / "primary-killed.yaml"
    env = {"TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    typed = [sys.executable, "-c", PROGRAM, str(file)]
    done = subprocess.run(typed, capture_output=True, text=True, check=True, env=env)
    [folder] = tmp_path.glob("drkit-chaos-*")
    assert "INCONCLUSIVE  primary-killed" in done.stderr
    assert sentence("broker_still_running") in done.stderr
    assert "only what the failover states is lost" in done.stderr
    assert str(folder / "history.jsonl") in done.stderr
    result = json.loads((folder / "result.json").read_text())
    assert (result["scenario"], result["verdict"]) == ("primary-killed", "inconclusive")
    assert [sentence("broker_still_running") in reason for reason in result["reasons"]] == [True]
    assert not (folder / "primary").exists()


@pytest.mark.timeout(120)
def test_a_full_disk_is_the_reason_of_its_verdict(tmp_path: Path):
    full = f"__import__('resource').setrlimit({resource.RLIMIT_FSIZE}, (0, 0))"
    env = {"TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    program = PROGRAM.replace("    raise", f"    {full}\n    raise")
    typed = [sys.executable, "-c", program, str(FOLDER / "primary-killed.yaml")]
    done = subprocess.run(typed, capture_output=True, text=True, check=True, env=env)
    assert "INCONCLUSIVE  primary-killed" in done.stderr
    assert "unproven   [Errno 27] File too large" in done.stderr
    assert "Traceback" not in done.stderr
