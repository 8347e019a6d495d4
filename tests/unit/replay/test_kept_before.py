"""A return that was to keep a tail is rolled back partway; then it is replayed, each record once. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.errors import Refused
from drkit.flow_state.codec.fields import Malformed
from drkit.model import TopicPartition
from drkit.replay.compare import ContentTally, KeptBefore, Origin, Same, TailFate, TailFlag, fate_of
from drkit.replay.plan import kept_before, refuse_other_way, refuse_repeats
from drkit.replay.progress import ReplayBook, ReplayProgress
from drkit.replay.tail import Tail
from drkit.wire import Record
from tests.support.errors import coded

AT = TopicPartition("orders", 0)
TOPIC = UUID(int=1)
VALUES = st.sampled_from([None, b"1", b"2"])
CONTENTS = st.tuples(st.sampled_from([None, b"a"]), VALUES)
LEFT = ReplayProgress(
    run_id="r1", manifest="0" * 64, source_topic="orders", source_id=TOPIC, partition=0, first=10, end=20,
    topic="orders", topic_id=UUID(int=2), same=Same.CONTENT, compared_to=50, records=8, next=15, appended=4,
    ids=(7,), copied_to=60, rolled_back_ms=1,
)  # fmt: skip


class Logs(NamedTuple):
    """A tail, how much of it a return has appended, and the new primary's log: by that return, or not."""

    tail: list[Record]
    next: int
    there: list[tuple[Record, bool]]


@st.composite
def logs(draw: st.DrawFn) -> Logs:
    tail = [Record(10 + n, n, *c) for n, c in enumerate(draw(st.lists(CONTENTS, min_size=1, max_size=10)))]
    number = draw(st.integers(0, len(tail)))
    clients = [Record(0, 5, *c) for c in draw(st.lists(CONTENTS, max_size=8))]
    by_whom = draw(st.permutations([True] * number + [False] * len(clients)))
    kept, others = iter(tail[:number]), iter(clients)
    return Logs(tail, 10 + number, [(next(kept) if mine else next(others), mine) for mine in by_whom])


def origin_of(run: str) -> Origin:
    return Origin("c", AT, run)


def flags_of(found: Logs, progress: ReplayProgress, run: str, shares: int = 1) -> bytes:
    """The flags, by the parts that a plan has."""
    end = found.tail[-1].offset + 1
    tail = Tail(origin_of(run), TOPIC, 10, end, len(found.tail), lambda _: iter(found.tail), 1)
    kept = kept_before(tail, [progress])
    flags = bytearray(len(found.tail))
    for share in range(shares):
        tally = ContentTally(tail.origin, share, shares, kept)
        for record in found.tail:
            tally.expect(record)
        for record, is_kept in found.there:
            (tally.see_kept if is_kept and kept.ids else tally.see)(record)
        for number, record in enumerate(found.tail):
            flags[number] |= tally.flags(record)
    return bytes(flags)


@given(found=logs(), run=st.sampled_from(["r1", "r2"]), shares=st.integers(1, 3))
def test_each_record_is_counted_once(found: Logs, run: str, shares: int) -> None:
    number = found.next - 10
    progress = replace(
        LEFT, next=found.next, appended=number, records=len(found.tail), end=10 + len(found.tail),
        ids=(7,) if number else (),
    )  # fmt: skip
    flags = flags_of(found, progress, run, shares)
    assert [bool(f & TailFlag.REPLAYED) for f in flags] == [n < number for n in range(len(flags))]
    sent = {
        same: [
            r for r, f in zip(found.tail, flags, strict=True)
            if fate_of(f, same=same, compacted=False) is TailFate.SEND
        ]
        for same in Same
    }  # fmt: skip
    assert sent[Same.NONE] == found.tail[number:], "what is missing, and nothing twice"
    clients = Counter(r[2:] for r, is_kept in found.there if not is_kept)
    left = Counter(r[2:] for r in found.tail[number:])
    assert Counter(r[2:] for r in sent[Same.CONTENT]) == left - clients, "clients' records alone are compared"


