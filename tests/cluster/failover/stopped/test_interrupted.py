"""A switchover is stopped by a signal, or its process is killed: it is held, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import json
import os
from pathlib import Path
import pty
import signal
import subprocess
import sys
from typing import Any

import pytest

from drkit.failover.interpreter import Interpreter
from drkit.failover.steps.opening import OpenStep
from drkit.journal.machine import RunState, StepName
from tests.support.errors import sentence
from tests.support.failover.command import drkit as typed
from tests.support.failover.draining import drkit, waiting_in_drain
from tests.support.failover.settings_file import drkit as answered
from tests.support.failover.settings_file import written
from tests.support.failover.world import World
from tests.support.flows.produce import fill

pytestmark = pytest.mark.wide


@contextmanager
def draining(world: World, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A switchover that waits in DRAIN: its primary is fenced, and the replicator stands still."""
    topic, group = world.name("pay"), world.name("g")
    world.create(world.source, topic, 1, {"retention.ms": "-1"})
    fill(world.source, topic, 20)
    world.replicate()
    world.copied([topic], {group: None})
    words = ("failover", "--all", "--planned", "--clients-cut", "the test has none", "--yes")
    with waiting_in_drain(world, folder, topic, *words) as run:
        yield run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_holds_it_before_the_standby_opens(world: World, tmp_path: Path, number: signal.Signals):
    with draining(world, tmp_path) as run:
        run.send_signal(number)
        said, _ = run.communicate(timeout=60)
        assert run.returncode == 1, said
        assert sentence("run_interrupted") in said
        assert f"{world.source.alias} refuses producers" in said
        assert "drkit failover --resume" in said
        assert "drkit failover --abort" in said
        log = world.run_log()
        assert (log.state, StepName.OPEN in log.begun) == (RunState.HELD, False)
    done = drkit(tmp_path, "failover", "--resume")
    said, _ = done.communicate(timeout=120)
    assert done.returncode == 0, said


@pytest.mark.parametrize("asked", [(OpenStep, "announce"), (Interpreter, "_is_unfenced")])
def test_a_signal_during_the_looks_before_open_holds_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[type, str]
):
    topic, _ = world.copy_orders()
    world.protected([topic])
    look = getattr(*asked)

    def looks(self: Any, *given: Any, **more: Any) -> Any:
        if StepName.COMMIT_OFFSETS in world.run_log().results:
            os.kill(os.getpid(), signal.SIGINT)
        return look(self, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(*asked, looks)
        words = ("failover", "--all", "--planned", "--clients-cut", "the test has none", "--yes")
        held = typed(written(world, tmp_path), *words)
    log = world.run_log()
    assert (held.code, log.state, StepName.OPEN in log.begun) == (1, RunState.HELD, False), held


@pytest.mark.parametrize("step", [StepName.FENCE, StepName.OPEN])
def test_without_its_terminal_it_is_held_or_goes_on_to_its_end(world: World, tmp_path: Path, step: StepName):
    """A hook of the shell, or a session that ended, takes the terminal away without a signal, too."""
    topic, _ = world.copy_orders()
    world.protected([topic])
    file, (ours, theirs) = written(world, tmp_path), pty.openpty()
    words = ("failover", "--all", "--planned", "--clients-cut", "the test has none", "--yes")
    command = [sys.executable, "-m", "drkit", *words, "--config", str(file)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as run:
        os.close(theirs)
        said = b""
        while f"{step}  ".encode() not in said:
            said += os.read(ours, 4096)
        os.close(ours)
        if step is StepName.FENCE:
            run.send_signal(signal.SIGHUP)
        run.wait(120)
    wanted = RunState.HELD if step is StepName.FENCE else RunState.DONE
    assert world.run_log().state is wanted, said


def test_a_run_whose_process_was_killed_is_held_and_its_status_is_not_green(world: World, tmp_path: Path):
    with draining(world, tmp_path) as run:
        file = tmp_path / "drkit.toml"
        run.kill()
        run.wait()
        held = answered(file, "watch", "--once", "5", "--json")
        [watched] = json.loads(held.stdout)
        assert (held.returncode, watched["verdict"], watched["reason"]) == (3, "HOLD", "run_held")
        assert "drkit failover" in watched["evidence"][0]
        assert "--abort" in watched["evidence"][0]
        asked = drkit(tmp_path, "status", "--json")
        told, _ = asked.communicate(timeout=60)
        assert asked.returncode == 1, told
        pair = json.loads(told)["flows"][0]["pair"]
        assert f"its process {run.pid} on" in json.dumps(pair["lines"])
        refused = drkit(tmp_path, "failover", "--all", "--planned", "--yes")
        said, _ = refused.communicate(timeout=60)
        assert "its process is gone" in said
    undone = drkit(tmp_path, "failover", "--abort")
    said, _ = undone.communicate(timeout=120)
    assert undone.returncode == 0, said
