"""Files of tests begin in the order of what they took when they were recorded, the longest first."""

from __future__ import annotations

import json
import os
from pathlib import Path
import subprocess
import sys

import pytest

from tests.support.order import DURATIONS, UNKNOWN_SECONDS, read, seconds_of

ROOT = Path(__file__).parents[3]
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
SLOW = "import threading\ndef test_slow():\n    threading.Event().wait(1.2)\n"


def run(folder: Path, *more: str) -> list[str]:
    """The files of the tests that ran, in their order."""
    plugins = ["-p", "tests.support.order", "-p", "no:cacheprovider"]
    options = ["--durations-file", str(folder / "durations.json"), "-v", *more]
    command = [sys.executable, "-m", "pytest", *plugins, *options, str(folder)]
    done = subprocess.run(
        command, cwd=folder, env=ENV, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.replace("[gw0] ", "").replace("[100%] ", "") for line in done.stdout.splitlines()]
    return [word for line in lines if "PASSED" in line for word in line.split() if "::" in word]


def test_what_was_recorded_orders_the_next_run(tmp_path: Path):
    (tmp_path / "test_a.py").write_text("def test_one():\n    pass\ndef test_two():\n    pass\n")
    (tmp_path / "test_b.py").write_text(SLOW)
    (tmp_path / "durations.json").write_text('{"test_a.py": 0.0, "test_b.py": 0.0, "test_gone.py": 40.0}')
    asked = ["test_a.py::test_one", "test_a.py::test_two", "test_b.py::test_slow"]
    assert run(tmp_path, "--record-durations") == asked, "equal: as pytest found them"
    recorded = json.loads((tmp_path / "durations.json").read_text())
    assert list(recorded) == ["test_b.py"], "one is no more, the other takes a moment"
    assert 1.2 <= recorded["test_b.py"] < 30
    (tmp_path / "durations.json").write_text(json.dumps({**recorded, "test_a.py": 0.1}))
    assert run(tmp_path) == [asked[2], *asked[:2]]


@pytest.mark.wide
def test_several_processes_record_and_keep_the_order(tmp_path: Path):
    (tmp_path / "test_a.py").write_text("def test_one():\n    pass\n")
    (tmp_path / "test_b.py").write_text(SLOW)
    (tmp_path / "durations.json").write_text('{"test_a.py": 1.0, "test_b.py": 2.0}')
    workers = ["-n", "1", "--dist", "loadfile", "--no-loadscope-reorder", "--record-durations"]
    assert run(tmp_path, *workers) == ["test_b.py::test_slow", "test_a.py::test_one"]
    assert list(json.loads((tmp_path / "durations.json").read_text())) == ["test_b.py"]


def test_a_file_that_was_never_recorded_waits_for_the_long_ones():
    assert seconds_of("tests/cluster/test_new.py", {}) == UNKNOWN_SECONDS
    assert seconds_of("tests/cluster/test_new.py", {"tests/cluster/test_new.py": 3.5}) == 3.5
    assert seconds_of("tests/unit/test_new.py", {}) == 0.0


def test_the_recording_of_this_house_is_of_files_that_are_there():
    recorded = read(DURATIONS)
    assert len(recorded) > 50
    assert [name for name in recorded if not (ROOT / name).exists()] == []
    assert list(recorded.values()) == sorted(recorded.values(), reverse=True)
