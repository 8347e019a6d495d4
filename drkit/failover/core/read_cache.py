"""Readers of the target's topics that keep their position between reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from drkit.clock import Millis
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.failover.core.checkpoint_log import CheckpointLog
from drkit.flow_state.lease.watch import LeaseWatch
from drkit.flow_state.names import offset_map_topic
from drkit.kafka.raw import RawCluster
from drkit.offset_map.places import PositionReader
from drkit.status.heartbeat_tail import HeartbeatTail
from drkit.status.lag.target import CopyLocator

_SCAN_UP_TO: Final = 1_000_000


class Asking(Protocol):
    """The run that asks; see :class:`drkit.failover.core.context.Context`."""

    @property
    def settings(self) -> Settings:
        """The configuration."""

    @property
    def flow(self) -> FlowSettings:
        """The flow that fails over."""

    @property
    def target_settings(self) -> ClusterSettings:
        """Settings of the target."""

    @property
    def wall(self) -> Millis:
        """The wall clock."""


@dataclass
class ReadCache:
    """The readers of one flow, each created on first use."""

    _places: PositionReader | None = None
    _side: CopyLocator | None = None
    _checkpoints: CheckpointLog | None = None
    _beats: HeartbeatTail | None = None
    lease: LeaseWatch = field(default_factory=LeaseWatch)
    quiet: tuple[float, int] | None = None
    """When replication last made no progress while the source was silent, and the number of heartbeats that
    had arrived by then."""

    def places_of(self, target: RawCluster, source: str) -> PositionReader:
        """Return the reader of exact positions, by the offset map.

        :param source: alias
        """
        self._places = self._places or PositionReader(target, source)
        return self._places

    def side_of(self, target: RawCluster, source: str) -> CopyLocator:
        """Return the reader of the copy's progress.

        :param source: alias
        """
        self._side = self._side or CopyLocator(target, offset_map_topic(source), _SCAN_UP_TO)
        return self._side

    def checkpoints_of(self, target: ClusterSettings, flow: FlowSettings) -> CheckpointLog:
        """Return the reader of the groups' checkpoints."""
        topic = flow.mm2_topics.checkpoints(flow.source)
        self._checkpoints = self._checkpoints or CheckpointLog(target, topic)
        return self._checkpoints

    def beats_of(self, asking: Asking) -> HeartbeatTail:
        """Return the reader of heartbeats on the target; those from the future do not count."""
        if self._beats is None:
            ahead_ms = round(1000 * asking.settings.watch.clock_margin_seconds)
            self._beats = HeartbeatTail(asking.target_settings, asking.flow, asking.wall, ahead_ms=ahead_ms)
        return self._beats

    def close(self) -> None:
        """Close the connections."""
        if self._beats is not None:
            self._beats.close()
            self._beats = None
