"""Drills leave entries and chained reports, and each due time has exactly one entry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
import json
from pathlib import Path
import threading
from time import monotonic

import pytest

from drkit.cli.screens.drill import entry_row, report_lines
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.config.tables.drills import DrillKind, DrillSettings
from drkit.drill import run_drill as runs
from drkit.drill.entry import MISSED, SCHEDULED, UNFINISHED, DrillEntry
from drkit.drill.evidence import TRANSLATION, DrillEvidence
from drkit.drill.history import DrillHistory, _entry
from drkit.drill.plan import DrillPlan, new_drill_id, plan_kind
from drkit.drill.position_rows import PackedPositions
from drkit.drill.report import DrillReport, check_report
from drkit.drill.run_drill import run_drill
from drkit.drill.schedule import DrillScheduler
from drkit.drill.steps import CollectedEvidence, DrillOptions
from drkit.errors import ClusterUnreachable, Failed, Refused, Usage
from drkit.flow_state.processes import this_process
from tests.support.drill.logs import position
from tests.support.errors import coded, made, sentence

GOOD = tuple(position("abcdef", 6, i, i)._replace(group=f"g{i}") for i in range(5))
BAD = (*GOOD, position("abcdef", 6, 2, 3)._replace(group="billing"))
NOON = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


def settings_of(folder: Path, *drills: DrillSettings) -> Settings:
    clusters = {a: ClusterSettings(alias=a, bootstrap_servers=f"{a}:9092") for a in ("p", "s")}
    flow = FlowSettings(source="p", target="s")
    failover = {"journal_folder": str(folder)}
    return Settings.model_validate(
        {"clusters": clusters, "flows": (flow,), "failover": failover, "drills": drills}
    )


def drill(name: str, kind: DrillKind = "translation") -> DrillSettings:
    return DrillSettings(name=name, kind=kind, cron="0 * * * *", grace_minutes=30)


def plan_of(settings: Settings, number: int) -> DrillPlan:
    return plan_kind(
        settings, "translation", settings.flows[0], new_drill_id("abcdef", lambda: number * 1000)
    )


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the next drills collect: rows, or an error to raise."""
    found: list[object] = []

    def collect(*_: object) -> CollectedEvidence:
        each = found.pop(0)
        if isinstance(each, BaseException):
            raise each
        return CollectedEvidence(DrillEvidence(PackedPositions.of(each)), 1, 1, len(each))  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "_COLLECTORS", {TRANSLATION: runs._in_time(collect)})
    return found


def test_reports_are_chained_and_an_error_is_an_entry(tmp_path: Path, rows: list[object]) -> None:
    settings = settings_of(tmp_path)
    history = DrillHistory(tmp_path)
    rows += [
        GOOD,
        BAD,
        made(ClusterUnreachable, "no broker answers", where="s"),
        made(Refused, "no state"),
        ValueError(),
    ]
    steps: list[str] = []
    with history.lock():
        for number in range(4):
            options = DrillOptions(
                ended=lambda step: steps.append(step.name),
                wall=partial(int, number * 1000),
            )
            run_drill(settings, plan_of(settings, number), history, options)
        with pytest.raises(ValueError):  # noqa: PT011  it has no text
            run_drill(settings, plan_of(settings, 4), history, DrillOptions(wall=lambda: 4000))
    entries = history.entries()
    assert [e.verdict for e in entries] == ["pass", "fail", "aborted", "refused", "aborted"]
    assert steps == ["collect", "judge"] * 4
    reports = [history.report_of(e) for e in entries]
    assert [r.previous for r in reports] == ["", *(r.self_hash for r in reports[:-1])]
    assert [check_report(r, history.report_before(r)) for r in reports] == [[]] * 5
    assert reports[2].reasons == ("no broker answers: s",)
    screen = report_lines(reports[1], Path("x.json"))
    assert screen[0] == "FAIL  translation  translation of p->s"
    assert any(line.startswith("  reasons") and "billing" in line for line in screen)
    assert any(line.startswith("  not proven") for line in screen)
    assert any("stored positions: 6 examined, 1 failed" in line for line in screen), screen
    assert entry_row(entries[0], as_json=False)["id"] == entries[0].id
    assert history.entries("other") == []


def test_the_previous_report_is_of_the_same_drill(tmp_path: Path, rows: list[object]) -> None:
    settings, history = settings_of(tmp_path, drill("daily"), drill("weekly")), DrillHistory(tmp_path)
    reports: dict[str, list[DrillReport]] = {"daily": [], "weekly": []}
    with history.lock():
        for number, name in enumerate(("daily", "weekly", "daily", "weekly")):
            rows.append(GOOD)
            plan = plan_of(settings, number).model_copy(update={"name": name})
            options = DrillOptions(wall=partial(int, number * 1000))
            reports[name].append(run_drill(settings, plan, history, options))
    for first, second in reports.values():
        assert (first.previous, second.previous) == ("", first.self_hash)


@pytest.mark.parametrize("field", ["began_ms", "due_ms", "written_ms"])
def test_an_entry_with_a_time_that_is_no_date_does_not_count(field: str) -> None:
    """The schedule converts each time to a date."""
    valid = {"name": "daily", "kind": "translation", "flow": "p->s", "verdict": MISSED, "began_ms": 1}
    for time in (-1, 10**15):
        assert _entry(json.dumps(valid | {field: time}).encode()) is None
    assert _entry(json.dumps(valid | {field: 10**12}).encode()) is not None


