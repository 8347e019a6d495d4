"""A bubble whose machine harms it: a process of it is killed, or the disk with its history is full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
import os
from pathlib import Path
import signal
import subprocess
import time

import pytest

from drkit.drill.history import DrillHistory
from drkit.errors import Failed
from drkit.local.cluster import LocalCluster
from tests.support.drill.production import Production, plan_of, run
from tests.support.errors import coded
from tests.support.failover.world import World


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 64 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    words = ["/bin/mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    if subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["/bin/umount", "--lazy", str(folder)], check=True)


def fill_up(file: Path) -> None:
    """Write a file until its disk is full."""
    with suppress(OSError), file.open("wb", buffering=0) as out:
        while out.write(bytes(4096)):
            pass


def children(of: int) -> list[int]:
    """Return the ids of the processes that the threads of a process started."""
    tasks = Path(f"/proc/{of}/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def parent_of_the_stage() -> int:
    """Return the process that forks clients and replicators of the running drill."""
    named = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(os.getpid())}
    [found] = [pid for pid, words in named.items() if b"drkit.exercise.processes" in words]
    return found


def kill_the_parent() -> None:
    os.kill(parent_of_the_stage(), signal.SIGKILL)


def kill_a_client() -> None:
    os.kill(children(parent_of_the_stage())[0], signal.SIGKILL)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("step", "harm", "named"),
    [
        ("CREATE", kill_the_parent, "the parent of all"),
        ("STEADY", kill_a_client, "writer"),
        ("CLIENTS", kill_the_parent, "the parent of all"),
    ],
)
def test_a_killed_process_aborts_the_bubble_at_once(
    tmp_path: Path,
    source: LocalCluster,
    target: LocalCluster,
    step: str,
    harm: Callable[[], None],
    named: str,
) -> None:
    world = World(source, target, tmp_path / "journal")
    production = Production(world)
    before, harmed = production.inventories(), [0.0]

    def begun(name: str) -> None:
        if name == step:
            harmed[0] = time.monotonic()
            harm()
        if name == "CLEAN":
            harmed.append(time.monotonic())

    report = run(world.settings, plan_of(world.settings), begun=begun)
    assert report.verdict == "aborted", report.reasons
    assert report.reasons == (f"a process of the drill was killed: {named}",)
    assert harmed[1] - harmed[0] < 15, "it waited for a process that is dead"
    assert not DrillHistory.of(world.settings).owing(world.settings.flows[0].name)
    production.same(before, production.inventories())
    world.close()


@pytest.mark.wide
def test_a_full_disk_names_the_cleanup_that_is_owed(
    small_disk: Path, source: LocalCluster, target: LocalCluster
) -> None:
    """What the drill made is deleted all the same; only its history cannot be kept."""
    world = World(source, target, small_disk / "journal")
    production = Production(world)
    before, filler = production.inventories(), small_disk / "filler"

    def begun(name: str) -> None:
        if name == "FAILOVER":
            fill_up(filler)

    with pytest.raises(Failed, check=coded("drill_cleanup_unrecorded")) as failed:
        run(world.settings, plan_of(world.settings), begun=begun)
    flow = world.settings.flows[0].name
    assert failed.value.evidence == "No space left on device"
    assert failed.value.hint == f"make room there, then: drkit drill cleanup --flow '{flow}'"
    production.same(before, production.inventories())
    filler.unlink()
    # This process lives, so the cleanup would refuse: one that ended is paid in `test_bubble.py`.
    [owing] = DrillHistory.of(world.settings).owing(flow)
    assert owing.cleanup_owed
    world.close()
