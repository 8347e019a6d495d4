"""Arrivals of a flow's heartbeats on the target, and how suspicious their absence is."""

from __future__ import annotations

import threading
from typing import NamedTuple

from drkit.config import ClusterSettings, FlowSettings
from drkit.config.tables.detection import DetectionSettings
from drkit.detect.awake import AwakeClock
from drkit.detect.phi import PhiAccrual, PhiRules
from drkit.offsets.mm2_records import Heartbeat
from drkit.status.heartbeat_tail import HeartbeatTail


class Arrivals(NamedTuple):
    """Arrivals of heartbeats. None: no heartbeat of this flow ever arrived."""

    phi: float | None
    silence: float | None
    newest_ms: int | None = None
    """When the newest one that counts was written, by its emitter's clock."""
    ahead: float = 0.0
    """How far the last one is ahead of our clock, in seconds, if too far to count; else 0."""


class HeartbeatListener:
    """Listens from its own thread until :meth:`stop`.

    :param ahead_ms: a heartbeat further ahead of our clock does not count
    """

    def __init__(
        self,
        target: ClusterSettings,
        flow: FlowSettings,
        settings: DetectionSettings,
        clock: AwakeClock,
        ahead_ms: int,
    ) -> None:
        self._clock = clock
        self._rules = PhiRules(
            flow.heartbeats_interval_seconds,
            settings.phi_threshold,
            settings.phi_window,
            settings.phi_min_deviation_seconds,
            settings.phi_pause_seconds,
        )
        self._lock = threading.Lock()
        self._detector: PhiAccrual | None = None
        self._asked_at = clock.now()
        self._tail = HeartbeatTail(target, flow, arrived=self._arrived, ahead_ms=ahead_ms)

    def start(self) -> None:
        """Start the thread."""
        self._tail.follow()

    def stop(self) -> None:
        """Stop the thread."""
        self._tail.close()

    def now(self) -> Arrivals:
        """Arrivals until now."""
        with self._lock:
            now = self._clock.now()
            if self._detector is not None and self._clock.stalled_since(self._asked_at):
                self._detector.interrupted()
            self._asked_at = now
            if self._detector is None and (newest := self._tail.newest()) is not None:
                # It arrived before we listened: its own timestamp shows for how long no other has arrived.
                self._detector = PhiAccrual(self._rules, now - newest.age_seconds)
            if self._detector is None:
                return Arrivals(None, None, None, self._tail.ahead_seconds)
            return Arrivals(
                self._detector.phi(now), self._detector.silence(now), self._tail.newest_ms,
                self._tail.ahead_seconds,
            )  # fmt: skip

    def _arrived(self, _beat: Heartbeat) -> None:
        with self._lock:
            now = self._clock.now()
            if self._detector is None:
                self._detector = PhiAccrual(self._rules, now)
            self._detector.beat(now)
