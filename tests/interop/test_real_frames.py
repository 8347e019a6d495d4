"""Batches whose records are compressed in several frames: Kafka's Java consumer says what is in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drkit.wire import CorruptBatch, Record, split
from drkit.wire.codecs import CODEC_NAMES, GZIP, LZ4, SNAPPY, ZSTD
from tests.support.circles import in_soak
from tests.support.mm2.mm2_java import KafkaJava
from tests.support.wire.forge import batch, copied, plain_record, run
from tests.support.wire.partition import EVERY_WAY, FORWARD, PASSIVE, Answer, Partition

RECORDS = 30
INVALID_RECORD = 87
BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


def consume(java: KafkaJava, partition: Partition) -> list[Record]:
    """All records as Kafka's own consumer reads them; of these tests' records, which have no headers."""
    config = {
        "bootstrap.servers": partition.broker.bootstrap,
        "key.deserializer": BYTES,
        "value.deserializer": BYTES,
    }
    consumer = java.jvm.org.apache.kafka.clients.consumer.KafkaConsumer(config)
    try:
        at = java.partition(partition.topic, 0)
        consumer.assign([at])
        consumer.seekToBeginning([at])
        end = consumer.endOffsets([at])[at]
        found: list[Record] = []
        while consumer.position(at) < end:
            polled = consumer.poll(java.seconds(5)).records(at)
            assert polled, f"nothing in 5 s at {consumer.position(at)} of {end}"
            found += [Record(r.offset(), r.timestamp(), r.key(), r.value()) for r in polled]
        return found
    finally:
        consumer.close()


@pytest.mark.wide
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, ZSTD], ids=CODEC_NAMES.__getitem__)
@pytest.mark.parametrize("frames", [2, in_soak(5)])
@EVERY_WAY
def test_all_frames_are_copied(
    java: KafkaJava, topic: Callable[..., Partition], codec: int, frames: int, knobs: dict[str, Any]
) -> None:
    partition, copy = topic(**PASSIVE), topic("-copy", **PASSIVE)
    sent = batch(0, RECORDS, codec=codec, frames=frames).to_bytes()
    for number in range(2):
        assert partition.append(sent) == Answer(0, number * RECORDS, "")
    stored = partition.fetch(0).records
    assert [len(sent), len(sent)] == [header.size for header, _ in split(stored)], (
        "the broker compressed them again"
    )
    expected = consume(java, partition)
    assert expected == [plain_record(n % RECORDS)._replace(offset=n) for n in range(2 * RECORDS)]
    # From the second record on: the first batch is cut, and so taken apart.
    (done,) = partition.transformed(1, **knobs)
    assert copied(done) == expected[1:]
    copy.append_all(done.chunks)
    assert consume(java, copy) == [row._replace(offset=n) for n, row in enumerate(expected[1:])]


@pytest.mark.wide
def test_a_broker_refuses_records_in_a_second_lz4_frame_and_so_do_we(topic: Callable[..., Partition]) -> None:
    sent = batch(0, RECORDS, codec=LZ4, frames=2)
    assert topic(**PASSIVE).append(sent.to_bytes()).error == INVALID_RECORD
    with pytest.raises(CorruptBatch):
        run(sent.to_bytes(), position=1, **FORWARD)


@pytest.mark.wide
@pytest.mark.parametrize(("codec", "taken"), [(GZIP, True), (LZ4, True), (SNAPPY, False), (ZSTD, False)])
def test_what_follows_the_last_frame(
    java: KafkaJava, topic: Callable[..., Partition], codec: int, *, taken: bool
) -> None:
    """What a broker takes is copied, without what follows; what it refuses is a corrupt batch."""
    partition = topic(**PASSIVE)
    sent = batch(0, RECORDS, codec=codec, junk=40).to_bytes()
    assert (partition.append(sent).error == 0) == taken
    if taken:
        (done,) = partition.transformed(1)
        assert copied(done) == consume(java, partition)[1:]
    else:
        with pytest.raises(CorruptBatch, match="records cannot be unpacked"):
            run(sent, position=1, **FORWARD)
