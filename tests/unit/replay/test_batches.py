"""A tail in pieces and batches: nothing is lost between them, none is too large."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.model import TopicPartition
from drkit.replay import tail as module
from drkit.replay.compare import Origin, TailFate
from drkit.replay.tail import Tail, at_most, batch_bytes, batches, pieces
from drkit.wire import Record, decode, encode, read_header

ORIGIN = Origin("c", TopicPartition("t", 0), "r")
RECORDS = st.builds(
    Record,
    st.just(0),
    st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 1 << 41),
    st.none() | st.binary(max_size=300),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
)
FATES = (TailFate.SEND, TailFate.ALREADY, TailFate.KEPT_BACK)


def tail_of(records: list[Record]) -> Tail:
    numbered = [r._replace(offset=100 + 3 * n) for n, r in enumerate(records)]
    return Tail(ORIGIN, UUID(int=1), 100, 103 + 3 * len(records), len(records), lambda _at: iter(numbered), 1)


@given(st.lists(RECORDS, max_size=12), st.data())
def test_pieces_account_for_every_record(records: list[Record], data: st.DataObject) -> None:
    tail = tail_of(records)
    flags = bytes(data.draw(st.lists(st.integers(0, 2), min_size=len(records), max_size=len(records))))
    start = data.draw(st.integers(tail.first, tail.end))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE_RECORDS", data.draw(st.integers(1, 5)))
        found = list(pieces(tail, flags, start, FATES.__getitem__))
    left = [(r, FATES[f]) for r, f in zip(tail.read(), flags, strict=True) if r.offset >= start]
    sent = [r for piece in found for r in piece.records]
    assert sent == [ORIGIN.stamped(r) for r, fate in left if fate is TailFate.SEND]
    assert sum(p.already for p in found) == sum(fate is TailFate.ALREADY for _, fate in left)
    assert sum(p.kept_back for p in found) == sum(fate is TailFate.KEPT_BACK for _, fate in left)
    assert found[-1].next == tail.end
    ends = [p.next for p in found]
    assert ends == sorted(ends)
    for piece, end in zip(found, ends, strict=True):
        assert all(r.offset < end for r in piece.records)
    # A run that continues after a piece has what is left, and nothing else.
    for number, end in enumerate(ends[:-1]):
        rest = [r for piece in pieces(tail, flags, end, FATES.__getitem__) for r in piece.records]
        assert rest == [r for piece in found[number + 1 :] for r in piece.records]


@given(st.lists(RECORDS, min_size=1, max_size=12), st.integers(400, 2000))
def test_batches_hold_all_records_and_no_batch_is_too_large(records: list[Record], limit: int) -> None:
    found, out = list(batches(records, limit)), list[Record]()
    for data, count in found:
        held = decode(read_header(data), data)
        assert len(held) == count
        assert [r.offset for r in held] == list(range(count))
        assert len(data) <= limit or count == 1
        out += held
    assert [r[1:] for r in out] == [r[1:] for r in records]


@given(RECORDS)
def test_the_bound_of_a_records_size_holds(record: Record) -> None:
    assert len(encode([record], 0)) <= 61 + at_most(record)
    assert batch_bytes(record, 0) <= 61 + at_most(record), "packed, it is smaller or the same"
    assert batch_bytes(record, 1 << 20) == 61 + at_most(record)
