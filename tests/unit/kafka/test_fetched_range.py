"""Records of a fetch answer: those that the mirror does not copy are left out, unless the map has them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from drkit.kafka.reading.record_cursor import FetchedRange
from drkit.wire import visible
from tests.support.wire.forge import batch, log

DATA = log(batch(0, 2, producer_id=5), batch(2, 2, producer_id=6), batch(4, 2, producer_id=5))


@pytest.mark.parametrize(
    ("skip", "mapped", "expected"),
    [
        (set(), set(), [1, 2, 3, 4]),
        ({5}, {1, 2, 3, 4}, [1, 2, 3, 4]),
        ({5}, set(), [2, 3]),
        ({5}, {4}, [2, 3, 4]),
        ({5, 6}, {1}, [1]),
    ],
)
def test_records_of_skipped_producers_need_the_map(skip: set[int], mapped: set[int], expected: list[int]):
    answer = SimpleNamespace(records=DATA, aborted_transactions=())
    read = FetchedRange(1, visible(DATA, 1, 5, aborted=()), answer)
    assert [piece[0] for piece in read.pieces(frozenset(skip), mapped.__contains__)] == expected
