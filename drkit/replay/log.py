"""The topic on the new primary with what replays have done: one partition, compacted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import Signatures
from drkit.errors import Refused
from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.creation import ensure_compacted
from drkit.flow_state.names import replay_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.compacted import NewestValues
from drkit.kafka.topics import describe_topics
from drkit.model import TopicPartition
from drkit.replay.progress import ReplayBook
from drkit.replay.side import ActiveSide
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
        self._signatures = self._sign()

    def _sign(self) -> Signatures:
        return Signatures(self._target.control, self.at.topic, lambda: self.cluster.cluster_id)

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

    async def read(self, side: ActiveSide, topic_id: UUID, *, decided: bool) -> ReplayBook:
        """Everything that is committed.

        :param decided: wait until no transaction hides a later record
        :raises Refused: a record is not drkit's, or has no valid MAC; a transaction stays open
        :raises DrkitError: the topic cannot be read
        """
        if decided:
            end = await side.decided_end(self.at, topic_id)
        else:
            end = await side.end(self.at, topic_id, committed=True)
        self._signatures = self._sign()
        newest = NewestValues(self._signatures)
        await side.read(self.at, topic_id, (await side.start(self.at, topic_id), end), newest.take)
        if newest.refused:
            key, why = next(iter(newest.refused.items()))
            raise self.damaged(f"key {key.decode(errors='replace')}: {why}")
        try:
            return ReplayBook.of(newest)
        except Malformed as error:
            raise self.damaged(str(error)) from error

    def damaged(self, evidence: str) -> Refused:
        """The error for a record that does not count."""
        return Refused("replay_record_damaged", where=self.where, evidence=evidence)

    def batch(self, written: Iterable[tuple[bytes, bytes | None]]) -> tuple[bytearray, int]:
        """Records of the topic as one batch without producer fields, and how many they are."""
        now = wall_ms()
        found = [
            Record(n, now, key, value, self._signatures.headers(key, value))
            for n, (key, value) in enumerate(written)
        ]
        return encode(found, _UNPACKED), len(found)
