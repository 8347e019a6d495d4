"""`drkit chaos run` where no scenario can run: one error, and no verdict."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys

import pytest

from tests.support.errors import sentence

FULL = """
from functools import partial
import resource
import shutil

from drkit.chaos import stage
from drkit.errors import Failed

_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE)


def fill(primary, standby):
    limit((0, hard))
    raise Failed("broker_still_running")


stage.start_together = fill
# What the clusters took is free again before the result is written.
shutil.rmtree = lambda *_, **__: limit((hard, hard))
"""


def run(folder: Path, program: str = "", **environment: str) -> tuple[int, str, str]:
    """Run a scenario after a program; return the exit code, stdout, and stderr as one line."""
    arguments = ["chaos", "run", "primary-killed", "--folder", str(folder)]
    program += f"\nfrom drkit.cli.main import main\nmain({arguments})"
    typed, env = [sys.executable, "-c", program], {**os.environ, **environment}
    done = subprocess.run(typed, capture_output=True, text=True, check=False, env=env)
    return done.returncode, done.stdout, " ".join(done.stderr.split())


@pytest.mark.timeout(120)
def test_a_disk_that_is_full_while_the_clusters_start_is_named(tmp_path: Path):
    code, verdict, text = run(tmp_path, FULL)
    assert (code, verdict) == (3, "")
    assert f"{sentence('chaos_folder_unwritable')} where {tmp_path}/primary-killed-" in text
    assert "evidence File too large" in text


@pytest.mark.timeout(120)
def test_without_java_nothing_begins(tmp_path: Path):
    code, verdict, text = run(tmp_path, PATH="/nowhere", JAVA_HOME="")
    assert (code, verdict) == (2, "")
    assert text.startswith(f"configuration: {sentence('no_java')} where PATH")
    assert [file.name for file in tmp_path.iterdir()] == [".lock"]
