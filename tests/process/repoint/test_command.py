from __future__ import annotations

from pathlib import Path
import sys

import pytest

from drkit.endpoint import Endpoint
from drkit.errors import Failed
from drkit.local.process import ProcessIdentity
from drkit.repoint import TryAgain
from drkit.repoint.command import Command
from tests.support.errors import coded, sentence
from tests.support.waiting import wait_until

STANDBY = Endpoint(5, "standby", "id-2", "s1:9092")


def command(text: str, seconds: float = 20.0) -> Command:
    return Command((sys.executable, "-c", text), seconds)


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path):
    child = tmp_path / "child"
    text = (
        "import pathlib, subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"pathlib.Path({str(child)!r}).write_text(str(p.pid))\n"
        "print('half way', flush=True)\n"
        "time.sleep(60)\n"
    )
    with pytest.raises(TryAgain, match=sentence("program_timeout", timeout_seconds=2.0)) as failed:
        command(text, 2.0).tell(STANDBY)
    assert failed.value.evidence == "half way"
    pid = int(child.read_text())

    def gone() -> bool:
        try:
            return not ProcessIdentity.of(pid).alive
        except (OSError, ProcessLookupError):
            return True

    wait_until(gone, 10)


def test_its_output_is_shown_without_passwords():
    with pytest.raises(TryAgain, match=sentence("repoint_command_failed", error_code=1)) as failed:
        command("import sys; sys.exit('no route, password=hunter2')").tell(STANDBY)
    assert "no route" in failed.value.evidence
    assert "hunter2" not in failed.value.evidence


def test_a_command_that_cannot_start_is_no_matter_of_time():
    with pytest.raises(Failed, check=coded("program_not_started")) as failed:
        Command(("/no/such/program",), 1.0).tell(STANDBY)
    assert not isinstance(failed.value, TryAgain)
    assert failed.value.where == "/no/such/program"
    for program, searched in (("/no/such/program", ""), ("no-such-program", "PATH = ")):
        with pytest.raises(Failed, check=coded("program_missing")) as missing:  # before it matters
            Command((program,), 1.0).current()
        assert missing.value.evidence[: len("PATH = ")] == searched
