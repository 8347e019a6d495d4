"""Keys of a log that have a value: the arrays agree with a dictionary, however often they are rebuilt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit import living_keys
from drkit.living_keys import LivingKeys

KEYS = st.sampled_from([None, *(b"k%d" % n for n in range(9))])
STEPS = st.lists(st.tuples(KEYS, st.sampled_from(["value", "tombstone", "drop", "number"])), max_size=60)


@given(STEPS, st.integers(1, 7))
def test_the_newest_record_of_each_key_counts(steps: list[tuple[bytes | None, str]], at_once: int) -> None:
    expected: dict[bytes | None, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(living_keys, "_AT_ONCE", at_once)
        living = LivingKeys()
        for offset, (key, what) in enumerate(steps):
            if what == "value":
                living.take(key, offset, has_value=True)
                expected[key] = offset
            elif what == "tombstone":
                living.take(key, offset, has_value=False)
                expected.pop(key, None)
            elif what == "drop":
                living.drop(key)
                expected.pop(key, None)
            expected.pop(None, None)
            assert living.at_most >= len(expected)
            if what == "number":
                assert living.number() == len(expected)
        assert list(living.offsets()) == sorted(expected.values())
        assert living.number() == len(expected)
