"""An answer has the size of what was asked for: more is refused before it is read, or taken apart."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any
from uuid import UUID

from kafka.errors import InvalidReceiveError
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
import pytest

from drkit.kafka.requests import Append, fetch_request, produce_request
from drkit.kafka.transport import SizedProtocol

MIB = 1 << 20
VERSION = 12
HEADER = struct.pack(">i", 1) + b"\x00"
"""Of the first answer, without tagged fields."""
NO_ERROR = struct.pack(">ihi", 0, 0, 0)


def asked(request: Any, version: int = VERSION) -> SizedProtocol:
    request.API_VERSION = version
    protocol = SizedProtocol(client_id="test")
    protocol.send_request(request)
    return protocol


def fetch(partitions: int = 1, max_bytes: int = MIB) -> FetchRequest:
    return fetch_request(
        ("t", UUID(int=1)), dict.fromkeys(range(partitions), 0), committed=True, partition_bytes=max_bytes,
        max_bytes=max_bytes,
    )  # fmt: skip


def metadata(*names: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=n) for n in names])


def fetched(*records: bytes) -> bytes:
    topic = FetchResponse.FetchableTopicResponse
    parts = [
        topic.PartitionData(
            partition_index=number, error_code=0, high_watermark=1, last_stable_offset=1, log_start_offset=0,
            aborted_transactions=[], preferred_read_replica=-1, records=data,
        )
        for number, data in enumerate(records)
    ]  # fmt: skip
    answer = FetchResponse(
        throttle_time_ms=0, error_code=0, session_id=0, responses=[topic(topic="t", partitions=parts)]
    )
    answer.API_VERSION = VERSION
    answer.with_header(correlation_id=1)
    return bytes(answer.encode(framed=True, header=True))


def count(number: int) -> bytes:
    """The length of a compact array."""
    out, left = b"", number + 1
    while left > 127:
        out, left = out + bytes([left & 127 | 128]), left >> 7
    return out + bytes([left])


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(HEADER + body)) + HEADER + body


@pytest.mark.parametrize(
    ("request_", "most"),
    [
        (ApiVersionsRequest(client_software_name="x", client_software_version="1"), MIB),
        (metadata(), MIB),
        (metadata("a", "b"), 3 * MIB),
        (metadata(*map(str, range(500))), 64 * MIB),
        (MetadataRequest(topics=None), 64 * MIB),
        (produce_request([Append("t", UUID(int=1), 0, b"x" * 100)]), MIB + 300),
        (fetch(), 256 * MIB),
    ],
)
def test_a_frame_that_no_one_asked_for_is_refused_by_its_length(request_: Any, most: int):
    version = 3 if isinstance(request_, ApiVersionsRequest) else 9
    with pytest.raises(InvalidReceiveError):
        asked(request_, version).receive_bytes(struct.pack(">i", most + 1))
    asked(request_, version).receive_bytes(struct.pack(">i", min(most, MIB)))


def test_no_answer_without_a_request():
    for size in (0, 1, 100):
        with pytest.raises(InvalidReceiveError):
            SizedProtocol(client_id="test").receive_bytes(struct.pack(">i", size))


@pytest.mark.parametrize("records", [(b"x" * 100,), (b"x" * MIB, b"y" * 10), (b"", b"x" * (20 * MIB), b"")])
def test_what_was_asked_for_and_one_larger_batch_pass(records: tuple[bytes, ...]):
    [(_, answer)] = asked(fetch(len(records))).receive_bytes(fetched(*records))
    assert [p.records for p in answer.responses[0].partitions] == [*records]


PARTITION = struct.pack(">ihqqq", 0, 0, 0, 0, 0)
MANY = {
    "topics": lambda n: count(n // 3) + b"\x01\x01\x00" * (n // 3) + b"\x00",
    "aborted transactions": lambda n: (
        count(1) + count(0) + count(1) + PARTITION + count(n // 17) + bytes(n // 17 * 17)
        + struct.pack(">i", -1) + b"\x00\x00\x00\x00"
    ),
    "tagged fields": lambda n: count(0) + count(n // 4 - 1) + b"\xff\x7f\x01\x00" * (n // 4),
}  # fmt: skip


@pytest.mark.parametrize("kind", MANY)
def test_a_large_answer_of_many_small_entries_is_not_taken_apart(kind: str):
    with pytest.raises(InvalidReceiveError, match="not one large batch"):
        asked(fetch()).receive_bytes(framed(NO_ERROR + MANY[kind](4 * MIB)))


def test_a_large_answer_that_is_cut_is_refused():
    cut = fetched(b"x" * (4 * MIB))[:-2000]
    with pytest.raises(InvalidReceiveError, match="not one large batch"):
        asked(fetch()).receive_bytes(struct.pack(">i", len(cut) - 4) + cut[4:])


@pytest.mark.wide
@pytest.mark.parametrize("kind", MANY)
def test_the_smallest_entries_take_about_fifty_times_their_bytes(kind: str):
    answer, protocol = framed(NO_ERROR + MANY[kind](MIB)), asked(fetch())
    tracemalloc.start()
    try:
        found = protocol.receive_bytes(answer)
        assert tracemalloc.get_traced_memory()[1] < 60 * len(answer)
    finally:
        tracemalloc.stop()
    assert found