def test_what_is_not_there_is_sent_and_what_retention_removed_is_believed() -> None:
    """The new primary may have lost it, or the old one may have other records at these offsets since."""
    tail = [Record(10, 0, b"a", b"1"), Record(11, 0, b"b", b"2"), Record(12, 0, b"c", b"3")]
    for is_readable, wanted in ((True, [TailFlag.REPLAYED, 0, 0]), (False, [TailFlag.REPLAYED] * 2 + [0])):
        tally = ContentTally(origin_of("r2"), kept=KeptBefore(((10, 12),), frozenset({7}), is_readable))
        for record in tail:
            tally.expect(record)
        tally.see_kept(tail[0])
        tally.see_kept(tail[2])
        assert [tally.flags(r) for r in tail] == wanted


def test_which_progress_counts() -> None:
    tail = Tail(origin_of("r2"), TOPIC, 14, 30, 8, lambda _: iter(()), 1)
    assert kept_before(tail, [LEFT]) == KeptBefore(((10, 15),), frozenset({7}))
    assert kept_before(tail, [replace(LEFT, rolled_back_ms=None, next=20)]).has(19)
    for other in (
        replace(LEFT, next=14), replace(LEFT, source_id=UUID(int=9)), replace(LEFT, ids=None),
        replace(LEFT, ids=(), appended=0), replace(LEFT, first=30, next=31, end=40),
    ):  # fmt: skip
        assert kept_before(tail, [other]) == KeptBefore()


def test_it_stays_on_record_beside_a_replay_of_the_same_export() -> None:
    again = replace(LEFT, next=10, appended=0, ids=None, copied_to=None, rolled_back_ms=None)
    values = {
        again.key: again.encode(),
        LEFT.rolled_back_key: LEFT.encode(),
        b"later/x": b"of a later version",
    }
    book = ReplayBook.of(values)
    assert book.progress == {again.key: again}
    assert set(book.of_partition(AT).values()) == {again, LEFT}
    assert ReplayBook.of({LEFT.key: LEFT.encode()}).progress == {LEFT.key: LEFT}, "as it was written before"
    with pytest.raises(Malformed, match="it is the record of rolled-back/r1/orders/0"):
        ReplayBook.of({LEFT.key.replace(b"progress", b"rolled-back") + b"0": LEFT.encode()})


def test_a_tail_that_was_begun_and_rolled_back_is_not_kept_again() -> None:
    """By the same export neither: what it would leave out is on the new primary as of nobody's tail."""
    kept = Tail(origin_of("r1")._replace(is_kept=True), TOPIC, 10, 20, 8, lambda _: iter(()), 1)
    with pytest.raises(Refused, check=coded("keep_replayed_before")) as caught:
        refuse_other_way(kept, [LEFT], "s")
    assert caught.value.hint.startswith("drkit reprotect --abort")
    refuse_other_way(kept, [replace(LEFT, appended=0, next=10)], "s")


def test_equal_records_of_clients_are_others_if_that_was_said() -> None:
    alike, kept = bytes([0, TailFlag.ALIKE]), Tail(origin_of("r1"), TOPIC, 10, 20, 8, lambda _: iter(()), 1)
    refuse_repeats(kept, alike, "s", Same.NONE)
    for same in (None, Same.CONTENT):
        with pytest.raises(Refused, check=coded("keep_content_known")) as caught:
            refuse_repeats(kept, alike, "s", same)
        assert "--resume --same none" in caught.value.hint
        assert "drkit reprotect --abort" in caught.value.hint
    with pytest.raises(Refused, check=coded("keep_replayed_before")):
        refuse_repeats(kept, bytes([TailFlag.REPLAYED, TailFlag.ALIKE]), "s", Same.NONE)