def test_a_drill_ends_at_its_limit_and_when_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(tmp_path)
    history, release, stop = DrillHistory(tmp_path), threading.Event(), threading.Event()
    waiting = runs._in_time(lambda _: release.wait(30))  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(runs, "_COLLECTORS", {TRANSLATION: waiting})
    ticks = iter(range(0, 10_000, 200))
    with history.lock():
        late = run_drill(
            settings, plan_of(settings, 1), history, DrillOptions(clock=lambda: float(next(ticks)))
        )
        stop.set()
        stopped = run_drill(settings, plan_of(settings, 2), history, DrillOptions(stop=stop))
    release.set()
    assert late.verdict == stopped.verdict == "aborted"
    assert "limits.seconds = 300" in late.reasons[0]
    assert sentence("process_stopped") in stopped.reasons[0]


def test_bad_input_has_one_clear_error(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    history = DrillHistory(tmp_path)
    with pytest.raises(Usage, check=coded("drill_id_unknown")) as refused:
        history.entry("../../etc")
    assert refused.value.hint == "all ids: drkit drill history"
    with history.lock():
        plan = plan_of(settings, 1)
        history.begin(DrillEntry.of(plan, 1000, None, this_process()))
        with pytest.raises(Refused, check=coded("drill_lock_held")), DrillHistory(history.folder).lock():
            pass
        with pytest.raises(Failed, check=coded("drill_report_elsewhere")):
            history.report_of(history.entry(plan.id))


def test_each_due_time_has_exactly_one_entry(tmp_path: Path) -> None:
    """P28: a due time is run once or recorded as missed, also after a restart and a torn line."""
    settings = settings_of(tmp_path, drill("hourly"), drill("later", "switchover"))
    history, now, ran = DrillHistory(tmp_path), NOON - timedelta(minutes=1), []

    def run(plan: DrillPlan, due: datetime) -> str:
        ran.append(due)
        history.begin(DrillEntry.of(plan, round(now.timestamp() * 1000), due, this_process()))
        return "pass"

    def scheduler() -> DrillScheduler:
        return DrillScheduler(settings, history, run, wall=lambda: round(now.timestamp() * 1000))

    assert scheduler().run_due() == []
    now = NOON + timedelta(minutes=5)
    assert scheduler().run_due() == ["pass", "pass"]
    assert scheduler().run_due() == []
    (history.folder / "entries" / "torn.json").write_text('{"name": "hour')
    now = NOON + timedelta(hours=3, minutes=10)
    assert scheduler().run_due() == ["pass", "pass"]
    now = NOON + timedelta(hours=5, minutes=40)
    assert scheduler().run_due() == []
    assert ran == [NOON, NOON, *[NOON + timedelta(hours=3)] * 2]
    known = [e for e in history.entries("hourly") if e.verdict != SCHEDULED]
    due = [(e.began_ms, e.due_ms, e.verdict) for e in sorted(known, key=lambda e: e.due_ms or 0)]

    def ms(hours: float) -> int:
        return round((NOON + timedelta(hours=hours)).timestamp() * 1000)

    assert due == [
        (ms(5 / 60), ms(0), UNFINISHED),
        (ms(1), ms(2), MISSED),
        (ms(3 + 1 / 6), ms(3), UNFINISHED),
        (ms(4), ms(5), MISSED),
    ]
    assert [e.verdict for e in history.entries("later")].count(UNFINISHED) == 2


def test_a_long_pause_is_one_entry_in_one_file(tmp_path: Path) -> None:
    """A year without a scheduler is recorded at once, so that SIGTERM is heard."""
    settings, history = settings_of(tmp_path, drill("hourly")), DrillHistory(tmp_path)
    now = NOON
    scheduler = DrillScheduler(
        settings, history, lambda *_: "pass", wall=lambda: round(now.timestamp() * 1000)
    )
    scheduler.run_due()
    now = NOON + timedelta(days=366, minutes=45)
    began = monotonic()
    assert scheduler.run_due() == []
    assert monotonic() - began < 5
    assert len([*(history.folder / "entries").iterdir()]) == 2
    [_, missed] = history.entries("hourly")
    due_ms = round((NOON + timedelta(days=366)).timestamp() * 1000)
    assert (missed.verdict, missed.due_ms) == (MISSED, due_ms)
    when = entry_row(missed, as_json=False)["when"]
    assert when == "2026-11-28T13:00:00Z to 2027-11-29T12:00:00Z"
    assert scheduler.run_due() == []
    assert len(history.entries()) == 2


def test_a_drill_waits_for_another_one(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, drill("hourly"))
    history, now, told = DrillHistory(tmp_path), NOON - timedelta(minutes=1), []
    scheduler = DrillScheduler(
        settings,
        history,
        lambda *_: "pass",
        tell=lambda drill, entry: told.append((drill.name, str(entry))),
        wall=lambda: round(now.timestamp() * 1000),
    )
    scheduler.run_due()
    now = NOON
    with DrillHistory(history.folder).lock():
        assert scheduler.run_due() == []
    assert told[1:] == [("hourly", sentence("drill_lock_held"))]
    assert scheduler.run_due() == ["pass"]
