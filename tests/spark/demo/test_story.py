"""The demo tells the truth, ends well, and leaves nothing behind, also when it is interrupted."""

from __future__ import annotations

from array import array
import json
import os
from pathlib import Path
import signal
import subprocess
import sys
import threading
import time

import pytest

from drkit.cli.screens.demo import RichScreen
from drkit.demo.proof import ReadResult
from drkit.demo.screen import Scene
from drkit.demo.stage import StandbyObserver
from drkit.demo.story import rows
from tests.support.circles import in_soak, in_wide
from tests.support.cli.json_fields import pin
from tests.support.flows.process import take_interrupts

COMMAND = [sys.executable, "-m", "drkit", "demo"]


def processes_below(folder: Path) -> list[str]:
    """Command lines of living processes that mention a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def nothing_left(folder: Path, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while processes_below(folder):
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(0.1)
    return not list(folder.glob("drkit-demo-*"))


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(tmp_path)}


@pytest.mark.timeout(600)  # four minutes on a quiet machine
@pytest.mark.parametrize(
    ("until", "rate"),
    [("proof", 300), in_wide("home", 300), in_soak("home", 2000)],
    ids=["proof", "home", "home-2000"],
)
def test_the_story(tmp_path: Path, place: dict[str, str], until: str, rate: int) -> None:
    """P29, P41: told on two clusters, from the first order until the primary that died is home again."""
    done = subprocess.run(
        [*COMMAND, "--json", "--rate", str(rate), "--until", until],
        env=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=560,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    measured = json.loads(done.stdout)
    pin("demo", measured)
    assert measured["lost"] == measured["twice"] == 0
    assert measured["identical"]
    assert measured["verify"]["verdict"] == "equal"
    assert measured["records"] == measured["orders"] + measured["payments"]
    assert measured["verify"]["equal"] >= measured["records"]  # heartbeats are compared too
    assert measured["orders"] > 50 * rate
    assert measured["payments_rolled_back"] > 0
    assert measured["killed_at_lag_records"] > 0
    assert measured["position_seconds"] < 60
    assert nothing_left(tmp_path)
    if until == "proof":
        return
    # Five on the primary, the rest on the standby: which payments these are is compared by the demo itself.
    assert measured["group_before"] == 5
    # The shop was open once more before the primary died.
    assert measured["group_after"] >= measured["payments"] - 5
    assert measured["turn_lost"] == measured["turn_repeated"] == 0
    assert measured["turn_records"] > measured["records"], "the shop worked on both sides in between"
    assert measured["failover_groups"] == 1
    assert measured["failover_lost"] > 0
    assert measured["return_only_old"] >= measured["failover_lost"], "what was not copied is found again"
    assert measured["home_lost"] == measured["home_repeated"] == 0
    assert measured["home_records"] > measured["turn_records"] + measured["failover_lost"]
    assert 0 < measured["failover_seconds"] < 60
    assert set(measured["lost_from"]) >= {f"orders-{p}" for p in range(6)}


@pytest.mark.parametrize("number", [in_soak(signal.SIGINT), signal.SIGTERM])
def test_interrupted(tmp_path: Path, place: dict[str, str], number: signal.Signals) -> None:
    with subprocess.Popen(
        COMMAND,
        env=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=take_interrupts,  # noqa: PLW1509  no threads yet
    ) as process:
        assert process.stdout is not None
        # In the first act the brokers start, in the third Spark.
        wanted = "$ drkit replicate" if number == signal.SIGINT else "1. Two Kafka clusters"
        assert any(wanted in line for line in process.stdout)
        process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait(60) == 128 + number, rest
    assert "Traceback" not in rest
    assert nothing_left(tmp_path)


def test_delay_and_gaps_of_a_window() -> None:
    observer = StandbyObserver.__new__(StandbyObserver)
    observer._arrivals = array("d", [0.0, 1.0, 1.1, 1.2, 1.7, 9.0])
    observer._delays = array("d", [900.0, 10.0, 20.0, 30.0, 500.0, 900.0])
    seen = observer.latency(1.0, 2.0)
    assert seen is not None
    assert (seen.orders, seen.p50, seen.worst) == (4, 30.0, 500.0)
    assert seen.longest_gap == pytest.approx(500.0)
    assert observer.latency(3.0, 4.0) is None


def test_orders_that_came_twice_are_counted() -> None:
    assert ReadResult(4, 0, {}, [1, 2, 2, 3]).twice == 1


def test_only_what_was_measured_is_shown() -> None:
    told = rows({"lost": 0, "twice": 0, "seconds": 3.2})
    assert [name for name, _, _ in told] == ["lost by the copy", "twice", "all of this"]


def test_a_scene_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(1500, 1000, 250.0, 2000.0, alive=False, note="")
    RichScreen().show(scene)
    line = capsys.readouterr().out
    assert "drkit (dead)" in line
    assert "lag 500 records, 250 ms behind" in line


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    screen = RichScreen(quiet=True)
    screen.act("An act")
    screen.say("A sentence.")
    screen.table([("a", "1", "b")])
    with screen.live():
        screen.show(Scene(1, 1, None, 0.0, alive=True, note=""))
    assert capsys.readouterr().out == ""
