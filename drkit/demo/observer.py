"""An application at the standby: an ordinary consumer that notes when each record arrives."""

from __future__ import annotations

from array import array
from bisect import bisect_left
import threading
import time
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from drkit.clock import wall_ms
from drkit.demo.shop import ORDERS

_OBSERVER_LOOK_SECONDS = 0.2
_PIECE = 2000
_POLL_SECONDS = 0.005
_RATE_SECONDS = 1.0


class Latency(NamedTuple):
    """From an order's creation until a consumer of the standby has it, in milliseconds."""

    p50: float
    p99: float
    worst: float
    longest_gap: float
    """The longest time in which no order arrived."""
    orders: int


class StandbyObserver:
    """Reads all topics of the standby in a thread of its own, from their first records on."""

    def __init__(self, bootstrap: str, topics: dict[str, int]) -> None:
        self.records = 0
        self.newest_ms = 0
        """Creation time of the newest order seen here."""
        self._topics = dict(topics)
        self._arrivals = array("d")
        self._delays = array("d")
        self._pace: list[tuple[float, int]] = []
        self._closed = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "demo-observer",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
                "fetch.queue.backoff.ms": 2,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()
        self._thread.join()

    @property
    def rate(self) -> float:
        """Records per second, over the last second."""
        now = time.monotonic()
        recent = [p for p in self._pace[-400:] if now - p[0] <= _RATE_SECONDS]
        return (self.records - recent[0][1]) / (now - recent[0][0]) if len(recent) > 1 else 0.0

    def fastest(self, since: float) -> float:
        """The most records per second over any second after a moment (:func:`time.monotonic`)."""
        pace = [p for p in self._pace if p[0] >= since]
        best = 0.0
        start = 0
        for at, records in pace:
            while at - pace[start][0] > _RATE_SECONDS:
                start += 1
            if at - pace[start][0] > _RATE_SECONDS / 2:
                best = max(best, (records - pace[start][1]) / (at - pace[start][0]))
        return best

    def latency(self, since: float, until: float) -> Latency | None:
        """Of the orders that arrived between two moments (:func:`time.monotonic`)."""
        lo, hi = bisect_left(self._arrivals, since), bisect_left(self._arrivals, until)
        if hi - lo < 2:  # noqa: PLR2004  no gap without two
            return None
        delays = sorted(self._delays[lo:hi])
        gaps = max(
            b - a for a, b in zip(self._arrivals[lo : hi - 1], self._arrivals[lo + 1 : hi], strict=True)
        )
        count = len(delays)
        return Latency(delays[count // 2], delays[count * 99 // 100], delays[-1], gaps * 1000, count)

    def recent_delay(self) -> float | None:
        """Median delay of the newest orders, in milliseconds."""
        newest = sorted(self._delays[-200:])
        return newest[len(newest) // 2] if newest else None

    def _run(self) -> None:
        try:
            self._find_topics()
            while not self._closed.is_set():
                self._take(self._consumer.consume(_PIECE, _POLL_SECONDS))
        finally:
            self._consumer.close()

    def _find_topics(self) -> None:
        """Topics appear on the standby when drkit creates them."""
        missing = dict(self._topics)
        while missing and not self._closed.wait(_OBSERVER_LOOK_SECONDS):
            there = self._consumer.list_topics(timeout=10).topics
            for name in [
                n for n, count in missing.items() if n in there and len(there[n].partitions) >= count
            ]:
                count = missing.pop(name)
                parts = [TopicPartition(name, p, OFFSET_BEGINNING) for p in range(count)]
                self._consumer.incremental_assign(parts)

    def _take(self, messages: list[Any]) -> None:
        if not messages:
            return
        now, now_ms = time.monotonic(), wall_ms()
        for message in messages:
            if message.error() is not None:
                continue
            self.records += 1
            if message.topic() == ORDERS:
                created = message.timestamp()[1]
                self.newest_ms = max(self.newest_ms, created)
                self._arrivals.append(now)
                self._delays.append(now_ms - created)
        self._pace.append((now, self.records))
