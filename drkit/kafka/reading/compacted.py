"""The newest value of every key of small compacted topics, such as another replicator's state."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Final

from drkit.control_key import REPLAYED, Signatures
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
        """Batches that were not read, and why: they may hide the newest record of any key but these."""
        self.since: set[bytes] = set()
        """Keys of records after the last such batch."""

    def take(self, record: Record) -> None:
        """Take the next record of the topic."""
        if record.key is None:
            return
        signed = self._signatures
        if signed and (why := signed.refused(record.key, record.value, record.headers, record.timestamp)):
            if why != REPLAYED:
                self.refused[record.key] = why
            return
        self.since.add(record.key)
        self.refused.pop(record.key, None)
        self.pop(record.key, None)
        if record.value is not None:
            self[record.key] = record.value

    def pass_over(self, offset: int, why: str) -> None:
        """A batch at an offset was not read."""
        self.passed_over.append(f"offset {offset}: {why}")
        self.since.clear()

    def expect(self, records: Iterable[Record]) -> None:
        """Refuse the keys of records in open transactions: their newest value is not decided."""
        for record in filter(self.may_count, records):
            self.refused[record.key or b""] = _OPEN

    def may_count(self, record: Record) -> bool:
        """Return whether a record would count if it were the next one."""
        signed = self._signatures
        return record.key is not None and (
            signed is None or signed.may_count(record.key, record.value, record.headers)
        )


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
            control = cluster.settings.control
            signatures = Signatures(control, topic.name, lambda: cluster.cluster_id) if verified else None
            values = found[topic.name] = NewestValues(signatures)
            for partition in topic.leaders:
                at = TopicPartition(topic.name, partition)
                tail = LogTail(raw, at, values.take, values.pass_over, may_count=values.may_count)
                tail.read(seconds)
                values.expect(tail.undecided)
    return found
