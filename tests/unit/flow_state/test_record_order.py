"""The order of drkit's records: no copy of an earlier one counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.control_key import (
    HEADER,
    NO_KEY,
    NOT_NAMED,
    OUTDATED,
    REPLAYED,
    UNORDERED,
    WINDOW_SECONDS,
    ControlKey,
    ControlKeys,
    mac_of,
)
from drkit.kafka.reading.compacted import NewestValues
from drkit.model import TopicPartition
from drkit.offset_map.bucket import adopted_at
from drkit.wire import Record
from tests.support.flow_state.keys import KEYS, PLACE, earlier_form, signatures
from tests.support.flow_state.old_bytes import RECORDS
from tests.support.flow_state.old_macs import MACS, TOMBSTONE

NAMES: Final = [b"pause", b"role/pay", b"promotion", b"lease"]
writes = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.none() | st.sampled_from([b"1", b"2"]),
        st.integers(-400_000, 400_000),  # ms by which a writer's clock is off
        st.lists(st.floats(0, 1), max_size=3),  # earlier records that are repeated after it
    ),
    min_size=1,
    max_size=30,
)
Stored = tuple[bytes, bytes | None, tuple[tuple[bytes, bytes], ...]]


def write(key: bytes, value: bytes | None, log: Sequence[Stored], now_ms: int) -> Stored:
    """A record of a process that has read the log to its end, and has its own clock."""
    mine = signatures(now_ms=now_ms)
    for k, v, macs in log:
        mine.refused(k, v, macs)
    return key, value, mine.headers(key, value)


def newest(log: Sequence[Stored]) -> NewestValues:
    found = NewestValues(signatures())
    for offset, (key, value, macs) in enumerate(log):
        found.take(Record(offset, 0, key, value, macs))
    return found


@given(writes)
def test_no_copy_of_an_earlier_record_or_tombstone_counts_at_any_state(
    written: list[tuple[bytes, bytes | None, int, list[float]]],
):
    """Writers have different clocks; whoever reads the topic repeats any record at any time."""
    log: list[Stored] = []
    expected: dict[bytes, bytes | None] = {}
    for number, (key, value, skew_ms, repeated) in enumerate(written):
        log.append(write(key, value, log, 10_000_000 + 1000 * number + skew_ms))
        expected[key] = value
        log += [log[int(where * (len(log) - 1))] for where in repeated]
        assert newest(log) == {k: v for k, v in expected.items() if v is not None}


@pytest.mark.parametrize("is_swapped", [False, True])
def test_of_two_records_that_are_signed_at_once_no_copy_counts(*, is_swapped: bool):
    """Both writers have slow clocks: each signs the order that follows the newest one."""
    lease = write(b"lease", b"1", [], 10_000_000)
    paused, resumed = (write(b"pause", value, [lease], 9_000_000) for value in (b"1", None))
    log = [lease, *((resumed, paused) if is_swapped else (paused, resumed))]
    for copy in (paused, resumed):
        assert newest([*log, copy]) == newest(log)


@given(writes)
def test_each_record_counts_once(written: list[tuple[bytes, bytes | None, int, list[float]]]):
    """Also the last one of its key: where the order of the records matters, a copy of it says something."""
    log: list[Stored] = []
    reader = signatures()
    for number, (key, value, skew_ms, repeated) in enumerate(written):
        log.append(write(key, value, log, 10_000_000 + 1000 * number + skew_ms))
        assert reader.refused(*log[-1]) == ""
        for copy in (log[-1], *(log[int(where * (len(log) - 1))] for where in repeated)):
            assert reader.refused(*copy) == REPLAYED


@given(writes, st.sampled_from(NAMES))
def test_a_reader_after_compaction_takes_no_old_copy_for_the_newest(
    written: list[tuple[bytes, bytes | None, int, list[float]]], key: bytes
):
    """The copy is the only record of its key that compaction has left."""
    log: list[Stored] = []
    for number, (name, value, _, _) in enumerate(written):
        log.append(write(name, value, log, 10_000_000 + 1000 * number))
    old = next((record for record in log if record[0] == key), None)
    later_ms = 10_000_000 + 1000 * len(written) + int(1000 * WINDOW_SECONDS)
    log.append(write(b"another", b"1", log, later_ms))
    if old is not None:
        found = newest([*(record for record in log if record[0] != key), old])
        assert key not in found
        assert found.refused == {key: OUTDATED}


def test_a_young_copy_counts_where_compaction_has_removed_the_newer_record():
    """Nothing shows such a reader that there was one (docs/explanation/state.md)."""
    log = [write(b"pause", b"1", [], 10_000_000)]
    log.append(write(b"pause", None, log, 10_001_000))
    copy = log[0]
    assert newest([*log, copy]) == {}
    vote = write(b"vote", b"1", log, 10_002_000)
    assert newest([vote, copy]) == {b"vote": b"1", b"pause": b"1"}


def test_records_of_the_earlier_form_count_until_ordered_ones_precede_them():
    reader = signatures()
    assert reader.refused(b"pause", b"old", earlier_form(b"pause", b"old")) == ""
    assert reader.refused(b"lease", b"new", signatures().headers(b"lease", b"new")) == ""
    assert reader.refused(b"pause", b"old", earlier_form(b"pause", b"old")) == UNORDERED


def test_what_an_earlier_version_signed_counts_beside_new_records():
    """Hosts are upgraded one after the other: records of both versions alternate."""
    reader = signatures()
    for name, mac in MACS.items():
        key, value = name.encode(), RECORDS[name]
        assert reader.refused(key, value, [(HEADER, bytes.fromhex(mac))]) == ""
        between = signatures(now_ms=int.from_bytes(bytes.fromhex(mac)[5:13]) // 1000)
        other = b"another/" + key
        assert reader.refused(other, None, between.headers(other, None)) == ""
    assert reader.refused(b"role/orders", None, [(HEADER, bytes.fromhex(TOMBSTONE))]) == ""
    assert signatures(None).refused(b"lease", b"", [(HEADER, bytes.fromhex(MACS["lease"]))]) == NO_KEY


def test_what_an_earlier_version_signed_can_be_put_back_into_a_new_topic_until_the_key_changes():
    """Its MACs do not cover the id, and the new topic has no other record: the threat model states it."""
    created_again = PLACE._replace(topic_id=UUID(int=9))
    given = b"role/orders", RECORDS["role/orders"], [(HEADER, bytes.fromhex(MACS["role/orders"]))]
    assert signatures(place=created_again).refused(*given) == ""
    new = ControlKeys(ControlKey.of(b"another key, another key, another key"))
    assert NOT_NAMED in signatures(new, created_again).refused(*given)
    signed = signatures().headers(*given[:2])
    assert "this topic and its id" in signatures(place=created_again).refused(*given[:2], signed)


@pytest.mark.parametrize(("name", "why"), [("role/orders", REPLAYED), ("lease", OUTDATED)])
def test_no_copy_of_an_earlier_version_counts_after_a_new_record(name: str, why: str):
    reader, later = signatures(), signatures(now_ms=1_763_826_448_123 + int(1000 * WINDOW_SECONDS) + 1)
    assert reader.refused(b"role/orders", b"new", later.headers(b"role/orders", b"new")) == ""
    assert reader.refused(name.encode(), RECORDS[name], [(HEADER, bytes.fromhex(MACS[name]))]) == why


def test_after_a_clock_that_was_far_ahead_later_copies_stay_young():
    """Each order is above the one before. Only a process with the key can write such a record."""
    years_ms, now_ms = 10**12, 10_000_000
    log = [write(b"lease", b"ahead", [], now_ms + years_ms)]
    log.append(write(b"pause", b"1", log, now_ms))
    copy = log[1]
    later_ms = now_ms + int(2000 * WINDOW_SECONDS)
    log.append(write(b"pause", None, log, later_ms))
    assert newest([*log, copy]) == {b"lease": b"ahead"}
    log.append(write(b"vote", b"1", log, later_ms))
    assert newest([log[-1], copy])[b"pause"] == b"1", "compaction has removed the others"


def test_an_order_after_which_there_is_none_does_not_count():
    """A process with the key could end all writing, and the change of the key."""
    for order in (1 << 64) - 1, (1 << 63) + 1:
        mac = mac_of(KEYS.current, PLACE, b"pause", None, order)
        reader = signatures()
        assert "no order for later records" in reader.refused(b"pause", None, {HEADER: mac})
        assert reader.refused(b"pause", b"1", reader.headers(b"pause", b"1")) == ""


def test_memory_of_orders_is_bounded_by_the_window():
    reader, writer = signatures(now_ms=0), signatures(now_ms=0)
    for number in range(30_000):
        key = b"event/%d" % number
        assert reader.refused(key, b"", writer.headers(key, b"")) == ""
    assert len(reader._orders) == 30_000, "all of them within the window"
    late = signatures(now_ms=int(2000 * WINDOW_SECONDS))
    for number in range(30_001):
        key = b"later/%d" % number
        assert reader.refused(key, b"", late.headers(key, b"")) == ""
    assert len(reader._orders) <= 30_001


def test_a_copy_shows_its_age_where_brokers_set_the_time_of_records():
    """Votes that precede it were replaced by later ones: compaction has left nothing before the copy."""
    now_ms = 10_000_000
    old = signatures(now_ms=now_ms).headers(b"pause", None)
    later_ms = now_ms + int(1000 * WINDOW_SECONDS)
    assert signatures().refused(b"pause", None, old, later_ms) == ""
    assert signatures().refused(b"pause", None, old, later_ms + 1) == OUTDATED
    found = NewestValues(signatures())
    found.take(Record(7, later_ms + 1, b"pause", None, old))
    assert found.refused == {b"pause": OUTDATED}


def test_no_record_counts_in_another_partition():
    """The mark after which a bucket of the map begins again is valid at one offset: all buckets have it."""
    map_ = "drkit-offset-map.a.internal"
    logs = [signatures(place=PLACE._replace(at=TopicPartition(map_, p))) for p in range(3)]
    key, value = adopted_at(40)
    for signed in range(3):
        headers = logs[signed].headers(key, value)
        reasons = [log.refused(key, value, headers) for log in logs]
        assert [p for p, reason in enumerate(reasons) if not reason] == [signed]
