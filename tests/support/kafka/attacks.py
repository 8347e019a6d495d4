"""What a client with WRITE on one of drkit's topics can do, without a control key."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Final
import zlib

from confluent_kafka.admin import AdminClient, NewTopic

from drkit.clock import wall_ms
from drkit.config import ClusterSettings
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.reading.log_tail import LogTail
from drkit.kafka.requests import Append, describe_producers, metadata, produce_request, produced
from drkit.kafka.topics import appeared
from drkit.model import TopicPartition
from drkit.wire import Record, batch_crc, encode, stamp
from drkit.wire.codecs import GZIP, ZSTD, compress
from drkit.wire.header import CRC_AT, CRC_START, HEADER_SIZE, LENGTH_END, MAGIC
from drkit.wire.header import HEADER as FIELDS
from drkit.wire.varint import varint
from tests.support.flows.produce import producer

_MIB: Final = 1 << 20
JUNK: Final = Record(0, 0, b"not a key of drkit", b"?")


def create(settings: ClusterSettings, topic: str) -> None:
    """A topic with the settings that brokers give it, but for the policy: drkit refuses another one."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    config = {"cleanup.policy": "delete" if topic.startswith("drkit-failover") else "compact"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    appeared(Cluster.connect(settings), topic)


def stored(settings: ClusterSettings, topic: str) -> list[Record]:
    """Return all records that a topic has."""
    records: list[Record] = []
    with closing(LogTail(settings, TopicPartition(topic, 0), records.append)) as tail:
        tail.read(30)
    return records


def write_again(settings: ClusterSettings, topic: str, records: Iterable[Record]) -> None:
    """Write a copy of records, with their headers."""
    out = producer(settings)
    for record in records:
        headers: dict[str, str | bytes | None] = {name.decode(): value for name, value in record.headers}
        out.produce(topic, record.value, record.key, partition=0, headers=headers)
    assert out.flush(30) == 0


def bomb(mib: int) -> bytearray:
    """A batch of one record, which unpacks to some MiB; packed piece by piece."""
    size = mib * _MIB
    head = b"\0" + varint(0) + varint(0) + varint(3) + b"key" + varint(size)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(varint(len(head) + size + 1) + head)]
    parts += [packer.compress(bytes(_MIB)) for _ in range(mib)]
    parts += [packer.compress(varint(0)), packer.flush()]
    return finished(bytearray(HEADER_SIZE) + b"".join(parts), GZIP)


def headers_bomb(number: int) -> bytearray:
    """A batch of one record with empty headers: two bytes each, before they are packed."""
    body = b"\0" + varint(0) + varint(0) + varint(3) + b"key" + varint(0) + varint(number) + b"\0\1" * number
    data = compress(ZSTD, varint(len(body)) + body)
    return finished(bytearray(HEADER_SIZE) + data, ZSTD)


def finished(batch: bytearray, codec: int) -> bytearray:
    """Write the header of a batch of one record."""
    now = wall_ms()
    FIELDS.pack_into(batch, 0, 0, len(batch) - LENGTH_END, -1, MAGIC, 0, codec, 0, now, now, -1, -1, -1, 1)
    batch[CRC_AT:CRC_START] = batch_crc(batch).to_bytes(4, "big")
    return batch


async def take_sequence(
    cluster: RawCluster, at: TopicPartition, producer_id: int, record: Record = JUNK
) -> None:
    """Write a record as a producer of a partition, with its next sequence number."""
    topic = (await metadata(cluster, [at.topic]))[at.topic]
    node = topic.leaders[at.partition].node
    _, producers = (await describe_producers(cluster, node, [at]))[at]
    last = producers[producer_id]
    data = encode([record._replace(offset=0, timestamp=wall_ms())], 0)
    stamp(data, producer_id, last.epoch, last.last_sequence + 1, transactional=False)
    batch = Append(at.topic, topic.topic_id, at.partition, data)
    assert set((await produced(cluster, node, [batch], timeout_ms=5000)).values()) == {0}


def append(settings: ClusterSettings, topic: str, batch: bytearray) -> None:
    loop = EventLoop()
    raw = RawCluster(loop, settings, "test")

    async def send() -> int:
        await raw.connect()
        found = (await metadata(raw, [topic]))[topic]
        request = produce_request([Append(topic, found.topic_id, 0, batch)])
        answer = await raw.send(request, found.leaders[0].node)
        return int(answer.responses[0].partition_responses[0].error_code)

    try:
        code = loop.run(send)
    finally:
        raw.close()
        loop.close()
    assert code == 0, str(code)
