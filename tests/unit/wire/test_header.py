from __future__ import annotations

import pickle
import struct

import pytest

from drkit.wire import CorruptBatch, read_header, split
from tests.support.wire.forge import Batch, batch, log, plain_record


def test_every_field_is_read_from_its_place() -> None:
    source = batch(1 << 40, 3, attributes=0x50, codec=3, producer_id=77, leader_epoch=9)
    data = source.to_bytes()
    header = read_header(data)
    assert header.base_offset == 1 << 40
    assert header.length == len(data) - 12
    assert header.size == len(data)
    assert (header.leader_epoch, header.magic, header.attributes) == (9, 2, 0x53)
    assert (header.last_offset_delta, header.count) == (2, 3)
    assert (header.base_timestamp, header.max_timestamp) == (
        source.records[0].timestamp,
        source.records[2].timestamp,
    )
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 7, 0)
    assert (header.last_offset, header.next_offset) == ((1 << 40) + 2, (1 << 40) + 3)


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        (0x08, "is_log_append_time"),
        (0x10, "is_transactional"),
        (0x20, "is_control"),
    ],
)
def test_attribute_bits_have_names(attributes: int, name: str) -> None:
    names = ("is_log_append_time", "is_transactional", "is_control")
    header = read_header(batch(0, 1, codec=4, attributes=attributes).to_bytes())
    assert header.codec == 4
    assert [each for each in names if getattr(header, each)] == [name]


def test_a_header_is_read_at_a_position() -> None:
    first, second = batch(0, 2), batch(2, 1)
    assert read_header(log(first, second), len(first.to_bytes())).base_offset == 2


def test_split_leaves_out_the_cut_off_end_and_copies_nothing() -> None:
    data = log(batch(0, 2), batch(2, 3), batch(5, 1))
    last = len(batch(5, 1).to_bytes())
    for missing in range(1, last + 1):
        found = list(split(data[: len(data) - missing]))
        assert [header.base_offset for header, _ in found] == [0, 2]
    header, view = next(split(data))
    assert isinstance(view, memoryview)
    assert view.obj is data
    assert len(view) == header.size
    assert list(split(b"")) == []


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_are_refused_by_name(magic: int) -> None:
    data = bytearray(batch(40, 2).to_bytes())
    data[16] = magic
    with pytest.raises(CorruptBatch, match="only record batches") as caught:
        list(split(data))
    assert caught.value.offset == 40
    assert "old message format" in caught.value.reason or magic == 3
    with pytest.raises(CorruptBatch):
        read_header(data)


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_impossible_lengths_are_refused(length: int) -> None:
    data = bytearray(batch(40, 2).to_bytes())
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(CorruptBatch, match=f"length {length}"):
        list(split(data))


def test_too_few_bytes_for_a_header() -> None:
    with pytest.raises(CorruptBatch, match="60 bytes"):
        read_header(batch(0, 1).to_bytes()[:60])


def test_an_empty_batch_is_a_batch() -> None:
    ((header, _),) = split(Batch(10, (), span=5).to_bytes())
    assert (header.count, header.next_offset, header.size) == (0, 15, 61)


def test_the_error_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(CorruptBatch(41, "CRC")))  # noqa: S301 - our own bytes
    assert (error.offset, error.reason, error.exit_code) == (41, "CRC", 1)
    assert "41" in error.as_dict()["error"]
    assert error.hint


def test_the_forge_numbers_records_as_asked() -> None:
    assert batch(5, 2).records == (plain_record(5), plain_record(6))
