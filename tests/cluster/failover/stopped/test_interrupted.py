"""A switchover is stopped by a signal, or its process is killed: it is held, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import json
from pathlib import Path
import signal
import subprocess

import pytest

from drkit.journal.machine import RunState, StepName
from tests.support.errors import sentence
from tests.support.failover.draining import drkit, waiting_in_drain
from tests.support.failover.settings_file import drkit as answered
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
