"""Start drills when they are due, and record the due times that were missed: one entry for each pause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
import secrets
import threading
from typing import Final

from drkit.clock import Millis, wall_ms
from drkit.config import Settings
from drkit.config.tables.drills import DrillSettings
from drkit.drill.entries.history import DrillHistory
from drkit.drill.entry import MISSED, SCHEDULED, DrillEntry
from drkit.drill.plan import DrillPlan, new_drill_id, plan_drill
from drkit.drill.schedule import due_times, next_times
from drkit.errors import DrkitError, Refused

RunPlan = Callable[[DrillPlan, datetime], str]
"""Run the drill of a plan that was due at a time, and return its verdict."""
TellEntry = Callable[[DrillSettings, DrillEntry | DrkitError], None]
"""Get the entry of due times at which a drill was not run, or why it waits."""
_MOST_WAITED: Final = timedelta(seconds=30)
"""A wall clock may jump, and another drill may end."""


class DrillScheduler:
    """The drills of a configuration, each run when it is due."""

    def __init__(
        self,
        settings: Settings,
        history: DrillHistory,
        run: RunPlan,
        *,
        tell: TellEntry = lambda _drill, _entry: None,
        wall: Millis = wall_ms,
    ) -> None:
        self._settings, self._history, self._run = settings, history, run
        self._tell, self._wall = tell, wall

    def run_due(self, stop: threading.Event | None = None) -> list[str]:
        """Run each drill that is due now, one after the other, and return their verdicts."""
        verdicts: list[str] = []
        for drill in self._settings.drills:
            if stop is not None and stop.is_set():
                break
            try:
                with self._history.lock():
                    verdicts += self._run_one(drill)
            except Refused as error:  # another process runs a drill: asked again, until the grace is over
                self._tell(drill, error)
        return verdicts

    def run_until(self, stop: threading.Event) -> None:
        """Run drills when they are due, until an event is set."""
        while not stop.is_set():
            self.run_due(stop)
            stop.wait(self._seconds_to_wait())

    def now(self) -> datetime:
        """Return the wall time, in UTC."""
        return datetime.fromtimestamp(self._wall() / 1000, UTC)

    def _run_one(self, drill: DrillSettings) -> Iterator[str]:
        now = self.now()
        last = self._history.last_due(drill.name, now)
        if last is None:
            self._record(drill, (now, now), SCHEDULED)
            last = now
        due = due_times(drill, last, now)
        if due.missed is not None:
            self._record(drill, due.missed, MISSED)
        if due.run is None:
            return
        drill_id = new_drill_id(secrets.token_hex(3), self._wall)
        yield self._run(plan_drill(self._settings, drill, drill_id), due.run)

    def _record(self, drill: DrillSettings, due: tuple[datetime, datetime], verdict: str) -> None:
        flow = self._settings.one_flow(drill.flow).name
        self._tell(drill, self._history.record_not_run(drill, flow, due, verdict))

    def _seconds_to_wait(self) -> float:
        now = self.now()
        soonest = min((next_times(drill, now, 1)[0] for drill in self._settings.drills), default=now)
        return min(soonest - now, _MOST_WAITED) / timedelta(seconds=1)
