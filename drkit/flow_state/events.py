"""Events of topics, logged and written where `drkit status` finds them."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from drkit import observe
from drkit.config import FlowSettings
from drkit.errors import DrkitError
from drkit.flow_state.records import EventRecord
from drkit.flow_state.topic import StateTopic
from drkit.observe import Level


class TopicEvents:
    """The events of one flow's topics.

    :param effects: False: nothing is written
    """

    def __init__(self, flow: FlowSettings, state: StateTopic, *, effects: bool) -> None:
        self._flow = flow
        self._state = state
        self._effects = effects
        self._reported: set[tuple[str, str, str]] = set()

    def once(self, kind: str, topic: str, identity: str, *, level: Level = "info", **fields: Any) -> None:
        """Log a finding once per run, and write it once.

        :param identity: separates this finding from a later one of the same kind
        """
        if (kind, topic, identity) in self._reported:
            return
        self._reported.add((kind, topic, identity))
        observe.event(kind, level=level, flow=self._flow.name, topic=topic, **fields)
        written = self._state.get(EventRecord, EventRecord.name_of(kind, topic))
        if self._effects and (written is None or written.fields.get("identity") != identity):
            self._state.emit(kind, topic, flow=self._flow.name, identity=identity, **fields)

    def forget(self, topics: Container[str]) -> None:
        """Forget what was reported of topics that are gone."""
        self._reported = {reported for reported in self._reported if reported[1] not in topics}

    def done(self, kind: str, topic: str, **fields: Any) -> None:
        """Log something that was done."""
        observe.event(kind, flow=self._flow.name, topic=topic, **fields)

    def written(self, kind: str, topic: str, *, level: Level, **fields: Any) -> None:
        """Log and write something every time it happens."""
        observe.event(kind, level=level, flow=self._flow.name, topic=topic, **fields)
        self._state.emit(kind, topic, flow=self._flow.name, **fields)

    def left_out(self, topic: str, error: DrkitError) -> str:
        """Report a topic that is not copied; returns the reason in one line, with what to do about it."""
        reason = f"{error.what} ({error.evidence})" if error.evidence else error.what
        self.once("topic_left_out", topic, reason, level="error",
                  reason=error.what, evidence=error.evidence, hint=error.hint)  # fmt: skip
        return f"{reason}: {error.hint}" if error.hint else reason
