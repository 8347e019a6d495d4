"""Run drills when they are due, record the due times that were missed, and print other timers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
import json
from pathlib import Path
import secrets
from string import Template
import threading
from typing import Final, NamedTuple

from drkit.clock import Millis, wall_ms
from drkit.config import Settings
from drkit.config.tables.drills import DrillSettings
from drkit.cron import Cron, time_zone
from drkit.drill.entry import MISSED, SCHEDULED, DrillEntry
from drkit.drill.evidence import SWITCHOVER
from drkit.drill.history import DrillHistory
from drkit.drill.plan import DrillPlan, new_drill_id, plan_drill
from drkit.errors import DrkitError, Refused
from drkit.next_command import typed

_LEAST_GRACE: Final = timedelta(minutes=1)
"""Cron has no seconds: a due time lasts its minute."""
_WEEKDAYS: Final = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_EACH: Final = "*"
_MOST_WAITED: Final = timedelta(seconds=30)
"""A wall clock may jump, and another drill may end."""
RunPlan = Callable[[DrillPlan, datetime], str]
"""Run the drill of a plan that was due at a time, and return its verdict."""
TellEntry = Callable[[DrillSettings, DrillEntry | DrkitError], None]
"""Receive the entry of due times at which a drill was not run, or the reason why it waits."""


class DueTimes(NamedTuple):
    """The due times of a drill that have no entry in its history yet, in UTC."""

    missed: tuple[datetime, datetime] | None
    """The first and the last due time that was missed: too long ago, or before the one to run."""
    run: datetime | None
    """The due time to run now, if any."""


def due_times(drill: DrillSettings, last: datetime, now: datetime) -> DueTimes:
    """Return the due times of a drill after its last entry, each as missed or to be run.

    At most one is run, the latest, if it was due less than `grace_minutes` ago (a minute at least).

    :param last: due time of the last entry; without one, when the scheduler first started
    """
    newest = _newest_due(drill, last, now)
    run = None if newest is None or now - newest >= _grace(drill) else newest
    missed = newest if run is None else _newest_due(drill, last, run - _LEAST_GRACE)
    return DueTimes(None if missed is None else (next_times(drill, last, 1)[0], missed), run)


def _newest_due(drill: DrillSettings, last: datetime, now: datetime) -> datetime | None:
    part = _LEAST_GRACE  # it grows until it has a due time: a year has half a million minutes
    while last < now:
        begin = max(last, now - part)
        due = takewhile(lambda time: time <= now, Cron(drill.cron).after(begin, time_zone(drill.time_zone)))
        if (newest := next(iter(deque(due, 1)), None)) is not None or begin == last:
            return newest
        part *= 2
    return None


def next_times(drill: DrillSettings, after: datetime, count: int) -> list[datetime]:
    """Return the next due times of a drill after a time, in UTC."""
    return list(islice(Cron(drill.cron).after(after, time_zone(drill.time_zone)), count))


def systemd_units(drill: DrillSettings, config: str) -> dict[str, str]:
    """Return a service and a timer of systemd that run a drill: file name → content.

    :param config: full path of the configuration file
    """
    values = {
        "name": drill.name,
        "command": typed(*_command(drill, config)),
        "due": f"{drill.cron} {drill.time_zone}",
        "calendar": "\n".join(f"OnCalendar={line} {drill.time_zone}" for line in _calendar(Cron(drill.cron))),
    }
    return {f"drkit-drill-{drill.name}.{kind}": _filled(kind, values) for kind in ("service", "timer")}


def kubernetes_cronjob(drill: DrillSettings, image: str) -> str:
    """Return a CronJob of Kubernetes that runs a drill, as YAML.

    :param image: with drkit; its configuration is the Secret ``drkit`` with the key ``drkit.toml``
    :raises Refused: Kubernetes reads the cron expression otherwise
    """
    values = {
        "name": f"drkit-drill-{drill.name}",
        "schedule": _kubernetes_schedule(drill, Cron(drill.cron)),
        "zone": drill.time_zone,
        "deadline": _grace(drill) // timedelta(seconds=1),
        "image": image,
        "command": ["drkit", *_command(drill, "/etc/drkit/drkit.toml")],
    }
    return _filled("cronjob.yaml", {name: json.dumps(value) for name, value in values.items()})


def _command(drill: DrillSettings, config: str) -> list[str]:
    return ["drill", "run", drill.name, *(["--yes"] if drill.kind == SWITCHOVER else []), "--config", config]


def _filled(kind: str, values: Mapping[str, str]) -> str:
    template = Path(__file__).with_name(f"template.{kind}").read_text(encoding="utf-8")
    return Template(template).substitute(values)


def _grace(drill: DrillSettings) -> timedelta:
    return max(timedelta(minutes=drill.grace_minutes), _LEAST_GRACE)


def _calendar(cron: Cron) -> list[str]:
    # An event fits if all of its parts fit, so alternatives are two.
    minute, hour = _listed(cron.minutes, 60), _listed(cron.hours, 24)
    day, month = _listed(cron.days, 31), _listed(cron.months, 12)
    names = [_WEEKDAYS[number] for number in cron.weekdays]
    weekday = ",".join(names) if len(names) < len(_WEEKDAYS) else ""
    time = f"{hour}:{minute}:00"
    if cron.needs_both_days:
        return [f"{weekday} *-{month}-{day} {time}".strip()]
    return [f"*-{month}-{day} {time}", f"{weekday} *-{month}-* {time}".strip()]


def _listed(values: Sequence[int], count: int) -> str:
    return _EACH if len(values) == count else ",".join(f"{value:02}" for value in values)


def _kubernetes_schedule(drill: DrillSettings, cron: Cron) -> str:
    """Return the expression with days of the week from 0 to 6: Kubernetes has no 7."""
    minute, hour, day, month, weekday = cron.fields
    if cron.needs_both_days and _EACH not in {day, weekday}:
        evidence = f"{drill.cron}: in cron both fields of days must fit, in Kubernetes one of them"
        raise Refused("cron_differs_in_kubernetes", where=f"drill {drill.name}", evidence=evidence)
    days = weekday if weekday == _EACH else ",".join(map(str, cron.weekdays))
    return f"{minute} {hour} {day} {month} {days}"


@dataclass
class DrillScheduler:
    """The drills of a configuration, each run when it is due."""

    settings: Settings
    history: DrillHistory
    run: RunPlan
    _: KW_ONLY
    tell: TellEntry = lambda _drill, _entry: None
    wall: Millis = wall_ms

    def run_due(self, stop: threading.Event | None = None) -> list[str]:
        """Run each drill that is due now, one after the other, and return their verdicts."""
        verdicts: list[str] = []
        for drill in self.settings.drills:
            if stop is not None and stop.is_set():
                break
            try:
                with self.history.lock():
                    verdicts += self._run_one(drill)
            except Refused as error:  # another process runs a drill: asked again, until the grace is over
                self.tell(drill, error)
        return verdicts

    def run_until(self, stop: threading.Event) -> None:
        """Run drills when they are due, until an event is set."""
        while not stop.is_set():
            self.run_due(stop)
            now = self.now()
            soonest = min((next_times(drill, now, 1)[0] for drill in self.settings.drills), default=now)
            stop.wait(min(soonest - now, _MOST_WAITED) / timedelta(seconds=1))

    def now(self) -> datetime:
        """Return the wall time, in UTC."""
        return datetime.fromtimestamp(self.wall() / 1000, UTC)

    def _run_one(self, drill: DrillSettings) -> Iterator[str]:
        now, flow = self.now(), self.settings.one_flow(drill.flow).name
        last = self.history.last_due(drill.name, flow, now)
        if last is None:
            self._record(drill, (now, now), SCHEDULED)
            last = now
        due = due_times(drill, last, now)
        if due.missed is not None:
            self._record(drill, due.missed, MISSED)
        if due.run is not None:
            drill_id = new_drill_id(secrets.token_hex(3), self.wall)
            yield self.run(plan_drill(self.settings, drill, drill_id), due.run)

    def _record(self, drill: DrillSettings, due: tuple[datetime, datetime], verdict: str) -> None:
        first, last = (round(time.timestamp() * 1000) for time in due)
        flow = self.settings.one_flow(drill.flow).name
        entry = DrillEntry(
            name=drill.name, kind=drill.kind, flow=flow, verdict=verdict, began_ms=first, due_ms=last
        )
        self.history.put(entry)
        self.tell(drill, entry)
