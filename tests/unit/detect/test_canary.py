"""What counts of a canary that comes back beside records of others."""

from __future__ import annotations

import struct

import pytest

from drkit.detect.canary import _values
from drkit.wire import CorruptBatch, Record, encode

_ATTRIBUTES_AT, _ZSTD = 21, 4


def batch(offset: int, value: bytes, codec: int = 0) -> bytes:
    """A batch as it is in the log; of another codec than 0 its records cannot be unpacked."""
    data = bytearray(encode([Record(0, 1, b"canary", value)], 0))
    struct.pack_into(">q", data, 0, offset)
    struct.pack_into(">h", data, _ATTRIBUTES_AT, codec)
    return bytes(data)


def test_batches_of_others_beside_it_stay_closed():
    answer = batch(5, b"before", _ZSTD) + batch(7, b"token") + batch(8, b"after", _ZSTD)
    assert _values(answer, 7) == [b"token"]
    assert _values(answer, 6) == []
    assert _values(b"", 7) == []


def test_one_that_was_damaged_is_named():
    with pytest.raises(CorruptBatch):
        _values(batch(7, b"token", _ZSTD), 7)
