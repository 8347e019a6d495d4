"""Completion: the scripts are click's, and what they ask drkit is answered."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from drkit.cli.main import run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_DRKIT_COMPLETE" in script
    assert f"{shell}_complete" in script


@pytest.mark.parametrize(
    ("words", "expected"), [("drkit failo", "failover"), ("drkit failover --ab", "--abort")]
)
def test_drkit_answers_what_the_script_asks(words: str, expected: str) -> None:
    asked = {"_DRKIT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "drkit"], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, **asked},
    )  # fmt: skip
    assert done.stdout.split() == [f"plain,{expected}"]
