"""Begins a return by itself: in the process that copies from a new primary, soon after a switchover.

A switchover leaves nothing on the old primary that was not copied, so there is nothing to decide. The return
of a primary that was given up is never begun here.
"""

from __future__ import annotations

from collections.abc import Collection
import threading
from typing import Final

from drkit import observe
from drkit.config import FlowSettings, Settings
from drkit.errors import DrkitError
from drkit.failover.core.machine import RETURN
from drkit.failover.core.request import RunRequest
from drkit.failover.journal.journal import RunLocked
from drkit.failover.returning.waiting import pairs_of_flows, switched
from drkit.failover.service import FailoverService
from drkit.kafka.raw import RawError

_LOOK_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = 5.0
"""After a refusal: members of groups leave, brokers come back."""


def watch_returns(settings: Settings, flows: Collection[FlowSettings], stop: threading.Event) -> None:
    """Start a thread for each of the flows that has an opposite one in the configuration.

    :param flows: those that this process copies
    """
    for there, back in pairs_of_flows(settings):
        if back in flows:
            watch = ReturnWatch(settings, there, back)
            name = f"returns to {back.target}"
            threading.Thread(target=watch.run, args=(stop,), name=name, daemon=True).start()


class ReturnWatch:
    """Looks for topics that a switchover has promoted, and begins their return.

    :param there: the flow whose switchover promotes topics
    :param back: the flow in the other direction, which this process copies
    """

    def __init__(self, settings: Settings, there: FlowSettings, back: FlowSettings) -> None:
        self._settings, self._there, self._back = settings, there, back
        self._told = ""

    def run(self, stop: threading.Event) -> None:
        """Look until `stop` is set; nothing that goes wrong ends this."""
        pause = _LOOK_SECONDS
        while not stop.wait(pause):
            pause = _LOOK_SECONDS
            try:
                self._look()
            except RunLocked:
                continue  # a failover is under way, or another process's return
            except DrkitError as error:
                pause = _AGAIN_SECONDS
                self._tell(error)
            except RawError:
                pause = _AGAIN_SECONDS  # the flow's own copy reports that a cluster does not answer

    def _look(self) -> None:
        """Begin a return where one is due, or continue one that its process has left.

        :raises DrkitError: it is refused, or a cluster does not answer
        """
        due = switched(self._settings, self._there, self._back)
        if not due:
            return
        with FailoverService(self._settings, self._there) as service:
            run = service.under_way
            if run is None:
                report = service.begin_return(RunRequest(), topics=due)
            elif run.table is RETURN and set(run.opening["scope"]["topics"]) <= set(due):
                report = service.resume(RunRequest())  # refused where its process still works on it
            else:
                return
        self._told = ""
        observe.event("return_begun", flow=self._back.name, run=report["run"], topics=len(report["topics"]))

    def _tell(self, error: DrkitError) -> None:
        said = f"{error.what} {error.evidence}"
        if said != self._told:
            self._told = said
            observe.event("return_waits", level="warning", flow=self._back.name, reason=error.what,
                          where=error.where, evidence=error.evidence, hint=error.hint)  # fmt: skip
