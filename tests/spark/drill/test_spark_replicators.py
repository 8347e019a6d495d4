"""Drills of a pair that `drkit replicate` copies with Spark, which also exports their metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import subprocess
import sys
from urllib.request import urlopen

import pytest

from drkit.flow_state.names import state_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_names
from drkit.local.cluster import LocalCluster
from drkit.local.ports import PortReservation
from tests.support.drill.switchover import DrilledPair
from tests.support.failback.pair import CUT
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import ROOT, toml
from tests.support.waiting import eventually

QUICK = {
    "tasks": 1,
    "epoch_seconds": 20,
    "refresh_topics_interval_seconds": 1,
    "checkpoint_interval_seconds": 1,
    "sync_group_offsets_interval_seconds": 1,
}
NAME = "quarterly"


@pytest.fixture
def drilled(source: LocalCluster, target: LocalCluster, tmp_path: Path) -> Iterator[DrilledPair]:
    pair = DrilledPair(source, target, tmp_path, **QUICK)
    pair.prepare(replicate=False)
    yield pair
    pair.pair.close()


def configured(drilled: DrilledPair, file: Path) -> Path:
    """Write the configuration of the pair with a switchover drill."""
    plain = drilled.there.plain()
    drill = {"name": NAME, "kind": "switchover", "flow": drilled.settings.flows[0].name, "cron": "0 6 1 * *"}
    plain["drills"] = [
        {**drill, "clients_cut": CUT, "limits": {"seconds": 240}, "objectives": {"rto_seconds": 240}}
    ]
    file.write_text(toml(plain), encoding="utf-8")
    return file


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_production_goes_there_and_comes_home_with_spark(drilled: DrilledPair, tmp_path: Path) -> None:
    """P28: clients follow twice, nothing is lost, and the replicator's own metrics show the pass."""
    file = configured(drilled, tmp_path / "drkit.toml")
    with PortReservation() as ports:
        port = ports.reserve()
        words = [
            sys.executable,
            "-m",
            "drkit",
            "replicate",
            "--config",
            str(file),
            "--metrics-port",
            str(port),
        ]
        with (
            (tmp_path / "log").open("wb") as log,
            subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log) as replicator,
        ):
            try:
                eventually(lambda: has_begun(drilled), 300, "the state of both flows")
                with drilled.at_work() as (writer, _):
                    done = drkit(file, "drill", "run", NAME, "--yes")
                    assert (done.code, done.data["verdict"]) == (0, "pass"), done
                    assert len(writer.switches) == 2
                metrics = exported(port, "drkit_drill_last_verdict")
            finally:
                replicator.terminate()
            assert replicator.wait(60) == 0
    flow = drilled.settings.flows[0]
    drill = f'{{drill="{NAME}",kind="switchover",source="{flow.source}",target="{flow.target}"'
    assert f'drkit_drill_last_verdict{drill},verdict="pass"}} 1.0' in metrics
    assert f"drkit_drill_cleanup_owed{drill}}} 0.0" in metrics
    [passed] = [
        line for line in metrics if line.startswith(f"drkit_drill_last_pass_timestamp_seconds{drill}")
    ]
    [row] = drkit(file, "drill", "history").data
    assert float(passed.split()[-1]) == row["began_ms"] / 1000


def has_begun(drilled: DrilledPair) -> bool:
    """Return whether the replicator has created the state of both flows."""
    sides = (drilled.there, drilled.back)
    return all(state_topic(s.source.alias) in topic_names(Cluster.connect(s.target)) for s in sides)


def exported(port: int, wanted: str) -> list[str]:
    """Return the metrics of a process once one begins with a text."""
    found: list[str] = []

    def is_there() -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
                found[:] = page.read().decode().splitlines()
        except OSError:
            return False
        return any(line.startswith(wanted) for line in found)

    eventually(is_there, 120, lambda: "\n".join(line for line in found if "drkit_drill" in line))
    return found
