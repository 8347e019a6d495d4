"""Which keys live on, and whether a log has every offset. No broker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.failover.loss import living_keys
from drkit.failover.loss.living_keys import LivingKeys, LogKeys
from drkit.wire import Record, encode, is_whole

LOGS = st.lists(
    st.tuples(st.sampled_from([None, *(b"k%d" % n for n in range(9))]), st.booleans()), max_size=40
)


def records(log: list[tuple[bytes | None, bool]]) -> list[Record]:
    return [Record(n, 0, key, b"v" if has_value else None, ()) for n, (key, has_value) in enumerate(log)]


@given(LOGS, LOGS, st.integers(1, 7))
def test_keys_with_a_value_that_the_other_log_has_not(
    old: list[tuple[bytes | None, bool]], new: list[tuple[bytes | None, bool]], at_once: int
) -> None:
    newest = {key: has_value for key, has_value in old if key is not None}
    expected = {key for key, has_value in newest.items() if has_value} - {key for key, _ in new}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(living_keys, "_AT_ONCE", at_once)
        keys = LogKeys()
        for record in records(old):
            keys.take(record)
        living = LivingKeys(keys.living())
        for record in records(new):
            living.drop(record)
        assert living.number() == len(expected)


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
