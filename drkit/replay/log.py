"""The topic on the new primary with what replays have done: one partition, compacted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from drkit.clock import monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import Signatures
from drkit.errors import Refused
from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.creation import ensure_compacted
from drkit.flow_state.names import replay_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.compacted import NewestValues
from drkit.kafka.reading.log_tail import LogRestarted, LogTail
from drkit.kafka.topics import describe_topics
from drkit.model import TopicPartition
from drkit.replay.progress import ReplayBook, ReplayProgress
from drkit.replay.side import DECIDED_SECONDS, MISSING, PAUSE_SECONDS, ActiveSide, no_topic
from drkit.wire import Record, encode

_UNPACKED: Final = 0


class ReplayLog:
    """Reads the topic, and makes batches for it; others append them, inside their transactions.

    :param target: the new primary, with the identity that administers it
    """

    def __init__(self, target: ClusterSettings, flow: FlowSettings) -> None:
        self._target = target
        self.at = TopicPartition(replay_topic(flow.source, flow.target), 0)
        self.id = MISSING
        """Of the topic, once it was found; :data:`MISSING` where nothing was ever replayed."""
        self._known: Cluster | None = None
        self._signatures = Signatures(target.control, self.at)

    @property
    def where(self) -> str:
        """Topic and cluster, for errors."""
        return f"{self.at.topic} on {self._target.alias}"

    @property
    def cluster(self) -> Cluster:
        """The new primary, connected."""
        self._known = self._known or Cluster.connect(self._target)
        return self._known

    def find(self) -> bool:
        """Return whether the topic exists. Raises DrkitError."""
        topic = describe_topics(self.cluster, [self.at.topic]).get(self.at.topic)
        self.id = MISSING if topic is None else topic.topic_id
        return topic is not None

    def ensure(self) -> None:
        """Create the topic if it is missing. Raises DrkitError."""
        self.id = ensure_compacted(self.cluster, self.at.topic).topic_id

    async def read(self, side: ActiveSide, *, decided: bool) -> ReplayBook:
        """Return everything that is committed.

        :param decided: wait until no transaction hides a record of drkit's
        :raises Refused: a record is not drkit's, or has no valid MAC; a transaction stays open
        :raises DrkitError: the topic cannot be read
        """
        if self.id == MISSING:
            return ReplayBook()
        cluster, deadline = side.cluster, monotonic() + DECIDED_SECONDS
        signatures = Signatures(self._target.control, self.at)
        newest = NewestValues(signatures)
        tail = LogTail(cluster, self.at, newest.take, newest.pass_over, signatures=signatures)
        tail.topic_id = self.id
        try:
            end = (await tail.patiently(cluster, tail.to_end, DECIDED_SECONDS)).replicated
            # Other replays write all the time: transactions that begin later are not waited for.
            while decided and (hidden := [r.offset for r in tail.undecided if r.offset < end]):
                if monotonic() > deadline:
                    evidence = f"the one at offset {hidden[0]}, for {DECIDED_SECONDS:.0f} s"
                    raise Refused("replay_open_transaction", where=self.where, evidence=evidence)
                await cluster.loop.sleep(PAUSE_SECONDS)
                await tail.patiently(cluster, tail.to_end, DECIDED_SECONDS)
        except LogRestarted as error:
            raise no_topic(self.at.topic, side.alias, error.evidence) from error
        self._signatures = signatures
        if newest.passed_over:
            raise self.damaged(newest.passed_over[0])
        if newest.refused:
            key, reason = next(iter(newest.refused.items()))
            raise self.damaged(f"key {key.decode(errors='replace')}: {reason}")
        book = self._book(newest)
        hidden_by = tail.undecided_of.items()
        book.hidden = {i: {r.key: r.value for r in kept if r.key and r.value} for i, kept in hidden_by}
        return book

    def _book(self, values: Mapping[bytes, bytes]) -> ReplayBook:
        try:
            return ReplayBook.of(values)
        except Malformed as error:
            raise self.damaged(str(error)) from error

    def hidden(self, book: ReplayBook, producer_id: int) -> dict[bytes, ReplayProgress]:
        """Return the progress that a producer's open transaction adds. Raises Refused if it is damaged."""
        return self._book(book.hidden.get(producer_id, {})).progress

    def damaged(self, evidence: str) -> Refused:
        """Return the error for a record that does not count."""
        return Refused("replay_record_damaged", where=self.where, evidence=evidence)

    def batch(self, written: Iterable[tuple[bytes, bytes | None]]) -> tuple[bytearray, int]:
        """Return records of the topic as one batch without producer fields, and their number."""
        now = wall_ms()
        records = [
            Record(n, now, key, value, self._signatures.headers(key, value))
            for n, (key, value) in enumerate(written)
        ]
        return encode(records, _UNPACKED), len(records)
