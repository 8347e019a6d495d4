from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords
import pytest

from drkit.wire import CorruptBatch, Record, batch_crc, decode, encode, read_header
from drkit.wire.varint import VARINTS, read_varint, short_varint, varint
from tests.support.wire.forge import Batch, batch, zigzag

LONG = st.integers(-(1 << 63), (1 << 63) - 1)
FIELD = st.none() | st.binary(max_size=200)
NAME = st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace"))
HEADERS = st.lists(st.tuples(NAME, FIELD), max_size=3).map(tuple)
TIME = st.integers(-1, 1 << 42) | st.integers(1_700_000_000_000, 1_700_000_020_000)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    fields = draw(st.lists(st.tuples(TIME, FIELD, FIELD, HEADERS), min_size=1, max_size=90))
    return [Record(number, *each) for number, each in enumerate(fields)]


@given(LONG)
def test_varints_are_zigzag(number: int) -> None:
    data = varint(number)
    assert data == zigzag(number) == short_varint(number)
    assert read_varint(b"\xff" + data, 1) == (number, 1 + len(data))


def test_the_table_is_right() -> None:
    assert list(VARINTS) == [zigzag(number) for number in range(len(VARINTS))]


@given(records=record_lists(), codec=st.integers(0, 4))
def test_what_is_encoded_decodes(records: list[Record], codec: int) -> None:
    data = encode(records, codec)
    header = read_header(data)
    assert decode(header, data) == records
    assert header.crc == batch_crc(data)
    assert (header.base_offset, header.count, header.last_offset_delta) == (
        0,
        len(records),
        len(records) - 1,
    )
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert header.codec == header.attributes == codec


@given(records=record_lists(), codec=st.integers(0, 4), most=st.integers(0, 2))
def test_a_record_with_more_headers_is_read_without_any(records: list[Record], codec: int, most: int) -> None:
    data = encode(records, codec)
    expected = [r if len(r.headers) <= most else r._replace(headers=()) for r in records]
    assert decode(read_header(data), data, headers=most) == expected


@given(records=record_lists(), codec=st.integers(0, 4))
def test_kafka_python_reads_what_is_encoded(records: list[Record], codec: int) -> None:
    found = MemoryRecords(bytes(encode(records, codec))).next_batch()
    assert found.validate_crc()
    assert [
        Record(
            each.offset,
            each.timestamp,
            each.key,
            each.value,
            tuple((name.encode(), content) for name, content in each.headers),
        )
        for each in found
    ] == records


@pytest.mark.parametrize("size", [0, 1, 57, 58, 63, 64, 120, 8000, 8190, 8192, 16383, 16384, 70_000])
def test_lengths_around_the_widths_of_a_varint(size: int) -> None:
    records = [Record(number, 5, None, b"x" * size, ()) for number in range(70)]
    data = encode(records, 0)
    assert decode(read_header(data), data) == records


@pytest.mark.parametrize("jump", [0, 63, 64, 2048, 2049, 8192, 16_383, 16_384, 1 << 40])
def test_times_in_any_order(jump: int) -> None:
    start = 1_700_000_000_000
    records = [Record(n, start + sign * jump, b"k", b"v", ()) for n, sign in enumerate((0, 1, -1, 0))]
    data = encode(records, 0)
    assert decode(read_header(data), data) == records


def test_more_records_than_the_table_has_numbers() -> None:
    records = [Record(number, 5, None, b"", ()) for number in range(20_000)]
    data = encode(records, 0)
    assert decode(read_header(data), data) == records


def test_log_append_time_counts_for_every_record() -> None:
    source = batch(10, 3, attributes=0x08, max_time=99)
    data = source.to_bytes()
    assert [record.timestamp for record in decode(read_header(data), data)] == [99, 99, 99]


def test_a_delete_horizon_is_only_another_base() -> None:
    source = batch(10, 3, attributes=0x40, base_time=1_800_000_000_000)
    data = source.to_bytes()
    assert decode(read_header(data), data) == list(source.records)
    plain = source.having(attributes=0).to_bytes()
    assert decode(read_header(plain), plain) == list(source.records)


def test_a_leader_epoch_can_be_given() -> None:
    data = encode([Record(0, 1, None, None, ())], 0, leader_epoch=6)
    header = read_header(data)
    assert (header.leader_epoch, header.crc) == (6, batch_crc(data))


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="needs a record"):
        encode([], 0)


def _holes(base: int, *deltas: int, **fields: Any) -> Batch:
    return Batch(base, tuple(Record(base + delta, 1, b"k", b"v", ()) for delta in deltas), **fields)


@pytest.mark.parametrize(
    "lie",
    [
        batch(7, 3).having(count=2),
        batch(7, 3).having(count=4),
        _holes(7, 2, 1, 0, last_offset_delta=2),
        _holes(7, 0, 0, 1, last_offset_delta=2),
        _holes(7, 0, 2, 4, last_offset_delta=2),
        _holes(7, 0, 2, 4, last_offset_delta=3),
    ],
)
@pytest.mark.parametrize("codec", [0, 4])
def test_a_header_that_lies_is_refused(lie: Batch, codec: int) -> None:
    data = lie.having(codec=codec).to_bytes()
    with pytest.raises(CorruptBatch) as caught:
        decode(read_header(data), data)
    assert caught.value.offset == 7


@given(st.data())
def test_damaged_records_never_raise_anything_else(data: st.DataObject) -> None:
    records = [Record(number, 1, b"key", b"value", ((b"h", b"x"),)) for number in range(3)]
    whole = encode(records, data.draw(st.integers(0, 4)))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(61, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CorruptBatch):
        assert len(decode(read_header(whole), whole)) == 3


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x02\x00",
        b"\x01" + bytes(10),
        b"\x0c\x00\x00\x00\x01\x01",
        b"\x0c\x00\x00\x00\x01\x01\x02",
        b"\x0c\x00\x00\x00\x01\x01\x01",
        b"\x0e\x00\x00\x00\x01\x01\x00\x00",
        b"\x0e\x00\x00\x00\x08\x01\x01\x00",
        b"\x10\x00\x00\x00\x01\x01\x02\x01\x01",
        b"\xff" * 12,
        b"\x0c\x00" + b"\xff" * 12,
    ],
)
def test_nonsense_inside_is_refused(body: bytes) -> None:
    data = Batch(7, (), span=1, count=1).to_bytes() + body
    with pytest.raises(CorruptBatch):
        decode(read_header(data), data)
