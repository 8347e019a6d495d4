"""Whether a flow's copies still grow: then the replicator still reads the source.

Producers do not write to a passive copy, so each new record comes from replication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
import threading
from typing import Final

from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.errors import DrkitError
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.requests import LATEST, by_leader, list_offsets, metadata, partitions_of
from drkit.model import TopicPartition

_CONNECT_MS: Final = 3000
_SHARE: Final = 10
"""Requests may take a tenth of the time."""


class Growth:
    """Requests the end offsets of copies from its own thread, until :meth:`stop`.

    :param topics: the current copies
    :param grown: called with a line of evidence when one of them has grown
    """

    def __init__(
        self,
        target: ClusterSettings,
        topics: Callable[[], Iterable[str]],
        grown: Callable[[str], None],
        seconds: float = 1.0,
    ) -> None:
        self._target = target
        self._topics = topics
        self._grown = grown
        self._seconds = seconds
        self._ends: dict[TopicPartition, int] = {}
        self.began: float | None = None
        """When end offsets were first known, on the clock of `monotonic`; None: never."""
        self._raw: RawCluster | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"growth {target.alias}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._ended.set()

    def _run(self) -> None:
        loop = EventLoop()
        try:
            while not self._ended.is_set():
                began = monotonic()
                try:
                    loop.run(self._look, loop)
                except DrkitError:  # others report that the target does not answer
                    self._drop()
                self._ended.wait(max(self._seconds, _SHARE * (monotonic() - began)))
        finally:
            self._drop()
            loop.close()

    async def _look(self, loop: EventLoop) -> None:
        names = sorted(set(self._topics()))
        if not names:
            return
        if self._raw is None:
            self._raw = RawCluster(loop, self._target, "growth")
            await self._raw.connect(_CONNECT_MS)
        topics = await metadata(self._raw, names)
        for node, partitions in by_leader(topics, partitions_of(topics)).items():
            ends = await list_offsets(self._raw, node, dict.fromkeys(partitions, LATEST), committed=False)
            self._compare({at: found.offset for at, found in ends.items() if not found.error})

    def _compare(self, ends: dict[TopicPartition, int]) -> None:
        grown = [(at, end - self._ends[at]) for at, end in ends.items() if end > self._ends.get(at, end)]
        self._ends |= ends
        self.began = monotonic() if self.began is None else self.began
        if grown:
            at, by = max(grown, key=lambda g: g[1])
            self._grown(f"{at} grew by {by}, and {len(grown) - 1} other partitions")

    def _drop(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()
