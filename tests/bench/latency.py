"""End-to-end latency: a paced producer on the source and an independent consumer on the target.

Both are processes of their own. Every record carries the moment of its ``produce()`` call (CLOCK_MONOTONIC is
one clock for the whole machine); the consumer reads its own clock when the record is handed to it. So the
figure includes the producer's and the consumer's clients, for both replicators alike.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
import math
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
import struct
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.bench.clocks import Clocks, Sample, foreign_share
from tests.bench.peers.replicator import Running
from tests.bench.process_tree import Memory
from tests.bench.scenarios import PARTITIONS, Pace
from tests.bench.waiting import moments

STAMP: Final = struct.Struct(">q")
FIRST_RECORD_SECONDS: Final = 180.0
MEMORY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in milliseconds over one measured window."""

    records: int
    missing: int
    """Records sent inside the window that the consumer never got."""
    p50: float
    p99: float
    p999: float
    highest: float
    foreign_cpu_share: float
    tree_bytes: int
    worker_bytes: int


def percentile(ordered: Sequence[float], share: float) -> float:
    """Nearest-rank percentile of ascending values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def measure(
    replicator: Running,
    source: str,
    target: str,
    pace: Pace,
    *,
    brokers: Sequence[int],
    warm_up: float,
    window: float,
) -> Latency:
    """Run producer and consumer beside a started replicator; judge only what was sent in the window."""
    spawn = get_context("spawn")
    stop, flowing = spawn.Event(), spawn.Event()
    sent_end, received_end = spawn.Pipe(duplex=False), spawn.Pipe(duplex=False)
    producer = spawn.Process(target=_produce, args=(source, pace, stop, sent_end[1]), daemon=True)
    consumer = spawn.Process(target=consume, args=(target, pace, stop, flowing, received_end[1]), daemon=True)
    producer.start()
    consumer.start()
    try:
        _wait(replicator, flowing, FIRST_RECORD_SECONDS)
        _watch(replicator, warm_up)
        clocks = Clocks(replicator.tree, brokers, [producer.pid or 0, consumer.pid or 0])
        opened = clocks.sample()
        _watch(replicator, window)
        closed = clocks.sample()
        _watch(replicator, 2.0)  # stragglers of the window
    finally:
        stop.set()
    sent, received = collect(sent_end[0]), collect(received_end[0])
    producer.join(10.0)
    consumer.join(10.0)
    return judge(sent, received, opened, closed, replicator.tree.memory)


def judge(sent: array[int], received: array[int], opened: Sample, closed: Sample, memory: Memory) -> Latency:
    """Percentiles over what was sent in [opened, closed); ``received`` pairs sending and receiving times."""
    start, end = opened.at * 1e9, closed.at * 1e9
    wanted = sum(1 for at in sent if start <= at < end)
    pairs = zip(received[::2], received[1::2], strict=True)
    delays = sorted((got - at) / 1e6 for at, got in pairs if start <= at < end)
    if not delays:
        raise TimeoutError("no record of the measured window arrived on the target")
    return Latency(
        records=len(delays),
        missing=wanted - len(delays),
        p50=percentile(delays, 0.50),
        p99=percentile(delays, 0.99),
        p999=percentile(delays, 0.999),
        highest=delays[-1],
        foreign_cpu_share=foreign_share(opened, closed),
        tree_bytes=memory.tree,
        worker_bytes=memory.worker,
    )


def _wait(replicator: Running, event: Event, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not event.wait(0.2):
        replicator.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"no paced record on the target within {seconds:.0f} s")


def _watch(replicator: Running, seconds: float) -> None:
    for _ in moments(seconds, every=MEMORY_SECONDS):
        replicator.check()
        replicator.tree.sample_memory()


def collect(connection: Connection) -> array[int]:
    if not connection.poll(30.0):
        raise TimeoutError("the paced producer or the consumer did not hand over its records")
    values = array("q")
    values.frombytes(connection.recv_bytes())
    return values


def _produce(bootstrap: str, pace: Pace, stop: Event, result: Connection) -> None:
    """Child process: send at an even pace, each record due at its own moment."""
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "acks": "all", "linger.ms": pace.linger_ms}
    producer = Producer(settings)
    padding = bytes(pace.record_bytes - STAMP.size)
    sent, interval = array("q"), 1e9 / pace.per_second
    start = time.monotonic_ns()
    while not stop.is_set():
        now = time.monotonic_ns()
        while start + len(sent) * interval <= now:
            stamp = time.monotonic_ns()
            producer.produce(pace.topic, STAMP.pack(stamp) + padding, partition=len(sent) % PARTITIONS)
            sent.append(stamp)
        producer.poll(0)
        pause = (start + len(sent) * interval - time.monotonic_ns()) / 1e9
        stop.wait(max(pause, 0.001))
    producer.flush(10.0)
    result.send_bytes(sent.tobytes())


def consume(bootstrap: str, pace: Pace, stop: Event, flowing: Event, result: Connection) -> None:
    """Child process: read every partition from its start, note both times of every record."""
    consumer = Consumer(_consumer_settings(bootstrap))
    while not stop.is_set() and pace.topic not in consumer.list_topics(timeout=10.0).topics:
        stop.wait(0.2)
    consumer.assign([TopicPartition(pace.topic, partition, 0) for partition in range(PARTITIONS)])
    pairs = array("q")
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is not None:
            raise KafkaException(message.error())
        value = message.value()
        if value is not None:
            pairs.extend((STAMP.unpack_from(value)[0], time.monotonic_ns()))
            flowing.set()
    consumer.close()
    result.send_bytes(pairs.tobytes())


def _consumer_settings(bootstrap: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "log_level": 0,  # brokers come and go here, the tables say what failed
        "group.id": "bench-latency",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "fetch.min.bytes": 1,
        "topic.metadata.refresh.interval.ms": 5_000,
    }
