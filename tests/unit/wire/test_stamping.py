from __future__ import annotations

import google_crc32c
import pytest

from drkit.wire import batch_crc, read_header, stamp
from tests.support.wire.forge import batch, log, run


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("merge_below", [0, 1000])
def test_a_stamped_chunk_is_a_whole_batch(merge_below: int, transactional: bool) -> None:  # noqa: FBT001
    buffer = log(*(batch(base, 2, codec=3, attributes=0x50, producer_id=8) for base in range(0, 10, 2)))
    for chunk in run(buffer, merge_below=merge_below).chunks:
        data = stamp(chunk.data, 1 << 40, 7, (1 << 31) - 1, transactional=transactional)
        assert data is chunk.data
        header = read_header(data)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
            1 << 40,
            7,
            (1 << 31) - 1,
        )
        assert header.attributes == (0x13 if transactional else 0x03)
        assert header.crc == batch_crc(data) == google_crc32c.value(bytes(data[21:]))


def test_a_chunk_can_be_stamped_again() -> None:
    (chunk,) = run(batch(0, 3).to_bytes()).chunks
    once = bytes(stamp(bytearray(chunk.data), 5, 0, 10, transactional=False))
    stamp(chunk.data, 6, 3, 99, transactional=True)
    assert bytes(stamp(chunk.data, 5, 0, 10, transactional=False)) == once


def test_attributes_are_whitelisted() -> None:
    data = bytearray(batch(0, 1, codec=1, attributes=0x4078).to_bytes())
    assert read_header(stamp(data, 1, 1, 1, transactional=False)).attributes == 1
