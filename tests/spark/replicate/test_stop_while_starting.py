"""SIGTERM and SIGINT while ``drkit replicate`` starts: a stop in good order, at whatever moment."""

from __future__ import annotations

from contextlib import suppress
import json
import os
from pathlib import Path
import random
import signal
import subprocess
import sys
from typing import Any, Final
import uuid

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.flows.process import (
    take_interrupts,
    tree,
)
from tests.support.waiting import (
    eventually,
)

FLOW = """
source = "a"
target = "b"
topics = ["{tag}-.*"]
tasks = 1
buckets = 2
emit_heartbeats = false
"""
LONGEST_START = 9.0
"""Seconds; later delays meet the first epochs."""
CHANCE = random.Random(9)
DELAYS = sorted(CHANCE.uniform(0.0, LONGEST_START) for _ in range(4))
IN_SUITE: Final[dict[tuple[str, str, int], Any]] = {
    ("SIGTERM", "service", 2): (),
    ("SIGINT", "process", 1): pytest.mark.wide,
}
"""Each signal and each of its ways once; at all moments in ``make soak``."""
CASES = [
    pytest.param(
        getattr(signal, name), way == "service", delay, id=f"{name}-{way}-{delay}",
        marks=IN_SUITE.get((name, way, number), pytest.mark.soak),
    )
    for name in ("SIGTERM", "SIGINT")
    for way in ("process", "service")
    for number, delay in enumerate(DELAYS)
]  # fmt: skip
BEFORE_IT_BEGAN = {-signal.SIGTERM: "SIGTERM", 128 + signal.SIGINT: "SIGINT"}


@pytest.fixture
def config(tmp_path: Path, source: LocalCluster, target: LocalCluster) -> Path:
    path = tmp_path / "drkit.toml"
    path.write_text(
        f'[clusters.a]\nbootstrap_servers = "{source.bootstrap()}"\n'
        f'[clusters.b]\nbootstrap_servers = "{target.bootstrap()}"\n'
        f"[[flows]]{FLOW.format(tag=uuid.uuid4().hex[:8])}"
    )
    return path


def catches_sigterm(pid: int) -> bool:
    """Whether a process runs code of drkit, and not only the interpreter that is to load it."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(next(line for line in status.splitlines() if line.startswith("SigCgt:")).split()[1], 16)
    return bool(caught >> signal.SIGTERM - 1 & 1)


def left_behind(folder: Path) -> list[str]:
    """Processes that were given a folder as their own, but for this one."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if str(folder).encode() in environ.read_bytes():
                found.append(environ.parent.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.mark.parametrize(("number", "whole_service", "delay"), CASES)
def test_a_signal_stops_it_in_good_order(
    config: Path, tmp_path: Path, number: signal.Signals, delay: float, *, whole_service: bool
) -> None:
    """To the process alone, or to all there are at that moment, Spark's too: as systemd stops a service."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "drkit", "replicate", "--config", str(config), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
        start_new_session=True,
        preexec_fn=take_interrupts,  # noqa: PLW1509  no threads yet
    )
    try:
        eventually(lambda: catches_sigterm(process.pid), what="drkit's first handler")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(delay)
        for pid in tree(process.pid) if whole_service else [process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        answer, said = process.communicate(timeout=60)
    finally:
        process.kill()

    assert "Traceback" not in said, said
    if process.returncode in BEFORE_IT_BEGAN:
        # Between the loading of a command and its first line the system's own way of ending it holds.
        assert said.strip() in {"", f"drkit: ended by {BEFORE_IT_BEGAN[process.returncode]} before it began"}
        assert not answer
    else:
        assert process.returncode == 0, said
        (flow,) = json.loads(answer)["flows"]
        assert (flow["ended"], flow["error"], flow["stopped_partitions"]) == ("stopped", None, {})
        assert not [line for line in said.splitlines() if '"level": "error"' in line], said
    eventually(lambda: not left_behind(scratch), what="the end of all processes")
    assert not list(scratch.glob("drkit-*"))
