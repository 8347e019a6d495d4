"""Which records of a tail are sent: against a model that compares whole records, for any two logs."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.model import TopicPartition
from drkit.replay.compare import (
    HEADER,
    ChangedKey,
    ContentTally,
    Origin,
    Same,
    TailFate,
    TailFlag,
    content_hash,
    counted_tail,
    fate_of,
    key_hash,
    shares_of,
)
from drkit.wire import Record

ORIGIN = Origin("cluster", TopicPartition("orders", 3), "run")
KEYS = st.sampled_from([None, b"", b"a", b"b"])
VALUES = st.sampled_from([None, b"", b"1"])
HEADERS = st.sampled_from([(), ((b"h", None),), ((b"h", b""),), ((b"h", b"x"), (b"h", b"y"))])
CONTENTS = st.tuples(KEYS, VALUES, HEADERS)


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[list[Record], list[Record]]:
    """A tail, and what the new primary took: of clients, and of earlier replays of parts of this tail."""
    contents = draw(st.lists(CONTENTS, min_size=1, max_size=12))
    tail = [Record(10 + 2 * n, n, key, value, headers) for n, (key, value, headers) in enumerate(contents)]
    there: list[Record] = []
    for what in draw(st.lists(st.one_of(CONTENTS, st.integers(0, len(tail) - 1)), max_size=12)):
        if isinstance(what, int):
            there.append(ORIGIN._replace(run_id="earlier").stamped(tail[what]))
        else:
            there.append(Record(len(there), 5, *what))
    return tail, there


def flags_of(tail: list[Record], there: list[Record], shares: int) -> bytes:
    found = bytearray(len(tail))
    for share in range(shares):
        tally = ContentTally(ORIGIN, share, shares)
        for record in tail:
            tally.expect(record)
        for record in there:
            tally.see(record)
        for number, record in enumerate(tail):
            found[number] |= tally.flags(record)
    return bytes(found)


def by_hand(tail: list[Record], there: list[Record]) -> list[int]:
    """The same, from whole records."""
    own = {ORIGIN.offset_of(r.headers) for r in there} - {None}
    clients = [r for r in there if ORIGIN.offset_of(r.headers) is None]
    copies = Counter((r.key, r.value, r.headers) for r in clients)
    keys = {r.key for r in clients if r.key is not None}
    found = []
    for r in tail:
        flags = TailFlag.KEY_CHANGED if r.key in keys else TailFlag(0)
        content = (r.key, r.value, r.headers)
        if r.offset in own:
            flags |= TailFlag.REPLAYED
        elif copies[content]:
            copies[content] -= 1
            flags |= TailFlag.ALIKE
        found.append(int(flags))
    return found


@given(two_logs(), st.integers(1, 5))
def test_the_hashes_say_what_the_records_say(logs: tuple[list[Record], list[Record]], shares: int) -> None:
    tail, there = logs
    assert list(flags_of(tail, there, shares)) == by_hand(tail, there)


@given(logs=two_logs(), same=st.sampled_from(Same), compacted=st.booleans())
def test_the_counts_are_those_of_the_fates(
    logs: tuple[list[Record], list[Record]], same: Same, *, compacted: bool
) -> None:
    tail, there = logs
    flags = flags_of(tail, there, 1)
    counts = counted_tail(tail, flags, {"group": 15})
    fates = Counter(fate_of(f, same=same, compacted=compacted) for f in flags)
    assert {fate: counts.of(fate, same=same, compacted=compacted) for fate in TailFate} == {
        f: fates[f] for f in TailFate
    }
    assert counts.records == len(tail)
    assert counts.replayed + counts.alike + counts.changed <= len(tail)
    assert counts.processed.get("group", 0) == sum(r.offset < 15 for r in tail)
    # No record is left out without a reason on the new primary.
    sent = Counter((r.key, r.value, r.headers) for r, f in zip(tail, flags, strict=True)
                   if fate_of(f, same=Same.CONTENT, compacted=False) is TailFate.SEND)  # fmt: skip
    bare = [r._replace(headers=tuple(h for h in r.headers if h[0] != HEADER)) for r in there]
    after = sent + Counter((r.key, r.value, r.headers) for r in bare)
    wanted = Counter((r.key, r.value, r.headers) for r in tail)
    assert not wanted - after, "every record of the tail is there afterwards"


@given(two_logs())
def test_a_newer_value_stays_on_a_compacted_topic(logs: tuple[list[Record], list[Record]]) -> None:
    tail, there = logs
    clients = {r.key for r in there if ORIGIN.offset_of(r.headers) is None and r.key is not None}
    for same in Same:
        sent = [r for r, f in zip(tail, flags_of(tail, there, 1), strict=True)
                if fate_of(f, same=same, compacted=True) is TailFate.SEND]  # fmt: skip
        assert not clients & {r.key for r in sent}


def test_only_a_record_with_the_content_of_its_place_counts_as_replayed() -> None:
    tail = [Record(10, 0, b"a", b"1"), Record(12, 0, b"b", b"2")]
    forged = ORIGIN.stamped(Record(12, 0, b"a", b"1"))
    assert list(flags_of(tail, [forged], 1)) == [0, 0]
    other = Origin("cluster", TopicPartition("orders", 4), "run").stamped(tail[0])
    assert list(flags_of(tail, [other], 1)) == [TailFlag.ALIKE | TailFlag.KEY_CHANGED, 0], (
        "of another partition"
    )


def test_passes() -> None:
    assert [shares_of(n, 100) for n in (0, 1, 50, 51, 101)] == [1, 1, 1, 2, 3]


def test_changed_keys_are_named_once_each_and_not_too_many() -> None:
    tail = [Record(n, 0, b"k%d" % n, b"old") for n in range(30)]
    there = [Record(n, 0, b"k%d" % n, b"new") for n in range(0, 30, 1)]
    counts = counted_tail(tail, flags_of(tail, there, 1))
    assert counts.changed == 30
    assert counts.changed_keys == tuple(ChangedKey(n, b"k%d" % n) for n in range(20))


def test_flags_that_do_not_fit_the_tail() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        counted_tail([Record(0, 0, None, None)], b"")


@pytest.mark.parametrize(
    "value",
    [
        b"", b"cluster/orders-3@", b"cluster/orders-3@7", b"cluster/orders-3@/run",
        b"cluster/orders-3@07/run", b"cluster/orders-3@-7/run",
        b"cluster/orders-3@7/run/x", b"other/orders-3@7/run", b"cluster/orders-31@7/run", None,
    ],
)  # fmt: skip
def test_a_header_that_names_no_place_of_this_tail(value: bytes | None) -> None:
    assert ORIGIN.offset_of(((HEADER, value),)) is None


def test_the_last_header_counts() -> None:
    record = Record(7, 0, b"k", b"v", ((HEADER, b"cluster/orders-3@1/earlier"), (b"h", b"")))
    stamped = ORIGIN.stamped(record)
    assert stamped.headers == (*record.headers, (HEADER, b"cluster/orders-3@7/run"))
    assert ORIGIN.offset_of(stamped.headers) == 7
    assert content_hash(stamped) == content_hash(record._replace(headers=((b"h", b""),), timestamp=9))


@given(CONTENTS, CONTENTS)
def test_different_contents_have_different_hashes(
    one: tuple[bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]],
    other: tuple[bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]],
) -> None:
    a, b = Record(0, 0, *one), Record(1, 1, *other)
    assert (content_hash(a) == content_hash(b)) is (one == other)
    assert key_hash(b"a") != key_hash(b"b")
