"""Events that copy tasks write to the state topic: each is reported once, by whichever thread it is read."""

from __future__ import annotations

from collections.abc import Callable
import threading
from typing import Final

from drkit import observe
from drkit.flow_state.records import EventRecord
from drkit.flow_state.state import StateChange
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.model import TopicPartition
from drkit.time_limit import within

_AGAIN_SECONDS: Final = 0.1
_LAST_SECONDS: Final = 30.0


class TaskEvents:
    """The events of one run of a flow, over all its attempts.

    The driver's own events have no partition; they are reported when they happen.

    :param on_stopped: gets each partition that a task has stopped, with the reason, before its epoch ends
    """

    def __init__(self, flow: str, on_stopped: Callable[[TopicPartition, str], object]) -> None:
        self._flow, self._on_stopped = flow, on_stopped
        self._next: int | None = None
        """First offset of the state topic that is not reported yet; None: all of it is of earlier runs."""

    def follow(self, state: StateTopic) -> None:
        """Read the state up to the first open transaction, and report every event that is read later.

        After a failed attempt this includes the events that it left unread.

        :raises DrkitError: the topic cannot be read
        """
        state.on_read = self._report
        state.load_decided()
        if self._next is None:
            self._next = state.position

    def finish(self, target: Cluster, state: StateTopic, stop: threading.Event) -> None:
        """Report the remaining events after the last epoch of a copy with an end."""
        if not within(_LAST_SECONDS, lambda: _read_all(state, stop)):
            observe.event("events_not_read", level="warning", flow=self._flow, topic=state.name,
                          cluster=target.alias, hint="see them with: drkit status")  # fmt: skip

    def _report(self, offset: int, change: StateChange) -> None:
        if self._next is None or offset < self._next:
            return
        self._next = offset + 1
        event = change.record
        if isinstance(event, EventRecord) and event.partition >= 0:
            fields = {"flow": self._flow, "topic": event.topic, "partition": event.partition}
            observe.event(event.kind, level="warning", **{**fields, **event.fields})
            if event.fields.get("stopped"):
                at = TopicPartition(event.topic, event.partition)
                self._on_stopped(at, str(event.fields.get("reason", event.kind)))


def _read_all(state: StateTopic, stop: threading.Event) -> None:
    """Read all that the topic holds now, also what an open transaction hides: the lease has short ones."""
    while not state.load_decided() and not stop.wait(_AGAIN_SECONDS):
        pass
