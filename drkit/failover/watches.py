"""Threads of the process that copies from a new primary: begin a failback, and end a hold.

A switchover leaves nothing on the old primary that was not copied, so there is nothing to decide, and its
failback begins soon after. The failback of a primary that was given up is never begun here. The new
primary's settings are put back as soon as another cluster protects it, as `drkit failback` does before it
switches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from contextlib import closing
import threading
from typing import ClassVar

from drkit import observe
from drkit.config import FlowSettings, Settings
from drkit.errors import DrkitError
from drkit.failover.core.request import RunRequest
from drkit.failover.new_primary.hold import HeldTopic, held_now, put_back
from drkit.failover.returning.scope import pairs_of_flows, switched
from drkit.failover.service import FailoverService
from drkit.journal.journal import RunLocked
from drkit.journal.machine import RETURN
from drkit.kafka.raw import RawError
from drkit.status.pair.model import PairState, PairTopic
from drkit.status.paired import PairedCollector


def watch_pairs(settings: Settings, flows: Collection[FlowSettings], stop: threading.Event) -> None:
    """Start the threads for each of the flows, copied by this process, that has an opposite one."""
    for there, back in pairs_of_flows(settings):
        for kind in (ReturnWatch, HoldWatch) if back in flows else ():
            watch, name = kind(settings, there, back), f"{kind.__name__} of {back.name}"
            threading.Thread(target=watch.run, args=(stop,), name=name, daemon=True).start()


class _Watch(ABC):
    """Watch one pair until a stop is requested; no error ends the watch.

    :param there: the flow whose failover has promoted topics
    :param back: the flow in the other direction, which this process copies
    """

    pause_seconds: ClassVar[float]
    again_seconds: ClassVar[float]
    """The pause after an error."""

    def __init__(self, settings: Settings, there: FlowSettings, back: FlowSettings) -> None:
        self._settings, self._there, self._back = settings, there, back
        self._reported = ""
        """The last error that was reported, which is not reported again."""

    def run(self, stop: threading.Event) -> None:
        """Watch until `stop` is set, and report each new error once."""
        pause = self.pause_seconds
        while not stop.wait(pause):
            pause = self.again_seconds
            try:
                self.look()
                pause = self.pause_seconds
            except RunLocked:
                pause = self.pause_seconds  # a failover is under way, or another process's failback
            except RawError:
                continue  # the flow's own copy reports that a cluster does not answer
            except DrkitError as error:
                if (text := f"{error.what} {error.evidence}") != self._reported:
                    self._reported = text
                    self._report(error)

    @abstractmethod
    def look(self) -> object:
        """Do what is pending. Raises DrkitError: a cluster does not answer, or refuses."""

    @abstractmethod
    def _report(self, error: DrkitError) -> None: ...


class ReturnWatch(_Watch):
    """Begins the failback of topics that a switchover has promoted."""

    pause_seconds = 2.0
    again_seconds = 5.0  # members of groups leave, brokers come back

    def look(self) -> None:
        """Begin a pending failback, or continue one that its process has left."""
        due = switched(self._settings, self._there, self._back)
        if not due:
            return
        with FailoverService(self._settings, self._there) as service:
            run = service.under_way
            if run is None:
                report = service.begin_return(RunRequest(), topics=due)
            elif run.table is RETURN and set(run.scope["topics"]) <= set(due):
                report = service.resume(RunRequest())  # refused where its process still works on it
            else:
                return
        self._reported = ""
        observe.event("return_begun", flow=self._back.name, run=report["run"], topics=len(report["topics"]))

    def _report(self, error: DrkitError) -> None:
        observe.event("return_waits", level="warning", flow=self._back.name, reason=error.what,
                      where=error.where, evidence=error.evidence, hint=error.hint)  # fmt: skip


class HoldWatch(_Watch):
    """Ends the holds of a pair whose topics are protected: puts their settings back."""

    pause_seconds = again_seconds = 30.0

    def look(self) -> list[HeldTopic]:
        """End the holds that are not needed any more; return their topics."""
        ended: list[HeldTopic] = []
        for flow in (self._there, self._back):
            if not held_now(self._settings, flow):
                continue
            with closing(PairedCollector(self._settings, flow, groups=False)) as collector:
                pair = collector.look().pair
            if pair is not None:
                ended += put_back_protected(self._settings, flow, pair.topics)
        return ended

    def _report(self, error: DrkitError) -> None:
        observe.error(error, flow=self._back.name)


def put_back_protected(
    settings: Settings, flow: FlowSettings, topics: Iterable[PairTopic]
) -> list[HeldTopic]:
    """Put the settings of protected topics with a known lag back; return these topics.

    :param flow: the flow that was failed over; `topics` are those of its pair
    :raises DrkitError: the new primary does not answer, or refuses
    """
    safe = [t.topic for t in topics if t.state is PairState.PROTECTED and t.records is not None]
    ended = put_back(settings, flow, safe)
    for topic in ended:
        observe.event(
            "hold_ended",
            flow=flow.name,
            topic=topic.topic,
            settings=dict(topic.after),
            changed=dict(topic.changed),
        )
    return ended
