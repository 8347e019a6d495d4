"""Child processes and their parent, without a cluster: how they start, end, and are given up."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import Pipe
import os
from pathlib import Path
import signal
import subprocess
import sys

import pytest

from drkit.clock import monotonic
from drkit.errors import Failed
from drkit.exercise.clients import run_client
from drkit.exercise.processes import Child, ProcessParent
from drkit.local.process import ProcessIdentity
from tests.support.errors import coded


def child_of(process: subprocess.Popen[bytes]) -> Child:
    """Return the scenario's side of a child that is this process."""
    ours, theirs = Pipe()
    theirs.send({"pid": process.pid})
    return Child(("client",), ours, {})


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ignores SIGTERM; none but this fixture waits for its end."""
    code = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


@pytest.mark.timeout(60)
def test_a_client_that_ignores_its_end_is_killed_at_the_deadline(sleeper: subprocess.Popen[bytes]):
    child = child_of(sleeper)
    child.signal(signal.SIGTERM)
    child.end_before(monotonic() + 0.2)
    assert not ProcessIdentity.of(sleeper.pid).alive
    assert child.ended().code is None


@pytest.mark.timeout(60)
def test_a_client_whose_parent_never_reaped_it_has_ended(sleeper: subprocess.Popen[bytes]):
    child = child_of(sleeper)
    os.kill(sleeper.pid, signal.SIGKILL)  # it remains as a zombie, which takes signals
    child.end_before(monotonic() + 0.2)
    assert child.ended().code is None


@pytest.mark.timeout(120)
def test_a_child_of_a_parent_that_ended_does_not_start(tmp_path: Path):
    with (
        ProcessParent("tests.no_such_module") as parent,
        pytest.raises(Failed, check=coded("child_not_started")),
    ):
        parent.start(("writer",), "client", log=tmp_path / "log", kind="writer")


def test_a_client_without_properties_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ran: list[str] = []
    monkeypatch.setitem(run_client.__globals__["_KINDS"], "idle", lambda work: ran.append(work.name))
    before = signal.getsignal(signal.SIGTERM)
    try:
        run_client(kind="idle", name="one", history=str(tmp_path / "history.jsonl"), seed=0)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ran == ["one"]


@pytest.mark.timeout(120)
def test_a_child_whose_scenario_has_ended_prints_nothing():
    code = (
        "from multiprocessing import Pipe; from drkit.exercise.processes import _run_child;"
        "ours, theirs = Pipe(); ours.close(); _run_child(theirs.fileno())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
