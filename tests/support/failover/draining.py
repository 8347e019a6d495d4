"""A run in its own process that waits in DRAIN: primary fenced, replicator stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import os
from pathlib import Path
import signal
import subprocess
import sys
import threading

from drkit.journal.machine import StepName
from tests.support.failover.settings_file import written
from tests.support.failover.world import World
from tests.support.flows.produce import answers
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]


def drkit(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start the command in a folder with ``drkit.toml``."""
    return subprocess.Popen(
        [sys.executable, "-m", "drkit", *words], cwd=folder, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@contextmanager
def waiting_in_drain(world: World, folder: Path, topic: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start a switchover of a world whose replicator runs, with a topic that is copied.

    :param words: the command
    """
    before = world.last_run_id()
    world.failover_fields["drain_seconds"] = 60.0
    written(world, folder)
    over, replicator = threading.Event(), world._replicator
    assert replicator is not None

    def write() -> None:
        while not over.is_set() and answers(world.source, topic, [b"late"])[0] is None:
            pass

    def has_begun(step: StepName) -> bool:
        return world.last_run_id() != before and step in world.steps_begun()

    writer = threading.Thread(target=write)
    run = drkit(folder, *words)
    try:
        eventually(lambda: has_begun(StepName.LOCK), seconds=60, what="the run")
        replicator.send_signal(signal.SIGSTOP)
        writer.start()
        eventually(lambda: has_begun(StepName.DRAIN), seconds=60, what="the wait for the copy")
        yield run
    finally:
        replicator.send_signal(signal.SIGCONT)
        over.set()
        if writer.ident is not None:
            writer.join()
        if run.poll() is None:
            run.kill()
        run.communicate()
