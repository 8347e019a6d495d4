"""Changes are cut into requests that a controller takes, and none is lost or said twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drkit.kafka.topics import MOST_RECORDS, in_parts


@given(st.lists(st.integers(-1, MOST_RECORDS * 2), max_size=60))
def test_all_in_their_order_and_no_request_larger_than_one_item_makes_it(sizes: list[int]) -> None:
    found = list(in_parts(enumerate(sizes), lambda item: item[1], MOST_RECORDS))
    assert [item for some in found for item in some] == list(enumerate(sizes))
    assert all(found)
    assert all(len(some) == 1 or sum(size for _, size in some) <= MOST_RECORDS for some in found)


def test_nothing_is_no_request() -> None:
    assert list(in_parts([], lambda _: 1, MOST_RECORDS)) == []
