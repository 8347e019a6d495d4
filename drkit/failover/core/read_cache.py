"""Readers of the target's topics that keep their position between reads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from drkit.config import ClusterSettings, FlowSettings
from drkit.flow_state.lease.watch import LeaseWatch
from drkit.flow_state.names import offset_map_topic
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.journal.topic import JournalReader
from drkit.kafka.raw import RawCluster
from drkit.mm2_topics.checkpoint_topic import CheckpointTail
from drkit.offset_map.places import PositionReader
from drkit.status.heartbeat_tail import HeartbeatTail
from drkit.status.lag.target import CopyLocator

_SCAN_UP_TO: Final = 1_000_000


@dataclass
class ReadCache:
    """The readers of one flow, each created on first use."""

    _places: PositionReader | None = None
    _side: CopyLocator | None = None
    _checkpoints: CheckpointTail | None = None
    _fences: dict[str, FenceTopic] = field(default_factory=dict)
    lease: LeaseWatch = field(default_factory=LeaseWatch)
    until_end: ExitStack = field(default_factory=ExitStack)
    """Clients to close when the run ends: closing one takes time in which neither side takes writes."""
    reverse: StateTopic | None = None
    """The state of the reverse flow, or None before it was read, and if that flow never ran."""
    journals: dict[RawCluster, JournalReader] = field(default_factory=dict)
    """The readers of the opposite flow's journal, by connection."""
    elsewhere: Sequence[tuple[FlowSettings, FlowState]] | None = None
    """The other flows of the source with their states, as they were read last, or None before."""
    beats: HeartbeatTail | None = None
    """The reader of heartbeats on the target."""
    quiet: tuple[float, int] | None = None
    """When replication last made no progress while the source was silent, and the number of heartbeats that
    had arrived by then."""

    def places_of(self, target: RawCluster, source: str) -> PositionReader:
        """Return the reader of exact positions, by the offset map. `source`: alias."""
        self._places = self._places or PositionReader(target, source)
        return self._places

    def side_of(self, target: RawCluster, source: str) -> CopyLocator:
        """Return the reader of the copy's progress. `source`: alias."""
        self._side = self._side or CopyLocator(target, offset_map_topic(source), _SCAN_UP_TO)
        return self._side

    def checkpoints_of(self, target: ClusterSettings, flow: FlowSettings) -> CheckpointTail:
        """Return the reader of the groups' checkpoints."""
        topic = flow.mm2_topics.checkpoints(flow.source)
        self._checkpoints = self._checkpoints or CheckpointTail(target, topic)
        return self._checkpoints

    def fences_of(self, source: ClusterSettings, flow: FlowSettings) -> FenceTopic:
        """Return the record of a flow's fences on its source."""
        self._fences[flow.name] = self._fences.get(flow.name) or FenceTopic(source, flow)
        return self._fences[flow.name]

    def close(self) -> None:
        """Close the connections."""
        self.until_end.close()
        self.reverse = None
        if self.beats is not None:
            self.beats.close()
            self.beats = None
        if self._checkpoints is not None:
            self._checkpoints.close()
        for fences in self._fences.values():
            fences.close()
