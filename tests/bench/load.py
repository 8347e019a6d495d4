"""Fills source topics as fast as a librdkafka producer can, once per scenario."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
import random
import threading
import time
from typing import Any, Final

from confluent_kafka import Producer

from tests.bench.scenarios import PARTITIONS, Scenario

CHUNK: Final = 5_000
"""Records that follow one another in one partition."""

QUEUED: Final = 400_000
WRITERS: Final = 4
"""Transactional producers at once: each mostly waits for the coordinator."""

POOL: Final = 2_048


def payloads(size: int) -> list[bytes]:
    """Values that compress to about half, like JSON events: half fixed words, half random digits."""
    source = random.Random(size)
    words = b'{"customer":"","order":"","amount":"","currency":"EUR","state":"created"}'
    values = []
    for _ in range(POOL):
        text = bytearray()
        while len(text) < size:
            text += source.choice(words.split(b",")) + b"%x" % source.getrandbits(48)
        values.append(bytes(text[:size]))
    return values


def fill(bootstrap: str, scenario: Scenario, records: int) -> int:
    """Write ``records`` records of a scenario; return how many of them a read-committed reader sees."""
    if scenario.transaction_records is None:
        _fill_plain(bootstrap, scenario, records)
        return records
    return _fill_transactional(bootstrap, scenario, records, scenario.transaction_records)


def _settings(bootstrap: str, scenario: Scenario) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,  # brokers come and go here, the tables say what failed
        "acks": "all",
        "compression.type": scenario.codec,
        "queue.buffering.max.messages": 2 * QUEUED,
        "queue.buffering.max.kbytes": 1_000_000,
    }
    if scenario.batch_records is not None:
        settings |= {"batch.num.messages": scenario.batch_records}
    return settings


def _fill_plain(bootstrap: str, scenario: Scenario, records: int) -> None:
    # A broker answers a connection's requests one by one: tiny batches need several connections.
    writers = 1 if scenario.batch_records is None else WRITERS
    first_ms = int(time.time() * 1000) - scenario.age_ms
    chunks = range(0, records, CHUNK)
    with ThreadPoolExecutor(writers) as pool:
        for done in [
            pool.submit(_write_chunks, bootstrap, scenario, chunks[writer::writers], records, first_ms)
            for writer in range(writers)
        ]:
            done.result()


def _write_chunks(
    bootstrap: str, scenario: Scenario, starts: Iterable[int], records: int, first_ms: int
) -> None:
    producer = Producer(_settings(bootstrap, scenario))
    values = payloads(scenario.record_bytes)
    for start in starts:
        partition = start // CHUNK % PARTITIONS
        for index in range(start, min(start + CHUNK, records)):
            producer.produce(
                scenario.topic, values[index % POOL], partition=partition, timestamp=first_ms + index // 100
            )
        while len(producer) > QUEUED:
            producer.poll(0.01)
    _flush(producer)


def _fill_transactional(bootstrap: str, scenario: Scenario, records: int, size: int) -> int:
    transactions = range(records // size)
    with ThreadPoolExecutor(WRITERS) as pool:
        shares = [transactions[writer::WRITERS] for writer in range(WRITERS)]
        counts = pool.map(lambda job: _write_share(bootstrap, scenario, size, *job), enumerate(shares))
        return sum(counts)


def _write_share(bootstrap: str, scenario: Scenario, size: int, writer: int, share: Iterable[int]) -> int:
    """One transactional producer writes its share of the transactions; return the records it committed."""
    producer = Producer(
        _settings(bootstrap, scenario) | {"transactional.id": f"bench-{scenario.key}-{writer}"}
    )
    producer.init_transactions(60.0)
    values = payloads(scenario.record_bytes)
    committed = 0
    for transaction in share:
        producer.begin_transaction()
        for index in range(size):
            value = values[(transaction * size + index) % POOL]
            producer.produce(scenario.topic, value, partition=index % PARTITIONS)
        _flush(producer)  # also before an abort: librdkafka would drop what it has not sent yet
        if transaction % 10 < scenario.aborted_in_ten:
            producer.abort_transaction(60.0)
        else:
            producer.commit_transaction(60.0)
            committed += size
    return committed


def _flush(producer: Producer) -> None:
    left = producer.flush(300.0)
    if left:
        raise RuntimeError(f"{left} messages were not delivered within 300 s")


@contextmanager
def steady(bootstrap: str, topic: str, per_second: int) -> Iterator[None]:
    """Write small records into a topic until the end, from a thread."""
    ended = threading.Event()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})

    def run() -> None:
        while not ended.wait(0.01):
            for _ in range(per_second // 100):
                producer.produce(topic, b"x" * 200)
            producer.poll(0)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.flush(10)
