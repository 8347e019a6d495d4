"""Batches of real producers and real brokers: what is copied must be what a consumer reads."""

from __future__ import annotations

from collections.abc import Callable
import random
import time
from typing import Any

from confluent_kafka import Producer
import pytest

from drkit.wire import Drop, DropReason, How, OffsetRun, split
from drkit.wire.codecs import CODEC_NAMES
from tests.support.wire.forge import batch, copied, plain_record
from tests.support.wire.partition import (
    EVERY_WAY,
    FORWARD,
    MERGE,
    PASSIVE,
    Broker,
    Partition,
    producer,
)


def write(to: Producer, topic: str, rows: int, rng: random.Random, tag: str = "") -> None:
    """Records of every shape: without key, without value, with headers, small and large, old and new."""
    shapes: tuple[list[tuple[str, str | bytes | None]] | None, ...] = (
        None,
        [("tag", tag.encode()), ("none", None), ("tag", b"")],
    )
    for number in range(rows):
        to.produce(
            topic,
            key=rng.choice((None, b"", b"key-%d" % rng.randrange(5))),
            value=rng.choice(
                (None, b"", b"%d " % number + rng.randbytes(30), b"v" * rng.choice((200, 3000)))
            ),
            headers=rng.choice(shapes),
            timestamp=1_700_000_000_000 + rng.randrange(-3000, 30_000),
        )


def copy_and_compare(partition: Partition, copy: Partition, **knobs: Any) -> list[How]:
    """Copy everything that is committed; returns how the batches travelled."""
    expected = partition.consume()
    done = list(partition.transformed(**knobs))
    assert [record for part in done for record in copied(part)] == expected
    chunks = [chunk for part in done for chunk in part.chunks]
    copy.append_all(chunks)
    assert copy.consume(create_times=True) == [row._replace(offset=n) for n, row in enumerate(expected)]
    return [chunk.how for chunk in chunks]


@pytest.fixture(scope="module", params=CODEC_NAMES)
def of_librdkafka(broker: Broker, request: pytest.FixtureRequest) -> Partition:
    """One-record and larger batches, with each codec."""
    partition = broker.create(f"librdkafka-{request.param}-{time.time_ns()}", **PASSIVE)
    for linger in (0, 50):
        to = producer(broker, compression_type=request.param, linger_ms=linger, batch_size=20_000)
        write(to, partition.topic, 120, random.Random(request.param + str(linger)))
        to.flush()
    return partition


@pytest.mark.wide
@EVERY_WAY
def test_batches_of_librdkafka(
    of_librdkafka: Partition, topic: Callable[..., Partition], knobs: dict[str, Any]
) -> None:
    hows = copy_and_compare(of_librdkafka, topic(**PASSIVE), **knobs)
    assert set(hows) == {How.FORWARDED} or knobs is not FORWARD


@pytest.fixture(scope="module", params=CODEC_NAMES[1:])
def packed_in_java(broker: Broker, request: pytest.FixtureRequest) -> Partition:
    """The broker recompresses with the classes of the Java client: xerial snappy, zstd without a size."""
    config = {"compression.type": request.param}
    partition = broker.create(f"java-{request.param}-{time.time_ns()}", **config, **PASSIVE)
    to = producer(broker)
    write(to, partition.topic, 300, random.Random(request.param))
    to.flush()
    headers = [header for header, _ in split(partition.fetch(0).records)]
    assert {CODEC_NAMES[header.codec] for header in headers} == {request.param}
    return partition


@pytest.mark.wide
@EVERY_WAY
def test_batches_packed_in_java(
    packed_in_java: Partition, topic: Callable[..., Partition], knobs: dict[str, Any]
) -> None:
    copy_and_compare(packed_in_java, topic(**PASSIVE), **knobs)


@pytest.fixture(scope="module", params=["none", "lz4"])
def log_append_time(broker: Broker, request: pytest.FixtureRequest) -> Partition:
    config = {"message.timestamp.type": "LogAppendTime"}
    partition = broker.create(f"log-append-time-{request.param}-{time.time_ns()}", **config)
    to = producer(broker, compression_type=request.param)
    for part in range(3):
        write(to, partition.topic, 30, random.Random(part))
        to.flush()
    assert all(header.is_log_append_time for header, _ in split(partition.fetch(0).records))
    return partition


