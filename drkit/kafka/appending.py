"""Append a batch with sequence numbers to one of drkit's topics, and see that it is there.

A broker answers a batch whose sequence numbers it knows as a repeated one (KIP-98), with the offset of the
first. And any client with WRITE on a topic may send a batch as another producer, with its next numbers.
"""

from __future__ import annotations

from drkit.kafka import codes
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import Append, fetch_one, produce_request
from drkit.wire import decode, read_header, split


async def append(
    cluster: RawCluster, node: int, batch: Append, transactional_id: str | None, timeout_ms: int = 30_000
) -> int:
    """Return Kafka's code; DUPLICATE_SEQUENCE_NUMBER if another client's batch has the numbers of this one.

    Without a control key nothing is proven, and nothing is read back.

    :param node: of the leader
    :raises RawError: no answer
    """
    request = produce_request([batch], transactional_id=transactional_id)
    response = await cluster.send(request, node, timeout_ms=timeout_ms)
    answer = response.responses[0].partition_responses[0]
    if answer.error_code or cluster.control is None:
        return int(answer.error_code)
    found = await fetch_one(
        cluster, node, (batch.topic, batch.topic_id), batch.partition, answer.base_offset,
        committed=False, max_bytes=len(batch.data), max_wait_ms=0, timeout_ms=timeout_ms,
    )  # fmt: skip
    if found.error_code:
        return int(found.error_code)
    stored = [r[2:] for first in list(split(found.records or b""))[:1] for r in decode(*first)]
    written = [r[2:] for r in decode(read_header(batch.data), batch.data)]  # brokers may set the times
    return codes.NONE if stored == written else codes.DUPLICATE_SEQUENCE_NUMBER
