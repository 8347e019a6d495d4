"""A load that records every acknowledgement, and what must hold of it after a failover."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
import threading
from typing import Any, NamedTuple, Self

from confluent_kafka import KafkaError, Message, Producer

from drkit.config import ClusterSettings
from drkit.model import TopicPartition
from tests.support.flows.compare import Seen

_TICK_SECONDS = 0.02


class Acked(NamedTuple):
    """A record that its cluster acknowledged."""

    partition: int
    offset: int
    value: bytes


class Load:
    """Writes unique values until stopped, and remembers which were acknowledged and which refused.

    :param first: the number before that of the first value
    :param timeout_seconds: of each record: after it librdkafka begins a new producer epoch, and may repeat
        what the broker has: longer than a broker is away, if no record may be repeated
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        topics: Sequence[str],
        *,
        per_second: int = 1500,
        first: int = 0,
        timeout_seconds: int = 5,
    ) -> None:
        self._topics, self._each = topics, max(1, int(per_second * _TICK_SECONDS))
        self._stop = threading.Event()
        self.acked: dict[str, list[Acked]] = {t: [] for t in topics}
        self.refused: list[KafkaError] = []
        self._number, self._timeout_seconds = first, timeout_seconds
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                # The load itself duplicates nothing, so every duplicate is drkit's.
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": timeout_seconds * 1000,
                "socket.timeout.ms": 3000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        self._producer.flush(2 * self._timeout_seconds)

    @property
    def count(self) -> int:
        """How many were acknowledged so far."""
        return sum(map(len, self.acked.values()))

    def _run(self) -> None:
        while not self._stop.wait(_TICK_SECONDS):
            for topic in self._topics:
                for _ in range(self._each):
                    self._number += 1
                    try:
                        value = b"%s %d" % (topic.encode(), self._number)
                        self._producer.produce(
                            topic, value, b"k%d" % (self._number % 97), on_delivery=self._heard
                        )
                    except BufferError:
                        break
            self._producer.poll(0)

    def _heard(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(error)
            return
        topic, value, partition, offset = (
            message.topic(),
            message.value(),
            message.partition(),
            message.offset(),
        )
        assert topic is not None
        assert isinstance(value, bytes)
        assert partition is not None
        assert offset is not None
        self.acked[topic].append(Acked(partition, offset, value))


def values(records: Sequence[Seen]) -> list[bytes]:
    """The values alone."""
    return [s.value or b"" for s in records]


def check_order(theirs: Mapping[int, Sequence[Seen]], ours: Mapping[int, Sequence[Seen]], topic: str) -> None:
    """I3, I4: the target has a beginning of each source partition, in its order, each record once."""
    for p, records in ours.items():
        assert values(records) == values(theirs[p])[: len(records)], f"{topic}-{p}"


def check_loss(
    lost: Sequence[Mapping[str, Any]],
    theirs: Mapping[int, Sequence[Seen]],
    ours: Mapping[int, Sequence[Seen]],
    acked: Sequence[Acked],
    topic: str,
) -> int:
    """I1, I2: what is stated as lost is what is missing, record by record; returns how many that are."""
    stated = {p["partition"]: p for p in lost if p["topic"] == topic}
    assert stated.keys() == theirs.keys()
    missing = 0
    for p, records in theirs.items():
        there = set(values(ours[p]))
        gone = {s.offset for s in records if s.value not in there}
        assert gone == {s.offset for s in records if s.offset >= stated[p]["lost_from"]}, f"{topic}-{p}"
        # Of a silent source only what was seen there can be counted: never more than is really missing.
        if stated[p]["records"] is not None:
            assert stated[p]["records"] <= len(gone), f"{topic}-{p}: {stated[p]}, {sorted(gone)}"
        missing += len(gone)
        for record in acked:
            if record.partition == p:
                assert record.value in there or record.offset in gone, f"{topic}-{p}: {record}"
    return missing


def check_position(
    at: TopicPartition, upstream: int, downstream: int, theirs: Sequence[Seen], ours: Sequence[Seen]
) -> list[bytes]:
    """I5, I6, I8: what a group reads next is what it had not read, as far as it was copied; returns that."""
    first = bisect_left([s.offset for s in ours], downstream)
    before, after = values(ours[:first]), values(ours[first:])
    read = {s.value for s in theirs if s.offset < upstream}
    assert not [v for v in after if v in read], f"{at}: read twice"
    assert not [v for v in before if v not in read], f"{at}: skipped"
    return after
