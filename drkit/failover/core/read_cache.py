"""Readers of the target's topics that keep their position between reads."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

from drkit.clock import Millis
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.flow_state.lease.watch import LeaseWatch
from drkit.flow_state.names import offset_map_topic
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.flow_state.topic import StateTopic
from drkit.kafka.raw import RawCluster
from drkit.kafka.reading.log_tail import LARGE_BYTES, LogTail
from drkit.kafka.requests import TopicMetadata
from drkit.model import TopicPartition
from drkit.offset_map.places import PositionReader
from drkit.offsets.mm2_records import Checkpoint, group_of, is_checkpoint, latest
from drkit.status.heartbeat_tail import HeartbeatTail
from drkit.status.lag.target import CopyLocator
from drkit.wire import Record

_SECONDS: Final = 30.0


class CheckpointLog:
    """Keeps the newest readable record of every key.

    :param topic: ``<source>.checkpoints.internal``, of MirrorMaker 2's format (KIP-382)
    """

    def __init__(self, target: ClusterSettings, topic: str) -> None:
        self._target, self._at = target, TopicPartition(topic, 0)
        self._id: UUID | None = None
        self._values: dict[bytes, bytes] = {}
        self._gone: set[bytes] = set()
        self._tail = LogTail(target, self._at, self._take, unpacked_bytes=LARGE_BYTES)

    @property
    def gone(self) -> set[str]:
        """Groups whose checkpoints were all taken back: they were deleted on the source."""
        return {str(group_of(key)) for key in self._gone} - {str(group_of(key)) for key in self._values}

    @property
    def name(self) -> str:
        """Name of the topic."""
        return self._at.topic

    def read(self, topic: TopicMetadata, groups: Collection[str] | None = None) -> list[Checkpoint]:
        """Return the newest checkpoints; empty if the topic does not exist.

        :param topic: the target's current metadata of the topic
        :param groups: only checkpoints of these groups; None: of all groups
        :raises DrkitError: the checkpoints cannot be read
        """
        now = topic.topic_id if topic.leaders else None
        if now != self._id:
            self._tail.close()
            self._id, self._values, self._gone = now, {}, set()
            self._tail = LogTail(self._target, self._at, self._take, unpacked_bytes=LARGE_BYTES)
        if now is not None:
            try:
                self._tail.read(_SECONDS)
            finally:
                self._tail.close()
        wanted = None if groups is None else set(groups)
        mine = ((k, v) for k, v in self._values.items() if wanted is None or group_of(k) in wanted)
        return list(latest(mine, Checkpoint.decode).values())

    def _take(self, record: Record) -> None:
        if record.key is None:
            return
        if not record.value:
            self._values.pop(record.key, None)
            self._gone.add(record.key)
        elif is_checkpoint(record.value):
            self._values[record.key] = record.value
            self._gone.discard(record.key)


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
    _fences: FenceTopic | None = None
    lease: LeaseWatch = field(default_factory=LeaseWatch)
    until_end: ExitStack = field(default_factory=ExitStack)
    """What is closed when the run ends: closing a client takes a moment in which nothing takes writes."""
    _reverse: StateTopic | None = None
    quiet: tuple[float, int] | None = None
    """When replication last made no progress while the source was silent, and the number of heartbeats that
    had arrived by then."""

    def places_of(self, target: RawCluster, source: str) -> PositionReader:
        """Return the reader of exact positions by the offset map of a source alias."""
        self._places = self._places or PositionReader(target, source)
        return self._places

    def side_of(self, target: RawCluster, source: str) -> CopyLocator:
        """Return the reader of the copy's progress of a source alias."""
        self._side = self._side or CopyLocator(target, offset_map_topic(source), _SCAN_UP_TO)
        return self._side

    def checkpoints_of(self, target: ClusterSettings, flow: FlowSettings) -> CheckpointLog:
        """Return the reader of the groups' checkpoints."""
        topic = flow.mm2_topics.checkpoints(flow.source)
        self._checkpoints = self._checkpoints or CheckpointLog(target, topic)
        return self._checkpoints

    def reverse_of(
        self, opened: Callable[[], AbstractContextManager[StateTopic | None]]
    ) -> StateTopic | None:
        """Return the state of the reverse flow, loaded when it was `opened`; None: it never ran."""
        if self._reverse is None:
            self._reverse = self.until_end.enter_context(opened())
        return self._reverse

    def fences_of(self, source: ClusterSettings, flow: FlowSettings) -> FenceTopic:
        """Return the record of the flow's fences on its source."""
        self._fences = self._fences or FenceTopic(source, flow)
        return self._fences

    def beats_of(self, asking: Asking) -> HeartbeatTail:
        """Return the reader of heartbeats on the target; those from the future do not count."""
        if self._beats is None:
            ahead_ms = round(1000 * asking.settings.watch.clock_margin_seconds)
            self._beats = HeartbeatTail(asking.target_settings, asking.flow, asking.wall, ahead_ms=ahead_ms)
        return self._beats

    def close(self) -> None:
        """Close the connections."""
        self.until_end.close()
        self._reverse = None
        if self._beats is not None:
            self._beats.close()
            self._beats = None
        if self._fences is not None:
            self._fences.close()
            self._fences = None
