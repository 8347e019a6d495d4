"""The newest value of every key of small compacted topics, such as another replicator's state."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Final

from drkit.control_key import LONGEST_KEY, MOST_REFUSED, REPLAYED, Signatures
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.reading.log_tail import LogTail
from drkit.kafka.topics import describe_topics
from drkit.model import TopicPartition
from drkit.wire import Record

_SECONDS: Final = 20.0
_OPEN: Final = "a record of an open transaction follows it"


class NewestValues(dict[bytes, bytes]):
    """Key → newest value, without deleted keys. Records are taken in the order of the topic.

    :param signatures: verifies records of drkit's own topics, or None to take all records
    """

    def __init__(self, signatures: Signatures | None = None) -> None:
        super().__init__()
        self._signatures = signatures
        self.refused: dict[bytes, str] = {}
        """Keys whose newest record does not count, and why; the record before it counts."""
        self.passed_over: list[str] = []
        """Batches that were not read, and why: they may hide the newest record of any key."""

    def take(self, record: Record) -> None:
        """Take the next record of the topic."""
        if record.key is None:
            return
        signed = self._signatures
        if signed and (why := signed.refused(record.key, record.value, record.headers, record.timestamp)):
            if why != REPLAYED:
                self._refuse(record, why)
            return
        self.refused.pop(record.key, None)
        self.pop(record.key, None)
        if record.value is not None:
            self[record.key] = record.value

    def _refuse(self, record: Record, why: str) -> None:
        """Remember that the newest record of a key does not count."""
        if len(self.refused) < MOST_REFUSED:
            self.refused[(record.key or b"")[:LONGEST_KEY]] = why
        else:
            self.pass_over(record.offset, f"more than {MOST_REFUSED:,} records do not count")

    def pass_over(self, offset: int, why: str) -> None:
        """A batch at an offset was not read."""
        if len(self.passed_over) < MOST_REFUSED:
            self.passed_over.append(f"offset {offset}: {why}")

    def expect(self, records: Iterable[Record]) -> None:
        """Refuse the keys of records in open transactions: their newest value is not decided."""
        for record in records:
            self._refuse(record, _OPEN)


def newest_values(
    cluster: Cluster, topics: Iterable[str], seconds: float = _SECONDS, *, verified: bool = False
) -> dict[str, NewestValues]:
    """Read topics from their start to their current end, over the same connections.

    :param verified: of drkit's own topics, where there is a control key: only records with its MAC count
    :returns: topic → key → newest value, without deleted keys; nothing of a topic that does not exist
    :raises NotAuthorized: drkit's principal may not read one of them
    :raises Failed: they could not be read to their ends in time
    """
    found: dict[str, NewestValues] = {}
    described = describe_topics(cluster, topics)
    if not described:
        return found
    with closing(EventLoop()) as loop, closing(RawCluster(loop, cluster.settings, "reader")) as raw:
        for topic in described.values():
            at = TopicPartition(topic.name, 0)
            signatures = Signatures(cluster.settings.control, at) if verified else None
            values = found[topic.name] = NewestValues(signatures)
            for partition in topic.leaders:
                at = TopicPartition(topic.name, partition)
                tail = LogTail(raw, at, values.take, values.pass_over, signatures=signatures)
                tail.read(seconds)
                values.expect(tail.undecided)
    return found
