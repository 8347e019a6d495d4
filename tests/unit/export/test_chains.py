"""Every alteration of what was exported gives another chain."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise
import struct
from uuid import UUID

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from drkit.export.record import (
    Chain,
    ExportedRecord,
    Hole,
    HoleKind,
    Item,
    TimestampType,
    chain_of_parts,
    record_bytes,
)
from tests.support.export.made import ITEMS, RECORDS, TOPIC_ID


def chain(items: list[Item]) -> str:
    found = Chain()
    for item in items:
        if isinstance(item, Hole):
            found.hole(item)
        else:
            found.record(item)
    return found.result(TOPIC_ID, 0, 0, 10)


@given(ITEMS, st.data())
@settings(max_examples=40)
def test_a_missing_moved_doubled_or_changed_item_shows(items: list[Item], data: st.DataObject):
    at = data.draw(st.integers(0, len(items) - 1))
    other = data.draw(st.integers(0, len(items) - 1))
    moved = list(items)
    moved[at], moved[other] = moved[other], moved[at]
    whole = chain(items)
    assert chain(items) == whole
    assert chain(items[:at] + items[at + 1 :]) != whole
    assert chain([*items[:at], items[at], *items[at:]]) != whole
    assert (chain(moved) != whole) is (at != other)
    item = items[at]
    if isinstance(item, Hole):
        changed: Item = item._replace(end=item.end + 1)
    else:
        changed = item._replace(value=(item.value or b"") + b"x")
    assert chain([*items[:at], changed, *items[at + 1 :]]) != whole


@given(RECORDS, RECORDS)
@settings(max_examples=40)
def test_two_records_never_have_the_same_bytes(one: ExportedRecord, other: ExportedRecord):
    assert (record_bytes(one) == record_bytes(other)) is (one == other)


@given(st.lists(RECORDS, min_size=1, max_size=3), st.lists(RECORDS, min_size=1, max_size=3))
@settings(max_examples=40)
def test_nor_have_two_lists_of_them(some: list[ExportedRecord], others: list[ExportedRecord]):
    together = [b"".join(map(record_bytes, each)) for each in (some, others)]
    assert (together[0] == together[1]) is (some == others)


def test_absent_and_empty_are_apart():
    plain = ExportedRecord(0, 0, TimestampType.CREATE_TIME, None, None, (), -1)
    apart = [
        plain,
        plain._replace(key=b""),
        plain._replace(value=b""),
        plain._replace(headers=((b"", None),)),
        plain._replace(headers=((b"", b""),)),
        plain._replace(headers=((b"", None), (b"", None))),
        plain._replace(timestamp_type=TimestampType.LOG_APPEND_TIME),
        plain._replace(producer_id=0),
    ]
    assert len({record_bytes(each) for each in apart}) == len(apart)


def test_the_partition_and_the_range_are_in_the_chain():
    found = Chain()
    results = {
        found.result(topic_id, partition, first, end)
        for topic_id in (TOPIC_ID, UUID(int=8))
        for partition in (0, 1)
        for first in (0, 1)
        for end in (2, 3)
    }
    assert len(results) == 16


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from(["00" * 32, "01" * 32]))))
@settings(max_examples=40)
def test_the_chain_of_parts_is_of_their_order(parts: list[tuple[int, int, str]]):
    whole = chain_of_parts(TOPIC_ID, 0, 0, 10, parts)
    assert chain_of_parts(TOPIC_ID, 0, 0, 10, [*parts, *parts]) != whole or not parts
    assume(any(one != two for one, two in pairwise(parts)))
    assert parts == parts[::-1] or chain_of_parts(TOPIC_ID, 0, 0, 10, parts[::-1]) != whole


def test_the_chain_is_what_its_description_says():
    """Written down twice: other programs can build it, and a change of the bytes is another version."""
    found = Chain()
    found.record(ExportedRecord(5, 6, TimestampType.LOG_APPEND_TIME, b"k", None, ((b"h", b""),), 9))
    found.hole(Hole(6, 8, HoleKind.MARKER))
    record = b"R" + struct.pack(">qqbq", 5, 6, 1, 9) + b"\0\0\0\1k" + b"\xff\xff\xff\xff"
    record += b"\0\0\0\1" + b"\0\0\0\1h" + b"\0\0\0\0"
    hole = b"H" + struct.pack(">qq", 6, 8) + b"marker\0"
    span = TOPIC_ID.bytes + struct.pack(">iqq", 1, 5, 8)
    part = sha256(b"drkit export part 1\0" + span + sha256(record + hole).digest())
    assert found.result(TOPIC_ID, 1, 5, 8) == part.hexdigest()
    whole = sha256(b"drkit export partition 1\0" + span + struct.pack(">qq", 5, 8) + part.digest())
    assert chain_of_parts(TOPIC_ID, 1, 5, 8, [(5, 8, part.hexdigest())]) == whole.hexdigest()
