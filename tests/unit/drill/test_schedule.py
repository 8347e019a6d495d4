"""Which due times are run and which were missed, and timers that are due at the same times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
import json
from time import monotonic
from zoneinfo import ZoneInfo

from cronsim import CronSim
from pydantic import ValidationError
import pytest
import yaml

from drkit.config import DrillSettings
from drkit.drill.schedule import due_times, kubernetes_cronjob, next_times, systemd_units
from drkit.errors import Refused
from tests.support.errors import coded

SIX = datetime(2026, 11, 28, 6, tzinfo=UTC)
HALF_HOUR = timedelta(minutes=30)


def drill(cron: str = "*/30 * * * *", grace_minutes: float = 45, zone: str = "UTC") -> DrillSettings:
    return DrillSettings(
        name="weekly", kind="readiness", cron=cron, grace_minutes=grace_minutes, time_zone=zone
    )


def test_nothing_is_due_before_its_time():
    found = due_times(drill(), SIX, SIX + timedelta(minutes=29, seconds=59))
    assert found == (None, None)


def test_a_due_time_is_run_once():
    found = due_times(drill(), SIX, SIX + HALF_HOUR)
    assert found == (None, SIX + HALF_HOUR)
    assert due_times(drill(), SIX + HALF_HOUR, SIX + HALF_HOUR + timedelta(seconds=1)) == (None, None)


def test_after_a_pause_one_is_run_and_the_others_were_missed():
    found = due_times(drill(), SIX, SIX + timedelta(hours=2, minutes=10))
    assert found == ((SIX + HALF_HOUR, SIX + 3 * HALF_HOUR), SIX + 4 * HALF_HOUR)


@pytest.mark.parametrize(("late", "runs"), [(0, True), (44, True), (45, False), (50, False)])
def test_within_the_grace_it_is_made_up_for(late: int, *, runs: bool):
    found = due_times(drill("0 7 * * *"), SIX, SIX + timedelta(hours=1, minutes=late))
    seven = SIX + timedelta(hours=1)
    assert found == ((None, seven) if runs else ((seven, seven), None))


@pytest.mark.parametrize(("seconds", "runs"), [(0, True), (59, True), (60, False)])
def test_without_any_grace_a_due_time_lasts_its_minute(seconds: int, *, runs: bool):
    found = due_times(drill("0 7 * * *", 0), SIX, SIX + timedelta(hours=1, seconds=seconds))
    assert (found.run is not None) is runs


def test_each_due_time_gets_exactly_one_entry():
    """Whenever the scheduler looks, and over both changes of the clocks; missed ones share an entry."""
    weekly = drill("30 2 * * *", 120, "Europe/Berlin")
    begin, end = datetime(2027, 3, 20, tzinfo=UTC), datetime(2027, 11, 10, tzinfo=UTC)
    wanted = list(next_times(weekly, begin, 235))
    assert wanted[-1] <= end < next_times(weekly, wanted[-1], 1)[0]
    entries, last, now, number = [], begin, begin, 0
    while now < end:
        number += 1
        now = min(end, now + timedelta(minutes=7) * (number % 400))
        found = due_times(weekly, last, now)
        first, newest = found.missed or (now, begin)
        new = [time for time in wanted if first <= time <= newest] + ([found.run] if found.run else [])
        entries += new
        last = new[-1] if new else last
    assert entries == wanted


@pytest.mark.parametrize("cron", ["* * * * *", "*/7 3 * 2 *", "30 2 29 2 *"])
def test_years_without_a_scheduler_are_made_up_for_at_once(cron: str):
    """A loop over half a million minutes would take a minute, and hear no signal."""
    now, began = SIX + timedelta(days=3000), monotonic()
    found = due_times(drill(cron), SIX, now)
    assert monotonic() - began < 5
    assert found.missed is not None
    first, newest = found.missed
    assert first == next_times(drill(cron), SIX, 1)[0]
    assert next_times(drill(cron), newest, 1)[0] == (found.run or next_times(drill(cron), now, 1)[0])
    assert (found.run == now) is (cron == "* * * * *")


CRONS = [
    "0 6 * * 1", "*/30 * * * *", "0 6 1 * *", "15 3 1,15 * *", "0 6 1 * 1", "0 6 13 * 5", "5 4 * * 7",
    "5 4 * * sun", "0 6 1-31 * 1", "0 6 1 * 0-6",
    "0 0 29 2 *", "10-20/5 8-18 * 1-3 1-5", "0 */6 * * *", "59 23 31 12 *", "0 6 * * 5-7",
]  # fmt: skip
START = datetime(2026, 11, 28, 12, 34, tzinfo=UTC)


@pytest.mark.parametrize("cron", CRONS)
def test_the_next_fifty_times_of_a_cronjob(cron: str):
    found = yaml.safe_load(kubernetes_cronjob(drill(cron, 120), "drkit:1"))
    spec = found["spec"]
    assert (found["kind"], found["metadata"]["name"]) == ("CronJob", "drkit-drill-weekly")
    assert (spec["timeZone"], spec["startingDeadlineSeconds"]) == ("UTC", 7200)
    assert spec["concurrencyPolicy"] == "Forbid"
    container = spec["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][:4] == ["drkit", "drill", "run", "weekly"]
    schedule = spec["schedule"]
    assert "7" not in schedule.split()[4], "Kubernetes has days from 0 to 6"
    assert list(islice(CronSim(schedule, START), 50)) == next_times(drill(cron), START, 50)


@pytest.mark.parametrize("cron", ["0 6 */2 * 1", "0 6 1 * */2"])
def test_a_cronjob_that_would_be_due_at_other_times_is_refused(cron: str):
    with pytest.raises(Refused, check=coded("cron_differs_in_kubernetes")):
        kubernetes_cronjob(drill(cron), "drkit")


def test_a_timer_has_a_line_for_each_alternative():
    units = systemd_units(drill("0 6 1 * 1", zone="Europe/Berlin"), "/etc/drkit/drkit.toml")
    assert units.keys() == {"drkit-drill-weekly.service", "drkit-drill-weekly.timer"}
    service, timer = units.values()
    assert "ExecStart=/opt/drkit/bin/drkit drill run weekly --config /etc/drkit/drkit.toml\n" in service
    lines = [line for line in timer.splitlines() if line.startswith("OnCalendar=")]
    assert lines == [
        "OnCalendar=*-*-01 06:00:00 Europe/Berlin",
        "OnCalendar=Mon *-*-* 06:00:00 Europe/Berlin",
    ]


@pytest.mark.parametrize("name", ["grace_minutes", "hold_minutes", "max_age_days"])
def test_numbers_are_finite(name: str):
    with pytest.raises(ValidationError, match="finite"):
        DrillSettings.model_validate(
            {"name": "x", "kind": "switchover", "cron": "0 6 * * 1", name: float("inf")}
        )


def test_a_timer_answers_the_question_of_a_switchover():
    switchover = drill("0 6 * * 1").model_copy(update={"kind": "switchover"})
    (service, _) = systemd_units(switchover, "/etc/drkit/drkit.toml").values()
    assert "drkit drill run weekly --yes --config /etc/drkit/drkit.toml\n" in service
    job = yaml.safe_load(kubernetes_cronjob(switchover, "drkit:1"))
    assert '"--yes"' in json.dumps(job)


def test_times_are_of_the_time_zone_of_the_drill():
    (first,) = next_times(drill("0 6 * * 1", zone="Europe/Berlin"), START, 1)
    assert first.astimezone(ZoneInfo("Europe/Berlin")).strftime("%a %H:%M") == "Mon 06:00"
    assert first.tzinfo is UTC
