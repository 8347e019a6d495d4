"""An application that writes all the time by a link of its own, and members that come late."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
import signal
from typing import Any, NamedTuple

from drkit.clock import monotonic, wall_ms
from drkit.exercise import events
from drkit.exercise.processes import Child, ProcessParent
from tests.support.waiting import eventually

_NEEDED = 16
"""In each partition: groups commit up to there."""
_STOP_SECONDS = 10.0


class Acked(NamedTuple):
    """A record that the primary acknowledged."""

    topic: str
    partition: int
    offset: int
    value: bytes
    at_ms: int


class Clients:
    """Client processes of a scene that record into one history."""

    def __init__(self, parent: ProcessParent, folder: Path) -> None:
        self._parent, self._folder = parent, folder
        self._history = folder / "history.jsonl"
        self._children: list[Child] = []

    def start(self, kind: str, **options: Any) -> None:
        """Start one more client."""
        name = f"{kind}-{len(self._children)}"
        client = {"kind": kind, "name": name, "seed": 0, "history": str(self._history), **options}
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / f"{name}.log"
        self._children.append(self._parent.start((kind,), "client", log=log, **client))

    @property
    def events(self) -> Sequence[events.Event]:
        """What they have recorded."""
        return events.read_events(self._history, 0)[0] if self._history.exists() else ()

    def stop(self) -> None:
        """Stop all of them; what was not acknowledged by then never is."""
        deadline = monotonic() + _STOP_SECONDS
        for child in self._children:
            child.signal(signal.SIGTERM)
        while self._children:
            self._children.pop().end_before(deadline)


class Application(Clients):
    """Writes unique values, and remembers which were acknowledged, and when."""

    def __init__(self, parent: ProcessParent, folder: Path, bootstrap: str, topics: Sequence[str]) -> None:
        super().__init__(parent, folder)
        self._bootstrap = bootstrap
        self.write(topics)
        both = [(topic, partition) for topic in topics for partition in (0, 1)]
        eventually(
            lambda: all(len(self.of(*each)) >= _NEEDED for each in both), 60, f"first records: {folder}"
        )

    def write(self, topics: Sequence[str]) -> None:
        """Write to some more topics."""
        self.start("writer", cluster="primary", bootstrap=self._bootstrap, topics=topics)

    @property
    def acked(self) -> list[Acked]:
        """What was acknowledged so far."""
        began_ms = wall_ms() - 1000 * monotonic()
        return [
            Acked(e.topic, e.partition, e.offset, e.value.encode(), round(began_ms + 1000 * e.seconds))
            for e in self.events
            if isinstance(e, events.Acked)
        ]

    def of(self, topic: str, partition: int) -> list[Acked]:
        """What was acknowledged of a partition, in the order of its offsets."""
        found = (a for a in self.acked if (a.topic, a.partition) == (topic, partition))
        return sorted(found, key=lambda a: a.offset)
