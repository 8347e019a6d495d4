"""Drills that failed, are overdue, or owe their cleanup are seen on a machine that runs none of them."""

from __future__ import annotations

from pathlib import Path
import subprocess
import sys
from urllib.request import urlopen
import uuid

import pytest

from drkit.clock import wall_ms
from drkit.config.tables.drills import DrillKind, DrillSettings
from drkit.drill.entry import DAY_MS, DrillEntry
from drkit.drill.history import DrillHistory
from drkit.drill.plan import new_drill_id
from drkit.local.ports import PortReservation
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import ROOT, toml
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.waiting import eventually

DRILLS = (
    DrillSettings(name="daily", kind="translation", cron="0 6 * * *"),
    DrillSettings(name="weekly", kind="readiness", cron="0 6 * * 1", max_age_days=8),
    DrillSettings(name="monthly", kind="bubble", cron="0 6 1 * *"),
)
SIGNALS = {
    'last_verdict{drill="daily",kind="translation",FLOW,verdict="fail"} 1.0',
    'overdue{drill="daily",kind="translation",FLOW} 0.0',
    'overdue{drill="weekly",kind="readiness",FLOW} 1.0',
    'cleanup_owed{drill="weekly",kind="readiness",FLOW} 0.0',
    'cleanup_owed{drill="monthly",kind="bubble",FLOW} 1.0',
}


def ended(world: World, name: str, kind: DrillKind, verdict: str, days_ago: int) -> DrillEntry:
    began_ms = wall_ms() - days_ago * DAY_MS
    drill_id = new_drill_id(uuid.uuid4().hex, lambda: began_ms)
    flow = world.settings.flows[0].name
    return DrillEntry(id=drill_id, name=name, kind=kind, flow=flow, verdict=verdict, began_ms=began_ms)


def rehearsed(world: World) -> list[DrillEntry]:
    """Put entries of drills on the target, and return them."""
    entries = [
        ended(world, "daily", "translation", "pass", 2),
        ended(world, "daily", "translation", "fail", 1),
        ended(world, "weekly", "readiness", "pass", 40),
        ended(world, "monthly", "bubble", "aborted", 3).model_copy(update={"cleanup_owed": True}),
    ]
    history = DrillHistory.of(world.settings)
    with history.lock():
        for entry in entries:
            history.put(entry, everywhere=True)
    return entries


def watched(world: World, file: Path) -> list[str]:
    """Return the metrics of a process of `drkit watch` once they have the signals."""
    served: list[str] = []
    with PortReservation() as ports:
        port = ports.reserve()

        def is_served() -> bool:
            try:
                with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
                    served[:] = page.read().decode().splitlines()
            except OSError:
                return False
            flow = f'source="{world.source.alias}",target="{world.target.alias}"'
            wanted = {f"drkit_drill_{signal.replace('FLOW', flow)}" for signal in SIGNALS}
            return wanted <= set(served)

        words = process(file, "watch", "--metrics-port", str(port))
        with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL) as watch:
            try:
                eventually(is_served, 60, lambda: "\n".join(x for x in served if "drkit_drill" in x))
            finally:
                watch.terminate()
    return served


def process(file: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "drkit", "--config", str(file), *words]


@pytest.mark.wide
def test_metrics_and_status_show_what_another_machine_rehearsed(world: World, tmp_path: Path) -> None:
    """P28: a drill that failed, or is overdue, or owes its cleanup is seen without its scheduler."""
    topic = world.name("orders")
    world.create(world.source, topic, 1, {"retention.ms": "-1"})
    fill(world.source, topic, 5)
    world.replicate()
    world.copied([topic])
    _, _, weekly, monthly = rehearsed(world)
    plain, file = world.plain(), tmp_path / "drkit.toml"
    plain["failover"] |= {"journal_folder": str(tmp_path / "another machine")}
    plain["drills"] = [drill.model_dump(exclude_defaults=True) for drill in DRILLS]
    file.write_text(toml(plain))

    rows = {row["drill"]: row for row in drkit(file, "status").data["drills"]}
    assert (rows["daily"]["last_verdict"], rows["daily"]["overdue"]) == ("fail", False)
    assert (rows["weekly"]["last_pass_ms"], rows["weekly"]["overdue"]) == (weekly.began_ms, True)
    assert rows["monthly"]["cleanup_owed"] == [monthly.id]
    words = process(file, "status", "--short")
    status = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    [line] = [line for line in status.stdout.splitlines() if line.startswith("drills  ")]
    for text in (
        "daily last verdict fail, last passed 2 d ago",
        "weekly overdue, last passed 40 d ago",
        "monthly last verdict aborted, never passed, cleanup owed: drkit drill cleanup",
    ):
        assert text in line
    assert line.endswith("(drkit drill history)")

    served = watched(world, file)
    [passed] = [line for line in served if line.startswith("drkit_drill_last_pass") and '"weekly"' in line]
    assert float(passed.split()[-1]) == weekly.began_ms / 1000
