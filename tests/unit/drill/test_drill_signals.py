"""The state of drills outside of `drkit drill`: from their entries, as metrics, in words, and as notices."""

from __future__ import annotations

from pathlib import Path
import threading
from typing import Any

import pytest

from drkit.cli.screens.drill import state_text
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.config.changes import changes
from drkit.config.tables.drills import DrillSettings
from drkit.drill.entry import (
    DAY_MS,
    MISSED,
    SCHEDULED,
    UNFINISHED,
    DrillEntry,
    DrillState,
    drill_states,
    ended_notice,
    not_run_notice,
)
from drkit.drill.history import DrillHistory, DrillTopic
from drkit.drill.monitor import DrillMonitor
from drkit.drill.plan import new_drill_id, plan_kind
from drkit.errors import ClusterUnreachable
from drkit.flow_state.processes import this_process
from drkit.flow_state.records import Process
from drkit.monitoring.board import Board
from tests.support.errors import made
from tests.support.waiting import eventually

NOW = 100 * DAY_MS


def settings_of(folder: Path, *drills: DrillSettings) -> Settings:
    clusters = {a: ClusterSettings(alias=a, bootstrap_servers=f"{a}:9092") for a in ("p", "s")}
    flows = (FlowSettings(source="p", target="s"),)
    failover = {"journal_folder": str(folder)}
    return Settings.model_validate(
        {"clusters": clusters, "flows": flows, "failover": failover, "drills": drills}
    )


def drill(name: str = "weekly", **more: Any) -> DrillSettings:
    return DrillSettings(name=name, kind=more.pop("kind", "translation"), cron="0 6 * * *", **more)


def entry(days_ago: float, verdict: str, name: str = "weekly", **more: Any) -> DrillEntry:
    began = NOW - round(days_ago * DAY_MS)
    given = {"kind": "translation", "flow": "p->s", "began_ms": began, "due_ms": began, "written_ms": began}
    return DrillEntry(name=name, verdict=verdict, **given | more)


def id_of(digit: str) -> str:
    return f"20261128t060000-{digit * 6}"


def state(*entries: DrillEntry, **more: Any) -> DrillState:
    wanted = drill(max_age_days=7, **more)
    [found] = drill_states(settings_of(Path("/x"), wanted), [wanted], entries, NOW)
    return found


@pytest.mark.parametrize(
    ("entries", "last_pass", "verdict", "overdue"),
    [
        ([entry(3, "pass")], 3, "pass", False),
        ([entry(8, "pass")], 8, "pass", True),
        ([entry(8, "pass"), entry(1, "fail")], 8, "fail", True),
        ([entry(1, "fail"), entry(2, "pass")], 2, "fail", False),
        ([entry(2, "pass"), entry(1, MISSED), entry(0, UNFINISHED)], 2, "pass", False),
        ([entry(2, "pass"), entry(1, "refused")], 2, "refused", False),
        ([entry(6, SCHEDULED)], None, "", False),
        ([entry(8, SCHEDULED), entry(1, MISSED)], None, "", True),
        ([entry(8, "fail"), entry(1, "fail")], None, "fail", True),
        ([], None, "", True),
        ([entry(1, "pass", kind="readiness"), entry(1, "pass", flow="s->p")], None, "", True),
    ],
)
def test_age_and_verdict(
    entries: list[DrillEntry], last_pass: int | None, verdict: str, *, overdue: bool
) -> None:
    """P28: a drill that did not pass in time is overdue; only drills that ended have a verdict."""
    found = state(*entries)
    assert found.last_pass_ms == (None if last_pass is None else NOW - last_pass * DAY_MS)
    assert (found.last_verdict, found.is_overdue) == (verdict, overdue)


def test_without_a_greatest_age_no_drill_is_overdue() -> None:
    wanted = drill()
    settings = settings_of(Path("/x"), wanted)
    assert not any(s.is_overdue for s in drill_states(settings, [wanted], [entry(90, "pass")], NOW))


def test_a_cleanup_is_owed_when_its_drill_is_not_running() -> None:
    owed: dict[str, Any] = {"kind": "bubble", "cleanup_owed": True, "limit_seconds": 300.0}
    dead = Process("elsewhere", 1, "", None)
    entries = [
        entry(1, "aborted", id=id_of("a"), **owed),
        entry(0, UNFINISHED, id=id_of("b"), holder=dead, **owed),
        entry(0.5, UNFINISHED, id=id_of("c"), holder=dead, **owed),
        entry(0.5, UNFINISHED, id=id_of("d"), holder=this_process(), **owed),
    ]
    assert state(*entries, kind="bubble").owing == (id_of("a"), id_of("c"))


