"""The topic on the new primary with what replays have done: one partition, compacted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import raw_headers
from drkit.errors import Refused
from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.creation import ensure_compacted
from drkit.flow_state.names import replay_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.compacted import newest_values
from drkit.kafka.topics import describe_topics
from drkit.model import TopicPartition
from drkit.replay.progress import ReplayBook
from drkit.wire import Record, encode

_UNPACKED: Final = 0


class ReplayLog:
    """Reads the topic, and makes batches for it; others append them, inside their transactions.

    :param target: the new primary, with the identity that administers it
    """

    def __init__(self, target: ClusterSettings, flow: FlowSettings) -> None:
        self._target = target
        self.at = TopicPartition(replay_topic(flow.source, flow.target), 0)
        self._known: Cluster | None = None

    @property
    def where(self) -> str:
        """Topic and cluster, for errors."""
        return f"{self.at.topic} on {self._target.alias}"

    @property
    def cluster(self) -> Cluster:
        """The new primary, connected."""
        self._known = self._known or Cluster.connect(self._target)
        return self._known

    def topic_id(self) -> UUID | None:
        """The topic's id; None: nothing was ever replayed there. Raises DrkitError."""
        found = describe_topics(self.cluster, [self.at.topic]).get(self.at.topic)
        return None if found is None else found.topic_id

    def ensure(self) -> UUID:
        """Create the topic where it is missing; returns its id. Raises DrkitError."""
        return ensure_compacted(self.cluster, self.at.topic).topic_id

    def read(self) -> ReplayBook:
        """Everything that is committed; nothing where there is no such topic.

        :raises Refused: a record is not drkit's, or has no valid MAC
        :raises DrkitError: the topic cannot be read
        """
        found = newest_values(self.cluster, [self.at.topic], verified=True).get(self.at.topic)
        if found is None:
            return ReplayBook()
        evidence = next((f"key {k.decode(errors='replace')}: {why}" for k, why in found.refused.items()), "")
        try:
            if not evidence:
                return ReplayBook.of(found)
        except Malformed as error:
            evidence = str(error)
        raise self.damaged(evidence)

    def damaged(self, evidence: str) -> Refused:
        """The error for a record that does not count."""
        return Refused(
            "the record of what was replayed is damaged",
            where=self.where,
            evidence=evidence,
            hint="find out who writes there besides drkit, and deny it. With the topic deleted a replay"
            " begins again; what it has appended it finds by the header drkit.replayed-from",
        )

    def batch(self, written: Iterable[tuple[bytes, bytes | None]]) -> tuple[bytearray, int]:
        """Records of the topic as one batch without producer fields, and how many they are."""
        now, keys = wall_ms(), self._target.control
        found = [
            Record(n, now, key, value, raw_headers(keys, self.at.topic, key, value))
            for n, (key, value) in enumerate(written)
        ]
        return encode(found, _UNPACKED), len(found)
