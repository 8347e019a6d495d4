"""Due times over changes of the clocks, as Debian's cron has them, and which expressions there are."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice, takewhile

import pytest

from drkit.cron import Cron, InvalidCron, time_zone

BERLIN = "Europe/Berlin"
SPRING = ("2027-03-27T23:30", "2027-03-28T02:00")
"""In UTC; from 00:30 CET to 04:00 CEST. At 02:00 the clocks go to 03:00, at 01:00 UTC."""
AUTUMN = ("2027-10-30T23:30", "2027-10-31T02:30")
"""From 01:30 CEST to 03:30 CET. At 03:00 the clocks go back to 02:00, at 01:00 UTC."""

# Debian's cron.c: a job whose minute and hour do not begin with a star runs right after a gap that skips its
# time, and once in an hour that occurs twice; every other job runs by the clock.
TABLE = [
    ("30 2 * * *", "01:00", "00:30"),
    ("0 3 * * *", "01:00", "02:00"),
    ("0 2 * * 7", "01:00", "00:00"),
    ("*/30 * * * *", "00:00 00:30 01:00 01:30 02:00", "00:00 00:30 01:00 01:30 02:00 02:30"),
    ("15 * * * *", "00:15 01:15", "00:15 01:15 02:15"),
    ("0 */2 * * *", "02:00", "00:00 01:00"),
    ("0 1-4 * * *", "00:00 01:00 02:00", "00:00 02:00"),
    ("*/20 2 * * *", "", "00:00 00:20 00:40 01:00 01:20 01:40"),
    ("45 2 28 3 *", "01:00", ""),
    ("30 2 31 10 0", "", "00:30"),
]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def due(cron: str, zone: str, after: str, until: str) -> list[datetime]:
    times = Cron(cron).after(moment(after), time_zone(zone))
    return list(takewhile(lambda time: time <= moment(until), times))


@pytest.mark.parametrize("row", TABLE, ids=[cron for cron, *_ in TABLE])
def test_due_times_over_both_changes_of_the_clocks(row: tuple[str, str, str]):
    cron, spring, autumn = row
    for window, expected in ((SPRING, spring), (AUTUMN, autumn)):
        day = window[1].partition("T")[0]
        assert due(cron, BERLIN, *window) == [moment(f"{day}T{time}") for time in expected.split()]


def test_the_table_has_thirty_due_times_of_ten_expressions():
    assert len(TABLE) == 10
    assert sum(len(f"{spring} {autumn}".split()) for _, spring, autumn in TABLE) >= 30


@pytest.mark.parametrize("minute", range(0, 60, 5))
@pytest.mark.parametrize("cron", ["30 2 * * *", "0,15,45 2 * * *", "0 2,3 * * *", "10 * * * *"])
def test_it_does_not_matter_when_the_question_is_asked(cron: str, minute: int):
    """Also within the repeated hour: no due time is repeated, none is left out."""
    for begin, end in (SPRING, AUTUMN):
        whole = due(cron, BERLIN, begin, end)
        for hour in (0, 1):
            asked = moment(f"{end.partition('T')[0]}T{hour:02}:{minute:02}")
            times = due(cron, BERLIN, asked.isoformat()[:16], end)
            assert times == [time for time in whole if time > asked]


def test_a_gap_of_half_an_hour():
    """Lord Howe Island: 02:00 becomes 02:30 on 3 October 2027, at 15:30 UTC of the day before."""
    assert due("15 2 * * *", "Australia/Lord_Howe", "2027-10-02T12:00", "2027-10-02T18:00") == [
        moment("2027-10-02T15:30")
    ]


def test_days_are_counted_from_sunday():
    """`0 6 * * 1` is Monday, 7 and 0 are Sunday, and two restricted fields of days are alternatives."""
    start = moment("2026-11-28T00:00")  # a Saturday
    for field, weekday in (("1", 0), ("0", 6), ("7", 6), ("SAT", 5)):
        times = islice(Cron(f"0 6 * * {field}").after(start, UTC), 20)
        assert {time.weekday() for time in times} == {weekday}
    first = list(islice(Cron("0 6 1 * 1").after(start, UTC), 30))
    assert all(time.day == 1 or time.weekday() == 0 for time in first)
    assert any(time.weekday() != 0 for time in first)


@pytest.mark.parametrize(
    "expression",
    ["99 99 99 99 99", "0 0 30 2 *", "0 0 31 4 *", "", "@daily", "* * * *", "0 0 L * *", "0 0 * * 1#1"],
)
def test_what_is_no_expression(expression: str):
    with pytest.raises(InvalidCron):
        Cron(expression)


@pytest.mark.parametrize("name", ["", "Berlin", "../etc/passwd", "/etc/passwd", "Europe"])
def test_what_is_no_time_zone(name: str):
    with pytest.raises(ValueError, match="no time zone"):
        time_zone(name)