def test_a_drill_without_a_table_is_shown_while_it_owes_its_cleanup() -> None:
    wanted = drill()
    other = entry(1, "aborted", name="bubble", kind="bubble", id=id_of("a"), cleanup_owed=True)
    done = entry(1, "pass", name="readiness", kind="readiness")
    settings = settings_of(Path("/x"), wanted)
    found = drill_states(settings, [wanted], [entry(1, "pass"), other, done], NOW)
    assert [(s.name, s.is_configured, s.owing) for s in found] == [
        ("weekly", True, ()),
        ("bubble", False, (id_of("a"),)),
    ]


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([entry(3, "pass")], "weekly passed 3 d ago"),
        ([entry(40, "pass")], "weekly overdue, last passed 40 d ago"),
        ([entry(3, "pass"), entry(1, "fail")], "weekly last verdict fail, last passed 3 d ago"),
        ([entry(3, SCHEDULED)], "weekly not run yet"),
        ([], "weekly overdue, never passed"),
        (
            [entry(3, "pass", cleanup_owed=True)],
            "weekly passed 3 d ago, cleanup owed: drkit drill cleanup --flow 'p->s'",
        ),
    ],
)
def test_the_line_of_status(entries: list[DrillEntry], text: str) -> None:
    assert state_text(state(*entries), NOW) == text


class Topic(DrillTopic):
    """The topic of a flow: entries, or an error."""

    def __init__(self) -> None:
        self.entries: list[DrillEntry] = []
        self.error: Exception | None = None
        self.loads = 0

    def load(self) -> list[DrillEntry]:
        self.loads += 1
        if self.error is not None:
            raise self.error
        return self.entries


def test_metrics_are_served_from_what_was_read_last(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, drill(max_age_days=7), drill("new"))
    topic, now = Topic(), [0.0]
    history = DrillHistory(tmp_path, {"p->s": topic})
    monitor = DrillMonitor(settings, settings.flows, history, wall=lambda: NOW, clock=lambda: now[0])
    board = Board(drills=monitor.samples)

    def served() -> list[str]:
        lines = board.metrics().decode().splitlines()
        return [line.removeprefix("drkit_drill_") for line in lines if line.startswith("drkit_drill_")]

    def read_again(loads: int) -> list[str]:
        now[0] += 61
        served()
        eventually(
            lambda: topic.loads == loads and monitor._looking is not None and monitor._looking.done(),
            10,
            "a look",
        )
        return served()

    topic.error = made(ClusterUnreachable, "no broker answers", where="s")
    assert read_again(1) == [], "what was never read has no figure"
    bubble = entry(1, "aborted", name="bubble", kind="bubble", id=id_of("a"), cleanup_owed=True)
    topic.entries, topic.error = [entry(8, "pass"), entry(1, "fail"), bubble], None
    assert served() == [], "it is read once a minute"
    weekly = 'drill="weekly",kind="translation",source="p",target="s"'
    after = [
        f"last_pass_timestamp_seconds{{{weekly}}} {92 * DAY_MS / 1000:g}",
        f'last_verdict{{{weekly},verdict="fail"}} 1.0',
        f"overdue{{{weekly}}} 1.0",
        'overdue{drill="new",kind="translation",source="p",target="s"} 0.0',
        f"cleanup_owed{{{weekly}}} 0.0",
        'cleanup_owed{drill="new",kind="translation",source="p",target="s"} 0.0',
        'cleanup_owed{drill="bubble",kind="bubble",source="p",target="s"} 1.0',
    ]
    shown = read_again(2)
    assert [line.partition("{")[0] for line in shown] == [line.partition("{")[0] for line in after]
    assert shown[1:] == after[1:]
    assert float(shown[0].split()[-1]) == 92 * DAY_MS / 1000
    topic.error = made(ClusterUnreachable, "no broker answers", where="s")
    assert read_again(3) == shown
    assert monitor.unread == {"p->s": "no broker answers"}


def test_metrics_do_not_wait_for_a_look(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, drill())

    class Hanging(Topic):
        def load(self) -> list[DrillEntry]:
            release.wait(60)
            return super().load()

    topic, release = Hanging(), threading.Event()
    monitor = DrillMonitor(settings, settings.flows, DrillHistory(tmp_path, {"p->s": topic}))
    assert not list(monitor.samples())
    assert not list(monitor.samples())
    release.set()
    eventually(lambda: topic.loads == 1, 10, "the only look")


def test_a_changed_drill_waits_for_a_restart(tmp_path: Path) -> None:
    before, after = settings_of(tmp_path, drill()), settings_of(tmp_path, drill(max_age_days=3))
    assert changes(before, ["p->s"], after).restart == ("drills: their metrics",)


# -- notices ------------------------------------------------------------------------------------------------


def test_a_notice_says_what_failed_and_what_to_type(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    plan = plan_kind(settings, "translation", settings.flows[0], new_drill_id("abcdef", lambda: 0))
    notice = ended_notice(plan, "fail", [f"group {n}" for n in range(12)], ["--config", "x.toml"])
    assert notice["command"] == f"drkit drill report {plan.id} --config x.toml"
    lines = notice["text"].splitlines()
    assert lines[0] == "drill translation, translation of p->s: fail"
    assert lines[-2:] == ["- and 2 more", f"next: {notice['command']}"]
    missed = not_run_notice(entry(2, MISSED))
    assert missed is not None
    assert missed["reasons"] == ["missed since 1970-04-09T00:00:00Z: no scheduler ran, or it was busy"]
    assert not_run_notice(entry(2, SCHEDULED)) is None
