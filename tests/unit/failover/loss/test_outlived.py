"""Whether a log has every offset. No broker."""

from __future__ import annotations

import pytest

from drkit.wire import Record, encode, is_whole


def batch(offsets: range) -> bytes:
    """Of records with these offsets."""
    data = encode([Record(n, 0, b"k", b"v", ()) for n in range(len(offsets))], 0)
    data[:8] = offsets.start.to_bytes(8, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "position", "expected"),
    [
        (batch(range(3)) + batch(range(3, 5)), 0, True),
        (batch(range(3)) + batch(range(3, 5)), 2, True),
        (batch(range(3)) + batch(range(4, 5)), 0, False),
        (batch(range(1, 3)), 0, False),
        (batch(range(3)) + batch(range(9, 10)), 9, True),
        (batch(range(3)) + batch(range(9, 10))[:-1], 0, True),
        (b"", 5, True),
    ],
    ids=["all", "from within", "between two", "the first", "before it", "cut off", "nothing"],
)
def test_a_log_with_every_offset(data: bytes, position: int, *, expected: bool) -> None:
    assert is_whole(data, position) is expected


def test_a_batch_without_a_record_is_no_whole_one() -> None:
    data = bytearray(batch(range(3)))
    data[23:27] = (5).to_bytes(4, "big")  # it was appended with three more
    assert not is_whole(data, 0)
