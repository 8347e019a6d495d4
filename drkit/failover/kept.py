"""What a process has read of the target's topics: each look reads on from where the last one ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drkit.config import ClusterSettings, FlowSettings
from drkit.failover.checkpoint_log import CheckpointLog
from drkit.flow_state.names import offset_map_topic
from drkit.kafka.raw import RawCluster
from drkit.replicate.lag_target import TargetSide
from drkit.replicate.places import Places

_SCAN_UP_TO: Final = 1_000_000


@dataclass
class Kept:
    """Made when they are asked for first; of one flow."""

    _places: Places | None = None
    _side: TargetSide | None = None
    _checkpoints: CheckpointLog | None = None

    def places_of(self, target: RawCluster, source: str) -> Places:
        """Exact places, by the offset map.

        :param source: alias
        """
        self._places = self._places or Places(target, source)
        return self._places

    def side_of(self, target: RawCluster, source: str) -> TargetSide:
        """How far the copy got.

        :param source: alias
        """
        self._side = self._side or TargetSide(target, offset_map_topic(source), _SCAN_UP_TO)
        return self._side

    def checkpoints_of(self, target: ClusterSettings, flow: FlowSettings) -> CheckpointLog:
        """What groups had committed on the source."""
        topic = flow.mm2_topics.checkpoints(flow.source)
        self._checkpoints = self._checkpoints or CheckpointLog(target, topic)
        return self._checkpoints
