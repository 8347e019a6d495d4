"""The newest heartbeat of a flow on its target, and its delay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
import threading
from typing import Final

from drkit.clock import Millis, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.kafka.reading.log_tail import LogRestarted, LogTail
from drkit.mm2_topics.heartbeats import TOPIC
from drkit.model import TopicPartition
from drkit.offsets.mm2_records import Heartbeat
from drkit.status.model import HeartbeatStatus
from drkit.wire import Record

_LAST: Final = 100
"""Number of heartbeats searched for one of this flow: the topic also has those of other targets."""
_SECONDS: Final = 5.0
_WAIT_MS: Final = 200
_AHEAD_MS: Final = 10_000
"""A heartbeat further ahead of our clock does not count: it would hide missing heartbeats for that time."""


@dataclass
class HeartbeatTail:
    """Reads a flow's heartbeats on the target. Use :meth:`read` from one thread.

    :param clock: compared with the emitter's: the figures are as precise as the two clocks agree
    :param arrived: called for each heartbeat of this flow that arrives after the topic was read to its end
    :param ahead_ms: a heartbeat further ahead of our clock does not count
    """

    target: ClusterSettings
    flow: FlowSettings
    clock: Millis = wall_ms
    arrived: Callable[[Heartbeat], None] = lambda _beat: None
    ahead_ms: int = _AHEAD_MS

    def __post_init__(self) -> None:
        self.topic = self.flow.naming_policy.downstream(TOPIC)
        self._tail: LogTail | None = None
        self._newest_ms: int | None = None
        self._delay_ms: int | None = None
        self._ahead_ms = 0
        self.arrivals = 0
        """Number of this flow's heartbeats since the topic was read to its end, whatever their time."""
        self._caught_up = False
        self._ended = threading.Event()
        self._asked = threading.Event()
        """Set when the topic was read to its end once, or does not exist."""
        self._came = threading.Event()
        """Set when a heartbeat arrived after the topic was read to its end."""
        self._thread: threading.Thread | None = None

    def newest(self) -> HeartbeatStatus | None:
        """The newest heartbeat read so far."""
        newest, delay = self.newest_ms, self._delay_ms
        if newest is None:
            return None
        age = max(0, self.clock() - newest) / 1000
        return HeartbeatStatus(age, None if delay is None else delay / 1000)

    @property
    def newest_ms(self) -> int | None:
        """The time of the newest heartbeat that counts, by its emitter's clock, or None without one."""
        newest = self._newest_ms
        if newest is not None and newest - self.clock() > self.ahead_ms:  # our clock jumped back since
            return None
        return newest

    @property
    def ahead_seconds(self) -> float:
        """The lead of the last heartbeat over this clock, if it is too far ahead to count, or 0."""
        return self._ahead_ms / 1000

    def read(self) -> HeartbeatStatus | None:
        """Read to the end; a missing topic or a silent target leaves the known heartbeat unchanged."""
        if self._thread is not None:
            self._asked.wait(_SECONDS)
        elif (tail := self._open()) is not None:
            with suppress(DrkitError), self._restarting():
                tail.read(_SECONDS)
                self._reach_end()
        return self.newest()

    def follow(self) -> None:
        """Read from a thread, so that the delay of every heartbeat is measured when it arrives."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._follow, name=f"beats {self.flow.name}", daemon=True)
        self._thread.start()

    def measured(self, seconds: float) -> HeartbeatStatus | None:
        """The newest heartbeat; while following, waits at most `seconds` for its delay."""
        self._came.wait(seconds)
        return self.newest()

    def close(self) -> None:
        """Close the connection."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_SECONDS)
        elif self._tail is not None:
            self._tail.close()

    def _follow(self) -> None:
        while not self._ended.is_set():
            tail = self._open()
            ended = False
            with suppress(DrkitError), self._restarting():
                ended = tail is not None and tail.poll(1.0, _WAIT_MS)
            if ended:
                self._reach_end()
            else:
                self._asked.set()
                self._ended.wait(0.2 if tail is not None else 1.0)
        if self._tail is not None:
            self._tail.close()

    def _reach_end(self) -> None:
        self._caught_up = True
        self._asked.set()

    @contextmanager
    def _restarting(self) -> Iterator[None]:
        try:
            yield
        except LogRestarted:
            if self._tail is not None:
                self._tail.close()
            self._tail = None

    def _open(self) -> LogTail | None:
        if self._tail is None:
            tail = LogTail(self.target, TopicPartition(self.topic, 0), self._take)
            with suppress(DrkitError):  # others report that the target is gone
                if tail.skip_to_last(_LAST, _SECONDS):
                    self._tail = tail
            if self._tail is None:
                tail.close()
        return self._tail

    def _take(self, record: Record) -> None:
        try:
            beat = Heartbeat.decode(record.key or b"", record.value or b"")
        except ValueError:
            return  # another writer's record hides no heartbeat
        if (beat.source, beat.target) != (self.flow.source, self.flow.target):
            return
        ahead = beat.timestamp - self.clock()
        counts = ahead <= self.ahead_ms
        self._ahead_ms = 0 if counts else ahead
        if counts:
            self._newest_ms = max(beat.timestamp, self._newest_ms or 0)
        if self._caught_up:
            self._delay_ms = max(0, -ahead) if counts else None
            self.arrivals += 1
            self._came.set()
            self.arrived(beat)
