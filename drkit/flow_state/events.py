"""Events of topics, logged and written where `drkit status` finds them."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from drkit import observe
from drkit.clock import monotonic, wall_ms
from drkit.config import FlowSettings
from drkit.errors import DrkitError
from drkit.flow_state.records import EventRecord
from drkit.flow_state.topic import StateTopic
from drkit.observe import Level

_FORGOTTEN_SECONDS: Final = 24 * 3600.0  # longer than any interval between two looks


class TopicEvents:
    """The events of one flow's topics.

    :param effects: False: nothing is written
    """

    def __init__(self, flow: FlowSettings, state: StateTopic, *, effects: bool) -> None:
        self._flow = flow
        self._state = state
        self._effects = effects
        self._reported: dict[tuple[str, str, str], float] = {}  # when it was made last, in that order

    def once(self, kind: str, topic: str, identity: str, *, level: Level = "info", **fields: Any) -> None:
        """Log a finding once for as long as it lasts, and write it once.

        :param identity: separates this finding from a later one of the same kind
        """
        now, finding = monotonic(), (kind, topic, identity)
        is_new = self._reported.pop(finding, None) is None
        self._reported[finding] = now
        while now - self._reported[first := next(iter(self._reported))] > _FORGOTTEN_SECONDS:
            del self._reported[first]
        if not is_new:
            return
        observe.event(kind, level=level, flow=self._flow.name, topic=topic, **fields)
        written = self._state.get(EventRecord, EventRecord.name_of(kind, topic))
        if self._effects and (written is None or written.fields.get("identity") != identity):
            self._state.emit(kind, topic, flow=self._flow.name, identity=identity, **fields)

    def forget(self, kinds: Container[str], grace_ms: int) -> None:
        """Delete the records of findings of some kinds that are older than this and are not made any more."""
        made, before = {finding[:2] for finding in self._reported}, wall_ms() - grace_ms
        found = self._state.records.readable(EventRecord).items()
        old = [n for n, e in found if e.kind in kinds and e.at_ms < before and (e.kind, e.topic) not in made]
        self._state.delete_all(EventRecord, old)

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
