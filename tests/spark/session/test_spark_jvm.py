"""Spark's JVM comes up before it is needed, and ends with the process that launched it."""

from __future__ import annotations

import json
from pathlib import Path
import subprocess
import sys

import pytest

from drkit.errors import Failed
from drkit.local.java import find_java
from drkit.spark.class_archive import archive_place, command_place
from drkit.spark.class_training import make_archive
from drkit.spark.jvm import SparkJvm, launch_early, launched, take_early
from tests.support.waiting import eventually

EARLY = """
from drkit.spark.jvm import launch_early, _early
launch_early()
print(_early[0].process.pid, _early[0].folder, flush=True)
"""
FIRST_JOB = """
import sys
from drkit.spark.jvm import launch_early
launch_early()
assert "pyspark" not in sys.modules, "it is imported while the JVM comes up"
from drkit.spark.session import spark_session
from drkit.spark.jobs import SparkJobs
with spark_session("early", 1) as workshop:
    jobs = SparkJobs(workshop, "a", "checkpoint_job_died", "a")
    print(workshop.context._gateway.proc.args[-1], *jobs.run(["copied"], str))
"""


@pytest.fixture(autouse=True)
def _archive() -> None:
    make_archive()


def run(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout.split()


@pytest.mark.wide
def test_a_session_uses_the_jvm_that_was_launched_early():
    assert run(FIRST_JOB) == ["org.apache.spark.api.python.PythonGatewayServer", "copied"]


def test_one_that_no_session_takes_ends_with_its_process():
    pid, folder = run(EARLY)
    eventually(lambda: not Path(f"/proc/{pid}").exists(), what="the end of the JVM")
    assert not Path(folder).exists()


@pytest.mark.parametrize("name", ["SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS"])
def test_what_speaks_to_sparks_scripts_is_heard(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv(name, "something")
    assert launched(find_java(), None) is None


@pytest.mark.parametrize("missing", ["archive", "command", "java"])
def test_without_what_it_needs_sparks_scripts_start_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
):
    archive = archive_place(find_java())
    if missing == "java":
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    else:
        monkeypatch.setenv("DRKIT_CACHE", str(tmp_path))
        there = archive_place(find_java())
        there.parent.mkdir(parents=True)
        kept = command_place(archive) if missing == "archive" else archive
        (there.parent / kept.name).symlink_to(kept)
    launch_early()
    assert take_early() is None


def test_a_file_of_sparks_scripts_is_heard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    home = Path(json.loads(command_place(archive_place(find_java())).read_text())[1].split(":")[1]).parents[1]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-env.sh").touch()
    (tmp_path / "jars").symlink_to(home / "jars")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    there = archive_place(find_java())
    there.touch()
    command_place(there).write_text("[]")
    try:
        assert launched(find_java(), None) is None
    finally:
        there.unlink()
        command_place(there).unlink()


def test_one_that_does_not_come_up_says_why():
    jvm = SparkJvm(find_java(), ["-cp", "/nowhere"], "").launch()
    try:
        with pytest.raises(Failed) as failed:
            jvm.address()
    finally:
        jvm.end()
    assert "PythonGatewayServer" in failed.value.evidence
