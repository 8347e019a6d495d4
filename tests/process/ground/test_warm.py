"""A forked program is a process like any other: its input, output, exit code and end are its own."""

from __future__ import annotations

from collections.abc import Iterator
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
from typing import BinaryIO

import pytest

from tests.support.waiting import eventually
from tests.support.warm import WarmProcess

THIS = "tests.process.ground.test_warm"
ROOT = Path(__file__).parents[3]


def main() -> None:
    """What the processes of these tests run."""
    match sys.stdin.read():
        case "fail":
            raise SystemExit(3)
        case "raise":
            raise ValueError("for the test")
        case "wait":
            sys.stdout.write("waiting\n")
            sys.stdout.flush()
            signal.pause()
        case said:
            sys.stdout.write(f"{os.getpid()} {sys.argv} {said}")


@pytest.fixture
def out() -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as file:
        yield file


def said(out: BinaryIO) -> str:
    return os.pread(out.fileno(), 100_000, 0).decode()


def test_it_reads_works_and_ends(out: BinaryIO):
    long = "x" * 300_000  # more than what a pipe takes at once
    process = WarmProcess(THIS, stdin=long.encode(), out=out.fileno())
    assert process.wait(30) == 0
    assert os.pread(out.fileno(), 400_000, 0).decode() == f"{process.pid} {[THIS]} {long}"
    assert (process.poll(), process.wait(0)) == (0, 0)
    process.kill()


@pytest.mark.parametrize(("word", "code"), [("fail", 3), ("raise", 1)])
def test_its_exit_code_is_that_of_the_program(out: BinaryIO, word: str, code: int):
    assert WarmProcess(THIS, stdin=word.encode(), out=out.fileno()).wait(30) == code
    assert ("ValueError: for the test" in said(out)) is (word == "raise")


def test_it_runs_until_it_is_killed_also_frozen_beside_others(out: BinaryIO):
    both = [WarmProcess(THIS, stdin=b"wait", out=out.fileno()) for _ in range(2)]
    eventually(lambda: said(out).count("waiting") == 2, 30, "both at work")
    assert [p.poll() for p in both] == [None, None]
    with pytest.raises(subprocess.TimeoutExpired):
        both[0].wait(0.01)
    both[0].send_signal(signal.SIGSTOP)
    assert both[0].poll() is None
    both[0].kill()
    assert both[0].wait(30) == -signal.SIGKILL
    assert both[1].poll() is None
    both[1].kill()
    assert both[1].wait(30) == -signal.SIGKILL


def test_none_survives_the_process_that_started_it():
    program = (
        "import sys; from tests.support.warm import WarmProcess\n"
        f"print(WarmProcess({THIS!r}, stdin=b'wait', out=sys.stderr.fileno()).pid, flush=True)\n"
        "input()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    owner.kill()
    owner.communicate()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), 30, "its end")
