"""The state of drills for processes that show it: read rarely, and never at the cost of their own work."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
import threading
from typing import Final

from drkit.clock import Millis, Seconds, monotonic, wall_ms
from drkit.config import FlowSettings, Settings
from drkit.drill.entry import DrillEntry, DrillState, drill_states
from drkit.drill.history import DrillHistory, newest_entries
from drkit.monitoring.metrics import OVERDUE, OWED, PASSED, VERDICT, Sample
from drkit.time_limit import begun

_READ_SECONDS: Final = 60.0


class DrillMonitor:
    """The configured drills of some flows, as their histories were when last read.

    What was read stays known while a target is silent; ages are counted on.
    """

    def __init__(
        self,
        settings: Settings,
        flows: Iterable[FlowSettings],
        history: DrillHistory | None = None,
        *,
        wall: Millis = wall_ms,
        clock: Seconds = monotonic,
    ) -> None:
        self._settings, self._wall, self._clock = settings, wall, clock
        self._history = history or DrillHistory.of(settings)
        flow_of, names = settings.one_flow, {flow.name for flow in flows}
        self._drills = [(d, f.name) for d in settings.drills if (f := flow_of(d.flow)).name in names]
        self._entries: list[DrillEntry] = []
        self._read: set[str] = set()
        self._began = float("-inf")
        self._looking: Future[None] | None = None
        self._lock = threading.Lock()

    @property
    def unread(self) -> Mapping[str, str]:
        """Flow → why the last look did not read its history."""
        return self._history.unread

    def look(self, flows: Collection[str] | None = None) -> None:
        """Read the histories; a flow whose history cannot be read is in `unread`.

        :param flows: those to read, or None for all
        """
        self._began = self._clock()
        to_read = {flow for _, flow in self._drills if flows is None or flow in flows}
        self._entries = newest_entries([*self._entries, *self._history.entries(flows=to_read)])
        self._read |= to_read - self.unread.keys()

    def begin_look(self) -> None:
        """Begin to read the histories in a thread, once a minute at most."""
        with self._lock:
            is_busy = self._looking is not None and not self._looking.done()
            if not is_busy and self._clock() - self._began >= _READ_SECONDS:
                self._began = self._clock()
                self._looking = begun(self.look)

    def states(self) -> list[DrillState]:
        """Return the states of drills whose history was read."""
        read = set(self._read)  # first: the entries of these flows are there by then
        drills = [drill for drill, _ in self._drills]
        states = drill_states(self._settings, drills, self._entries, self._wall())
        return [state for state in states if state.flow in read]

    def never_read(self) -> dict[str, str]:
        """Return the drills whose history was never read, each with the reason."""
        return {d.name: self.unread.get(flow, "") for d, flow in self._drills if flow not in self._read}

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of the drills, and see to it that they are read again."""
        self.begin_look()
        for state in self.states():
            flow = self._settings.flow(state.flow)
            drill, passed = (flow.source, flow.target, state.name, state.kind), state.last_pass_ms
            yield OWED, drill, bool(state.owing)
            if state.is_configured:
                yield PASSED, drill, None if passed is None else passed / 1000
                yield OVERDUE, drill, state.is_overdue
                if state.last_verdict:
                    yield VERDICT, (*drill, state.last_verdict), 1
