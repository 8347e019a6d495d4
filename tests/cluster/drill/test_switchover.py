"""A switchover drill of a pair at work: there and home, stay, held, killed."""

from __future__ import annotations

import _thread
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
import subprocess
import threading

import pytest

from drkit.drill.history import DrillHistory
from drkit.local.cluster import LocalCluster
from drkit.status.pair.model import PairState
from tests.support.drill.process import drill_in
from tests.support.drill.switchover import DrilledPair
from tests.support.errors import longest_part, sentence
from tests.support.failback.pair import CUT
from tests.support.failover import settings_file
from tests.support.failover.command import drkit
from tests.support.flows.produce import fill


@pytest.fixture
def drilled(source: LocalCluster, target: LocalCluster, tmp_path: Path) -> Iterator[DrilledPair]:
    pair = DrilledPair(source, target, tmp_path)
    pair.prepare()
    yield pair
    pair.pair.close()


@pytest.fixture
def at_rest(drilled: DrilledPair) -> DrilledPair:
    """A protected pair without clients."""
    fill(drilled.there.source, drilled.topic, 20)
    drilled.there.copied([drilled.topic], {drilled.idle: None})
    drilled.there.protected([drilled.topic])
    return drilled


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_production_goes_there_and_comes_home(drilled: DrilledPair) -> None:
    """P28: nothing is lost, the group at work follows twice, and a signal ends the hold, not the way home."""
    stop = threading.Event()

    def begun(step: str) -> None:
        if step == "HOLD":
            stop.set()

    with drilled.at_work() as (writer, _):
        report = drilled.run(drilled.plan(hold_minutes=30), begun, stop)
        assert report.verdict == "pass", report.reasons
        assert len(writer.switches) == 2
    found = report.evidence.switchover
    assert found is not None
    assert (found.there is not None, found.home is not None, found.silent) == (True, True, ())
    assert found.pair_state == PairState.PROTECTED
    assert [(o.client, 0 < o.seconds < 60) for o in found.outages] == [(drilled.group, True)] * 2
    assert [step.name for step in report.steps] == [
        "GATE", "OBSERVE", "SWITCHOVER", "PROTECT", "HOLD", "HOME", "SETTLE",
    ]  # fmt: skip
    assert [step.step for step in report.not_proven] == ["detection"]
    assert report.rpo is not None
    assert report.rpo.records == 0
    assert all(report.controls.values())


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_clients_stay_and_the_next_drill_is_refused(drilled: DrilledPair) -> None:
    with drilled.at_work() as (writer, _):
        report = drilled.run(drilled.plan(stay=True))
        assert report.verdict == "pass", report.reasons
        assert len(writer.switches) == 1
    found = report.evidence.switchover
    assert found is not None
    assert (found.stays, found.home, found.pair_state) == (True, None, PairState.PROTECTED)
    again = drilled.run(drilled.plan())
    assert again.verdict == "refused", again
    assert again.reasons[0].startswith(sentence("production_not_at_home")), again


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_a_held_run_fails_the_drill_which_names_its_command(at_rest: DrilledPair, tmp_path: Path) -> None:
    """The command continues the run where the drill left it."""
    there = at_rest.there
    ways = there.failover_fields["repoint"]
    there.failover_fields["repoint"] = [*ways, {"kind": "command", "command": ["/bin/false"]}]
    report = at_rest.run(at_rest.plan())
    flow = at_rest.settings.flows[0].name
    command = f"drkit failover --flow '{flow}' --resume"
    assert report.verdict == "fail"
    assert report.reasons[0].startswith("SWITCHOVER: "), report.reasons
    assert report.reasons[0].endswith(f"; continue: {command}"), report.reasons
    assert {step.exercised for step in report.not_proven} == {"not exercised"}
    file = settings_file.written(there, tmp_path)  # without ways to repoint
    resumed = drkit(file, "failover", "--flow", flow, "--resume")
    assert (resumed.code, resumed.data["state"]) == (0, "done"), resumed


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_a_second_signal_leaves_production_where_it_is(at_rest: DrilledPair) -> None:
    """It is on record, and the report names the command that brings production home."""

    def begun(step: str) -> None:
        if step == "HOLD":
            threading.Timer(1.0, _thread.interrupt_main).start()

    report = at_rest.run(at_rest.plan(hold_minutes=30), begun)
    flow = at_rest.settings.flows[0].name
    command = f"drkit failback --flow '{flow}' --clients-cut '{CUT}'"
    assert report.verdict == "fail"
    assert report.reasons[0] == f"HOLD: a second signal interrupted it; continue: {command}", report.reasons
    assert [(s.name, s.outcome) for s in report.steps][-1] == ("HOLD", "interrupted")
    found = report.evidence.switchover
    assert found is not None
    assert (found.there is not None, found.home) == (True, None)


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_a_drill_that_is_killed_abroad_is_seen_by_the_next_commands(
    at_rest: DrilledPair, tmp_path: Path
) -> None:
    """It is unfinished, production is not protected, and the next drill names the command that goes home."""
    settings, plan = at_rest.settings, at_rest.plan()
    file, flow = settings_file.written(at_rest.there, tmp_path), settings.flows[0].name
    words = ("drill", "run", "--kind", "switchover", "--flow", flow)
    shown = drkit(file, *words, "--clients-cut", CUT, "--dry-run")
    assert (shown.code, "OPEN" in {row["step"] for row in shown.data["steps"]}) == (0, True), shown
    uncut = drkit(file, *words, "--yes")
    assert (uncut.code, uncut.data["verdict"]) == (3, "refused"), uncut
    assert longest_part("switchover_fence_refuses_drkit") in uncut.data["reasons"][0]
    unasked = settings_file.drkit(file, *words, "--clients-cut", CUT)
    assert (unasked.returncode, longest_part("no_terminal") in unasked.stderr) == (2, True), unasked

    with drill_in("PROTECT", settings, plan) as drill, suppress(subprocess.TimeoutExpired):
        drill.wait(0.1)

    rows = {row["id"]: row["verdict"] for row in drkit(file, "drill", "history").data}
    assert rows[plan.id] == "unfinished"
    status = drkit(file, "status", "--flow", flow)
    assert "unprotected" in status.out, status
    again = drkit(file, *words, "--clients-cut", CUT, "--yes")
    assert (again.code, again.data["verdict"]) == (3, "refused"), again
    assert again.data["reasons"][0].startswith(sentence("production_not_at_home")), again
    entries = DrillHistory.of(settings).entries()
    assert [entry.verdict for entry in entries] == ["refused", "unfinished", "refused"]
