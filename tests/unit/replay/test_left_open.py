"""Whether the log counts a transaction that is open on its destination, by what committed ones have noted."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.replay.compare import Same
from drkit.replay.left_open import is_counted
from drkit.replay.progress import ReplayProgress

OWN, OTHER = 7, 8
NEW = ReplayProgress(
    run_id="r1", manifest="0" * 64, source_topic="orders", source_id=UUID(int=1), partition=0, first=10,
    end=20, topic="orders", topic_id=UUID(int=2), same=Same.CONTENT, compared_to=50, records=8, next=10,
)  # fmt: skip
TRANSACTIONS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 3), st.booleans(), st.integers(0, 2)), min_size=1, max_size=8
)
"""Records, offsets of others and markers before them, whether it is committed, and the run."""


@given(transactions=TRANSACTIONS, is_kept=st.booleans(), of_others=st.integers(0, 100))
def test_the_last_transaction_is_counted_if_it_is_committed(
    *, transactions: list[tuple[int, int, bool, int]], is_kept: bool, of_others: int
) -> None:
    runs = [replace(NEW, ids=(OWN,) if is_kept else None) for _ in range(3)]
    end = start = 0
    for records, before, commits, run in transactions:
        start, end = end + before, end + before + records
        if commits:
            runs[run] = replace(runs[run], appended=runs[run].appended + records, copied_to=end)
    others = replace(NEW, appended=1, ids=(OTHER,), copied_to=of_others)
    assert is_counted([*runs, others], OWN, start) is transactions[-1][2]


@pytest.mark.parametrize(("copied_to", "wanted"), [(None, None), (40, None), (41, True)])
def test_progress_of_a_release_that_noted_no_end_leaves_it_unknown(
    *, copied_to: int | None, wanted: bool | None
) -> None:
    earlier = replace(NEW, appended=3)
    assert is_counted([earlier, replace(NEW, appended=2, copied_to=copied_to)], OWN, 40) is wanted
    assert is_counted([NEW], OWN, 40) is False
