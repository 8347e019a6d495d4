"""The newest heartbeat of a flow on its target, and its delay."""

from __future__ import annotations

from collections.abc import Callable
import threading
from typing import Final

from drkit.clock import Millis, monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.kafka.client_config import confluent_config
from drkit.kafka.clients import ConfluentPartition, Consumer, KafkaError, KafkaException, Message
from drkit.kafka.quiet import QUIET
from drkit.mm2_topics.heartbeats import TOPIC
from drkit.offsets.mm2_records import Heartbeat
from drkit.status.model import HeartbeatStatus

_LAST: Final = 100
"""Number of heartbeats searched for one of this flow: the topic also has those of other targets."""
_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.1
"""Pause without a heartbeat after which a look has seen them all."""
_AHEAD_MS: Final = 10_000
"""A heartbeat further ahead of our clock does not count: it would hide missing heartbeats for that time."""


class HeartbeatTail:
    """Reads a flow's heartbeats on the target. Use :meth:`read` from one thread.

    :param clock: compared with the emitter's: the figures are as precise as the two clocks agree
    :param arrived: called for each heartbeat of this flow that arrives after the topic was read to its end
    :param ahead_ms: a heartbeat further ahead of our clock does not count
    """

    def __init__(
        self,
        target: ClusterSettings,
        flow: FlowSettings,
        clock: Millis = wall_ms,
        arrived: Callable[[Heartbeat], None] = lambda _beat: None,
        ahead_ms: int = _AHEAD_MS,
    ) -> None:
        self.topic = flow.naming_policy.downstream(TOPIC)
        self._target = target
        self._flow = flow
        self._clock = clock
        self._arrived = arrived
        self._most_ahead_ms = ahead_ms
        self._consumer: Consumer | None = None
        self._newest_ms: int | None = None
        self._delay_ms: int | None = None
        self._ahead_ms = 0
        self._arrivals = 0
        self._end = 0
        """End offset of the topic at the start: earlier records did not arrive while we listened."""
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
        age = max(0, self._clock() - newest) / 1000
        return HeartbeatStatus(age, None if delay is None else delay / 1000)

    @property
    def newest_ms(self) -> int | None:
        """When the newest heartbeat that counts was written, by its emitter's clock; None: no heartbeat."""
        newest = self._newest_ms
        if newest is not None and newest - self._clock() > self._most_ahead_ms:  # our clock jumped back since
            return None
        return newest

    @property
    def arrivals(self) -> int:
        """Number of this flow's heartbeats since the topic was read to its end, whatever their time."""
        return self._arrivals

    @property
    def ahead_seconds(self) -> float:
        """How far the last heartbeat was ahead of our clock, if too far to count; else 0."""
        return self._ahead_ms / 1000

    def read(self) -> HeartbeatStatus | None:
        """Read to the end; a missing topic or a silent target leaves the known heartbeat unchanged."""
        if self._thread is None:
            deadline = monotonic() + _SECONDS
            while monotonic() < deadline and self._poll(_PAUSE_SECONDS):
                pass
        else:
            self._asked.wait(_SECONDS)
        return self.newest()

    def follow(self) -> None:
        """Read from a thread, so that the delay of every heartbeat is measured when it arrives."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._follow, name=f"beats {self._flow.name}", daemon=True)
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
        elif self._consumer is not None:
            self._consumer.close()

    def _follow(self) -> None:
        while not self._ended.is_set():
            if self._consumer is None and not self._open():
                self._asked.set()
                self._ended.wait(1.0)
            else:
                self._poll(0.2)
        if self._consumer is not None:
            self._consumer.close()

    def _poll(self, seconds: float) -> bool:
        """Take arriving records; False when the topic is read to its end and nothing arrives."""
        if self._consumer is None and not self._open():
            return False
        assert self._consumer is not None  # noqa: S101  _open made it
        message = self._consumer.poll(seconds)
        error = message.error() if message is not None else None
        ended = error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001  its only name
        if message is not None and (error is None or ended):
            # With heartbeats faster than a fetch waits, no end is reported: the offset shows it.
            offset = message.offset() or 0
            if ended or offset >= self._end:
                self._reach_end()
            if not ended:
                self._take(message)
            if offset + 1 >= self._end:
                self._reach_end()
        return not self._caught_up or (message is not None and not ended)

    def _reach_end(self) -> None:
        self._caught_up = True
        self._asked.set()

    def _open(self) -> bool:
        consumer = Consumer(
            {
                **confluent_config(self._target),
                "group.id": "drkit-reader",  # never used as a group
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                # A reader that stops at the end must not wait there for a heartbeat.
                **({} if self._thread is not None else {"fetch.wait.max.ms": 50}),
                "log_level": 0,
            },
            logger=QUIET,
        )
        at = ConfluentPartition(self.topic, 0)
        try:
            low, high = consumer.get_watermark_offsets(at, _SECONDS)
            start = max(low, high - _LAST)
            consumer.assign([ConfluentPartition(self.topic, 0, start)])
        except KafkaException:  # no topic yet, or no answer: others report that the target is gone
            consumer.close()
            return False
        self._consumer, self._end = consumer, high
        if start == high:
            self._reach_end()
        return True

    def _take(self, message: Message) -> None:
        key, value = message.key(), message.value()
        try:
            beat = (
                Heartbeat.decode(key, value) if isinstance(key, bytes) and isinstance(value, bytes) else None
            )
        except ValueError:
            return  # another writer's record hides no heartbeat
        if beat is None or (beat.source, beat.target) != (self._flow.source, self._flow.target):
            return
        ahead = beat.timestamp - self._clock()
        counts = ahead <= self._most_ahead_ms
        self._ahead_ms = 0 if counts else ahead
        if counts:
            self._newest_ms = max(beat.timestamp, self._newest_ms or 0)
        if self._caught_up:
            self._delay_ms = max(0, -ahead) if counts else None
            self._arrivals += 1
            self._came.set()
            self._arrived(beat)
