"""What is exported is cut and shared out: every offset once, none of the shares much heavier than another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drkit.export.manifest import TailRange
from drkit.export.request import CopiedBack, cut, shares
from drkit.model import TopicPartition
from tests.support.export.made import TOPIC_ID

TAILS = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 3_000_000)), max_size=6)


@given(TAILS, st.integers(1, 16))
def test_every_offset_is_in_one_piece(found: list[tuple[int, int]], slots: int):
    tails = [TailRange("t", TOPIC_ID, n, first, first + size) for n, (first, size) in enumerate(found)]
    pieces = list(cut(tails, slots))
    for tail in tails:
        own = [piece for piece in pieces if piece.partition == tail.partition]
        edges = [tail.first, *(piece.end for piece in own)]
        assert [piece.first for piece in own] == edges[:-1]
        assert edges[-1] == tail.end
        assert all(piece.end > piece.first for piece in own)
    assert all(piece.end - piece.first <= 2_000_000 for piece in pieces)


@given(st.lists(st.integers(0, 100)), st.integers(1, 8))
def test_shares_have_everything_once_and_weigh_about_the_same(weights: list[int], most: int):
    found = shares([(weight, number) for number, weight in enumerate(weights)], most)
    assert sorted(number for share in found for number in share) == list(range(len(weights)))
    assert all(found)
    assert len(found) == min(most, len(weights))
    loads = [sum(weights[number] + 1 for number in share) for share in found]
    assert max(loads, default=0) - min(loads, default=0) <= max(weights, default=0) + 1


def test_a_little_is_one_piece():
    tail = TailRange("t", TOPIC_ID, 0, 5, 50_005)
    assert [*cut([tail], 8)] == [tail]
    assert [*cut([], 8)] == []


def test_a_producer_is_left_out_only_where_its_records_were_copied_back():
    before, within, after = (TailRange("t", TOPIC_ID, n, 10, 20) for n in range(3))
    other = TailRange("t", TOPIC_ID, 3, 10, 20)
    since = {TopicPartition("t", n): offset for n, offset in enumerate((5, 14, 20))}
    skip = CopiedBack(frozenset({7}), since)
    pieces = list(cut(skip.split([before, within, after, other]), 8))
    assert {(p.partition, p.first, p.end): set(skip.left_out(p)) for p in pieces} == {
        (0, 10, 20): {7}, (1, 10, 14): set(), (1, 14, 20): {7}, (2, 10, 20): set(), (3, 10, 20): {7},
    }  # fmt: skip