@pytest.mark.wide
@EVERY_WAY
def test_log_append_time(
    log_append_time: Partition, topic: Callable[..., Partition], knobs: dict[str, Any]
) -> None:
    hows = copy_and_compare(log_append_time, topic(**PASSIVE), **knobs)
    assert set(hows) <= {How.REBUILT, How.MERGED}


@pytest.fixture(scope="module")
def transactions(broker: Broker) -> Partition:
    """Two transactional producers and a plain one, interleaved; a third of the transactions aborted."""
    name = f"transactions-{time.time_ns()}"
    partition = broker.create(name, **PASSIVE)
    rng = random.Random(3)
    pair = [producer(broker, transactional_id=f"{name}-{n}", linger_ms=0) for n in range(2)]
    plain = producer(broker, compression_type="zstd", linger_ms=0)
    for each in pair:
        each.init_transactions()
    for turn in range(8):
        for each in pair:
            each.begin_transaction()
        for _ in range(2):
            for number, each in enumerate(pair):
                write(each, name, 6, rng, f"{turn}/{number}")
                each.flush()
            write(plain, name, 3, rng, "plain")
            plain.flush()
        for number, each in enumerate(pair):
            if (turn + number) % 3 == 0:
                each.abort_transaction()
            else:
                each.commit_transaction()
    return partition


@pytest.mark.wide
@EVERY_WAY
def test_transactions_with_aborts(
    transactions: Partition, topic: Callable[..., Partition], knobs: dict[str, Any]
) -> None:
    copy_and_compare(transactions, topic(**PASSIVE), **knobs)
    reasons = {drop.reason for part in transactions.transformed(**knobs) for drop in part.drops}
    assert reasons == {DropReason.CONTROL, DropReason.ABORTED}


@pytest.mark.wide
@EVERY_WAY
def test_a_start_in_the_middle_of_transactions(transactions: Partition, knobs: dict[str, Any]) -> None:
    everything = transactions.consume()
    for start in range(0, transactions.fetch(0).end, 7):
        found = [row for part in transactions.transformed(start, **knobs) for row in copied(part)]
        assert found == [row for row in everything if row.offset >= start]


@pytest.mark.wide
@EVERY_WAY
def test_any_slice_and_a_moved_log_start(
    broker: Broker, topic: Callable[..., Partition], knobs: dict[str, Any]
) -> None:
    partition = topic(**PASSIVE)
    to = producer(broker, compression_type="lz4")
    for part in range(3):
        write(to, partition.topic, 20, random.Random(part))
        to.flush()
    everything = partition.consume()
    for start, end in ((0, 60), (7, 33), (19, 20), (20, 21), (59, 60), (13, 13)):
        parts = partition.transformed(start, end=end, **knobs)
        found = [row for part in parts for row in copied(part)]
        assert found == [row for row in everything if start <= row.offset < end]
    broker.delete_before(partition.topic, 33)
    found = [row for part in partition.transformed(33, **knobs) for row in copied(part)]
    assert found == everything[33:] == partition.consume(33)


@pytest.mark.wide
def test_records_of_the_opposite_flow_are_known_by_their_producer(
    broker: Broker, topic: Callable[..., Partition]
) -> None:
    there, back = topic(**PASSIVE), topic("-back", **PASSIVE)
    to = producer(broker)
    write(to, there.topic, 10, random.Random(1))
    to.flush()
    there_rows = there.consume()
    back.append_all([chunk for part in there.transformed(**MERGE) for chunk in part.chunks])
    ours = {header.producer_id for header, _ in split(back.fetch(0).records)}
    write(to, back.topic, 4, random.Random(2))
    to.flush()
    (done,) = back.transformed(**MERGE, skip_producer_ids=frozenset(ours))
    assert done.drops == [Drop(0, 10, DropReason.LOOP)]
    assert [run for chunk in done.chunks for run in chunk.runs] == [OffsetRun(10, 4)]
    assert len(there_rows) == 10


@pytest.mark.wide
def test_the_forged_batches_are_batches_to_a_broker(topic: Callable[..., Partition]) -> None:
    partition = topic(**PASSIVE)
    for codec in range(5):
        assert partition.append(batch(0, 3, codec=codec).to_bytes()).error == 0
    expected = [plain_record(number % 3)._replace(offset=number) for number in range(15)]
    assert partition.consume() == expected
