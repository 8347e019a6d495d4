"""Writing to the source: plain, in transactions, with any timestamps, and as a continuous load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import itertools
import random
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from drkit.config import ClusterSettings
from drkit.kafka.clients import confluent_config
from tests.support.flows.beside import SideJobs

Header = tuple[str, bytes | None]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def aged(age_ms: int) -> Callable[[int], int]:
    """Timestamps of `age_ms` ago."""
    return lambda _: now_ms() - age_ms


def producer(cluster: ClusterSettings, **more: Any) -> Producer:
    """A producer that loses nothing while brokers come and go; Kafka's names with underscores."""
    return Producer(
        {
            **confluent_config(cluster),
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 200_000,
            "message.timeout.ms": 120_000,
            "transaction.timeout.ms": 120_000,
            "log_level": 0,
            **{k.replace("_", "."): v for k, v in more.items()},
        }
    )


def wait_for_markers(cluster: ClusterSettings, transactional_id: str) -> None:
    """A commit is answered before its markers are written; the next InitProducerId waits for them."""
    producer(cluster, transactional_id=transactional_id).init_transactions(60)


def put(out: Producer, topic: str, value: bytes | None, key: bytes | None = None, **more: Any) -> None:
    """Produce one record, waiting for room."""
    while True:
        try:
            out.produce(topic, value, key, **more)
            break
        except BufferError:
            out.poll(0.05)
    out.poll(0)


def answers(cluster: ClusterSettings, topic: str, values: Sequence[bytes]) -> list[str | None]:
    """Return the error's name for each record of an ordinary producer to partition 0; values all differ.

    The error itself must not be compared with None: confluent-kafka then makes a later statement fail.
    """
    heard: dict[bytes | None, str | None] = {}
    out = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})

    def hear(error: KafkaError | None, message: Message) -> None:
        heard[message.value()] = None if error is None else error.name()

    for value in values:
        out.produce(topic, value, partition=0, on_delivery=hear)
    assert out.flush(30) == 0
    return [heard[value] for value in values]


def text(i: int, size: int = 40) -> bytes:
    """A value that compresses somewhat and tells its number."""
    return b"%09d " % i + (b"abcdefghij%d" % (i % 97)) * (size // 12)


def fill(
    cluster: ClusterSettings,
    topic: str,
    count: int,
    *,
    first: int = 0,
    size: int = 40,
    timestamp: Callable[[int], int] | None = None,
    flush_every: int = 0,
    **more: Any,
) -> None:
    """Plain records with keys; every seventh with headers, every eleventh without a value."""
    out = producer(cluster, **more)
    for i in range(first, first + count):
        extra: dict[str, Any] = {"timestamp": timestamp(i)} if timestamp else {}
        if i % 7 == 0:
            extra["headers"] = [("h", b"%d" % i), ("none", None)]
        put(out, topic, None if i % 11 == 0 else text(i, size), b"k%d" % i, **extra)
        if flush_every and i % flush_every == 0:
            out.flush()
    assert out.flush(60) == 0


def fill_transactions(
    cluster: ClusterSettings,
    topics: Sequence[str],
    count: int,
    *,
    aborts: float = 0.3,
    most: int = 300,
    seed: int = 1,
    timestamp: Callable[[int], int] | None = None,
    **more: Any,
) -> int:
    """Records in transactions of random sizes, some of them aborted; returns how many were aborted."""
    chance = random.Random(seed)
    out = producer(cluster, transactional_id=f"tx-{topics[0]}-{seed}", **more)
    out.init_transactions(30)
    i = aborted = 0
    while i < count:
        out.begin_transaction()
        size = chance.randint(1, most)
        for _ in range(size):
            extra = {"timestamp": timestamp(i)} if timestamp else {}
            put(out, chance.choice(topics), text(i), b"k%d" % i, **extra)
            i += 1
        if chance.random() < aborts:
            out.flush(30)  # so that the aborted records are really in the log
            out.abort_transaction(30)
            aborted += size
        else:
            out.commit_transaction(30)
    wait_for_markers(cluster, f"tx-{topics[0]}-{seed}")
    return aborted


class Load(SideJobs):
    """A load in a thread: plain records and transactions side by side, until stopped."""

    def __init__(
        self,
        cluster: ClusterSettings,
        topics: Sequence[str],
        *,
        per_second: int = 4000,
        transactions: bool = True,
        timestamp: Callable[[int], int] | None = None,
    ) -> None:
        super().__init__()
        self._cluster, self._topics, self._rate = cluster, topics, per_second
        self._transactions, self._timestamp = transactions, timestamp
        self.count = 0

    def _run(self) -> None:
        plain = producer(self._cluster, compression_type="lz4")
        atomic = self._transactional() if self._transactions else None
        chance = random.Random(7)
        for i in itertools.cycle(range(10)):
            ends = time.monotonic() + 0.1
            number = self._rate // 10
            if i % 2 and atomic is not None:
                try:
                    self._transaction(atomic, number, chance)
                except KafkaException:
                    # A broker that goes away may end a client's transaction; its successor aborts the rest.
                    atomic = self._transactional()
            else:
                self._some(plain, number, chance)
            if self._stop.wait(max(0.0, ends - time.monotonic())):
                break
        assert plain.flush(120) == 0
        if atomic is not None:
            wait_for_markers(self._cluster, f"load-{self._topics[0]}")

    def _transactional(self) -> Producer:
        out = producer(self._cluster, transactional_id=f"load-{self._topics[0]}", compression_type="zstd")
        out.init_transactions(60)
        return out

    def _transaction(self, out: Producer, number: int, chance: random.Random) -> None:
        out.begin_transaction()
        self._some(out, number, chance)
        out.flush(60)  # an abort before the broker knows the partitions is fatal in librdkafka
        (out.abort_transaction if chance.random() < 0.3 else out.commit_transaction)(60)

    def _some(self, out: Producer, number: int, chance: random.Random) -> None:
        for _ in range(number):
            extra = {"timestamp": self._timestamp(self.count)} if self._timestamp else {}
            put(out, chance.choice(self._topics), text(self.count), b"k%d" % self.count, **extra)
            self.count += 1
