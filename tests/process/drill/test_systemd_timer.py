"""The timer that drkit prints is due at the same times as the drill, says systemd itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
import shutil
import subprocess

import pytest

from drkit.config import DrillSettings
from drkit.drill.schedule import next_times, systemd_units

START = datetime(2026, 11, 28, 12, 34, tzinfo=UTC)
COUNT = 50


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize(
    "cron",
    [
        "0 6 * * 1", "*/30 * * * *", "0 6 1 * *", "15 3 1,15 * *", "0 6 1 * 1", "0 6 1-31 * 1", "0 6 1 * 0-6",
        "0 6 13 * 5", "5 4 * * 7", "0 0 28 2 *", "10-20/5 8-18 * 1-3 1-5", "59 23 31 12 *", "0 6 * * 5-7",
        "0 6 */2 * 1", "0 6 1 * */2",
    ],
)  # fmt: skip
def test_the_next_fifty_times(cron: str):
    drill = DrillSettings(name="weekly", kind="readiness", cron=cron, time_zone="Asia/Tokyo")
    timer = systemd_units(drill, "/etc/drkit/drkit.toml")["drkit-drill-weekly.timer"]
    lines = [line.removeprefix("OnCalendar=") for line in timer.splitlines() if line.startswith("OnCalendar")]
    times = sorted({time for line in lines for time in elapses(line)})
    assert times[:COUNT] == next_times(drill, START, COUNT)


def elapses(calendar: str) -> Iterator[datetime]:
    """Times at which systemd says that a calendar event is due."""
    base = f"--base-time={START:%Y-%m-%d %H:%M:%S} UTC"
    said = subprocess.run(
        ["systemd-analyze", "calendar", base, f"--iterations={COUNT}", calendar],  # noqa: S607
        env={"TZ": "UTC", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for line in said.splitlines():
        head, _, time = line.strip().partition(": ")
        if head == "Next elapse" or head.startswith("Iter. #"):
            yield datetime.strptime(f"{time.strip()}", "%a %Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
