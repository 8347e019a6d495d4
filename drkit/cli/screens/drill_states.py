"""The drills in `drkit status`: one line for people, a row for each as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from drkit.chaos.verdict import PASS
from drkit.cli.screens.status import DrillsView
from drkit.cli.screens.status_groups import ago
from drkit.clock import wall_ms
from drkit.config import FlowSettings, Settings
from drkit.drill.entry import DrillState
from drkit.drill.monitor import DrillMonitor
from drkit.next_command import typed
from drkit.status.model import FlowStatus


class DrillStates:
    """The drills of the flows that `drkit status` shows."""

    def __init__(self, settings: Settings, flows: Iterable[FlowSettings]) -> None:
        self._settings = settings
        self._monitor = DrillMonitor(settings, flows)
        self._has_looked = False

    def view(self, found: Sequence[FlowStatus]) -> DrillsView:
        """Return the drills; the first time their histories are read, if the targets answer.

        :param found: the flows as they were just seen
        """
        if self._has_looked:
            self._monitor.begin_look()
        else:
            self._monitor.look([status.flow for status in found if status.target_answers])
            self._has_looked = True
        states, unread = self._monitor.states(), self._unread()
        items = [*(state_text(state, wall_ms()) for state in states), *(f"{name} unknown" for name in unread)]
        rows = [*map(_row, states), *({"drill": name, "unread": reason} for name, reason in unread.items())]
        return DrillsView(f"{'; '.join(items)} (drkit drill history)" if items else "", rows)

    def _unread(self) -> dict[str, str]:
        """Return the drills whose history was never read, each with the reason."""
        known = {state.name for state in self._monitor.states()}
        flows = {drill.name: self._settings.one_flow(drill.flow).name for drill in self._monitor.drills}
        return {n: self._monitor.unread.get(flow, "") for n, flow in flows.items() if n not in known}


def state_text(state: DrillState, now_ms: int) -> str:
    """Return the state of a drill in words."""
    return f"{state.name} {', '.join(_words(state, now_ms))}"


def _words(state: DrillState, now_ms: int) -> Iterator[str]:
    is_well = not state.is_overdue and state.last_verdict in {"", PASS}
    if state.is_overdue:
        yield "overdue"
    if state.last_verdict not in {"", PASS}:
        yield f"last verdict {state.last_verdict}"
    if state.last_pass_ms is not None:
        passed = ago(max(0, now_ms - state.last_pass_ms) / 1000)
        yield f"passed {passed}" if is_well else f"last passed {passed}"
    elif state.is_configured:
        yield "not run yet" if is_well else "never passed"
    if state.owing:
        yield f"cleanup owed: {typed('drkit', 'drill', 'cleanup', '--flow', state.flow)}"


def _row(state: DrillState) -> dict[str, Any]:
    return {
        "drill": state.name,
        "kind": state.kind,
        "flow": state.flow,
        "last_pass_ms": state.last_pass_ms,
        "last_verdict": state.last_verdict or None,
        "last_ms": state.last_ms,
        "overdue": state.is_overdue,
        "cleanup_owed": list(state.owing),
    }
