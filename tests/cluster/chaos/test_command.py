"""`drkit chaos run` as a user's process: Ctrl-C leaves nothing running, a full disk is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
import resource
import signal
import subprocess
import sys

import pytest

from tests.support.waiting import eventually


def processes_of(folder: Path) -> list[str]:
    """Command lines and environments of processes that have to do with a folder."""
    found = []
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = status.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if str(folder) in words and "pytest" not in words:
            found.append(words)
    return found


@contextmanager
def running(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A scenario under way, and the file of what it prints."""
    printed = folder / "printed"
    folder.mkdir()
    with printed.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "drkit", "chaos", "run", "primary-killed", "--folder", f"{folder}/run"],
            stdout=out, stderr=out, process_group=0,
        )  # fmt: skip
        try:
            yield process, printed
        finally:
            process.kill()
            process.wait()


@pytest.mark.wide
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["pair", "$ drkit failover"])
def test_ended_by_a_signal_it_leaves_nothing_running(number: signal.Signals, moment: str, tmp_path: Path):
    with running(tmp_path / "chaos") as (process, printed):
        eventually(lambda: moment in printed.read_text(), 120, moment)
        process.send_signal(number)
        code = process.wait(60)
    text = printed.read_text()
    assert code == 130, text
    assert "Traceback" not in text
    assert "history" in text, "where the history stays"
    eventually(lambda: not processes_of(tmp_path / "chaos"), 20, lambda: str(processes_of(tmp_path)))


@pytest.mark.wide
@pytest.mark.timeout(300)
def test_a_full_disk_is_named(tmp_path: Path):
    with running(tmp_path / "chaos") as (process, printed):
        eventually(lambda: "steady" in printed.read_text(), 120, "the steady state")
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, hard))
        code = process.wait(120)
    text = printed.read_text()
    assert code == 3, "1 is for a broken promise"
    assert "File too large" in text, text
    assert "Traceback" not in text
    eventually(lambda: not processes_of(tmp_path / "chaos"), 20, lambda: str(processes_of(tmp_path)))
