"""`drkit watch --once` prints its answer once, and nothing before it. Both clusters are dead."""

from __future__ import annotations

import os
from pathlib import Path
import pty
import subprocess
import sys
import threading

import pytest

from tests.support.kafka.ports import closed


@pytest.mark.wide
def test_the_verdict_is_printed_once_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "drkit.toml").write_text(
        f'[clusters.p]\nbootstrap_servers = "{closed()}"\n[clusters.s]\nbootstrap_servers = "{closed()}"\n'
        '[[flows]]\nsource = "p"\ntarget = "s"\n[detection]\nconfirm_seconds = 1\n'
    )
    ours, theirs = pty.openpty()
    found: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(ours, 4096):
                found.append(data)
        except OSError:
            return  # the other side is closed

    reader = threading.Thread(target=read)
    reader.start()
    done = subprocess.run(
        [sys.executable, "-m", "drkit", "watch", "--once", "0.5"],
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "COLUMNS": "200"},
    )
    os.close(theirs)
    reader.join(10)
    os.close(ours)
    text = b"".join(found).decode().rpartition("\x1b[2K")[2]
    assert done.returncode == 3, text
    assert text.startswith("p->s: HOLD(target_unreachable)"), text
    assert text.count("target_unreachable") == 1
    assert "evidence=" not in text


_PROBES_AT_THE_END = """
import atexit, sys
from drkit.config import ClusterSettings
from drkit.kafka.probe import probe_servers
dead = ClusterSettings(alias="p", bootstrap_servers=sys.argv[1])
atexit.register(lambda: print(probe_servers(dead)[0].kind))
"""


def test_a_look_that_outlives_the_answer_raises_nothing() -> None:
    # It runs in a daemon thread: the process ends while it still probes a dead cluster.
    done = subprocess.run(
        [sys.executable, "-c", _PROBES_AT_THE_END, closed()],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("ProbeKind.REFUSED\n", "")
