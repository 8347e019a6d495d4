"""The record of a fence on the source: what follows from the order of its entries."""

from __future__ import annotations

from itertools import count

import pytest

from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.source_fence.entries import ANY_RUN, FenceEntry, FenceLog, FenceMark
from tests.support.flow_state.old_bytes import FENCE_ENTRIES

RAISED, OPENING, OPENED, ABORTED = FenceMark.RAISED, FenceMark.OPENING, FenceMark.OPENED, FenceMark.ABORTED
_numbers = count()
DENY = {"acl": ["TOPIC", "LITERAL", "", "User:app", "*", "WRITE", "DENY"], "names": ["a"]}


def entry(mark: FenceMark, run: str = "one", *topics: str, **more: object) -> FenceEntry:
    sizes = dict.fromkeys(topics, "7") if mark is RAISED else {}
    raw = {"mark": mark.value, "run_id": run, "token": str(next(_numbers)), "flow": "p->s", "term": 1}
    return FenceEntry.of({**raw, "at_ms": 5, "topics": list(topics), "sizes": sizes, **more})


def read(*entries: FenceEntry) -> FenceLog:
    log = FenceLog()
    for one in entries:
        log.take(one)
    return log


def mark(*entries: FenceEntry) -> FenceMark:
    return read(entry(RAISED, "one", "a"), *entries).records["one"].mark


def test_the_first_of_an_abort_and_of_open_counts():
    assert mark(entry(ABORTED), entry(OPENING)) is ABORTED
    assert mark(entry(OPENING), entry(ABORTED)) is OPENING
    assert mark(entry(OPENING), entry(ABORTED), entry(OPENED)) is OPENED
    assert mark(entry(ABORTED), entry(RAISED, "one", "a"), entry(OPENING)) is ABORTED


def test_a_statement_aborts_what_is_about_to_open_and_not_what_is_open():
    lost = entry(ABORTED, why="it burnt down")
    assert mark(entry(OPENING), lost) is ABORTED
    assert mark(entry(OPENING), entry(OPENED), lost) is OPENED


def test_an_abort_ends_once_the_target_is_open_by_its_journal() -> None:
    aborted = read(entry(RAISED, "one", "a"), entry(OPENING), entry(ABORTED, why="it burnt down"))
    assert aborted.records["one"].mark is ABORTED
    assert aborted.with_opened(["one"]).records["one"].mark is OPENED
    assert aborted.with_opened(["two"]).records == aborted.records
    aborted.take(entry(OPENED))
    assert aborted.records["one"].mark is OPENED


def test_an_aborted_run_says_whether_it_may_have_opened_its_target():
    lost = entry(ABORTED, why="it burnt down")
    for before in ((), (entry(OPENING),)):
        found = read(entry(RAISED, "one", "a"), *before, lost).records["one"]
        assert (found.is_aborted, found.may_be_open) == (True, bool(before))


def test_a_person_lets_an_aborted_run_go_on():
    lost, on = entry(ABORTED, why="it burnt down"), entry(RAISED, why="it did not")
    assert mark(entry(OPENING), lost, on) is OPENING
    assert mark(entry(OPENING), lost, on, entry(OPENED)) is OPENED


def test_the_value_before_the_first_fence_counts():
    log = read(entry(RAISED, "one", "a"), entry(RAISED, "one", "a", "b", sizes={"a": "0", "b": None}))
    assert log.records["one"].sizes == {"a": "7", "b": None}


def test_a_later_run_takes_the_topics_that_it_fences():
    log = read(entry(RAISED, "one", "a", "b"), entry(RAISED, "two", "b", "c"))
    assert [(r.run_id, sorted(r.topics)) for r in log.open] == [("one", ["a"]), ("two", ["b", "c"])]
    log.take(entry(FenceMark.TAKEN, "three", "a", "c"))
    assert [(r.run_id, sorted(r.own_sizes)) for r in log.open] == [("two", ["b"])]
    log.take(entry(FenceMark.TAKEN, ANY_RUN, "b"))
    assert not log.open


def test_a_fence_is_unowned_where_the_target_knows_neither_it_nor_its_run():
    log = read(entry(RAISED, "one", "a", "b"), entry(RAISED, "two", "c"), entry(OPENING, "two"))

    def unowned(fenced: str = "", *runs: str, lost: str = "") -> str:
        found = log.unowned(fenced, runs, [lost])
        return " ".join(f"{r.run_id}:{''.join(sorted(r.topics))}" for r in found)

    assert (unowned(), unowned("ac"), unowned("", "one")) == ("one:ab two:c", "one:b", "two:c")
    log.take(entry(OPENED, "two"))
    assert (unowned(), unowned(lost="two")) == ("one:ab", "one:ab two:c")
    for mark_ in (ABORTED, FenceMark.LIFTED):
        log.take(entry(mark_, "one", "a", "b"))
    assert not unowned()


def test_an_aborted_run_takes_nothing():
    log = read(entry(RAISED, "one", "a"), entry(ABORTED), entry(RAISED, "two", "a"))
    assert not log.records["one"].topics
    log.take(entry(RAISED, "one", "a"))
    assert log.records["two"].topics == {"a"}


def test_what_was_lifted_is_over_and_an_abort_at_the_source_may_be_repeated():
    log = read(entry(RAISED, "one", "a", "b"), entry(ABORTED), entry(FenceMark.LIFTED, "one", "a", "b"))
    assert [r.lifted for r in log.open] == [True]
    log.take(entry(FenceMark.LIFTED, ANY_RUN, "a", "b"))
    assert not log.open
    assert log.records["one"].is_aborted


def test_only_acls_of_its_own_topics_are_lifted():
    log = read(entry(RAISED, "one", "a", "b", acls=[DENY]))
    assert len(log.records["one"].own_acls) == 1
    log.take(entry(FenceMark.LIFTED, ANY_RUN, "a"))
    assert not log.records["one"].own_acls


@pytest.mark.parametrize("value", FENCE_ENTRIES)
def test_stored_entries_are_read_and_written_the_same(value: bytes):
    assert FenceEntry.decode(value).encode() == value


def test_it_is_read_as_it_was_written():
    one = entry(RAISED, "one", "a", acls=[DENY], method="acl")
    assert FenceEntry.decode(one.encode()) == one
    with pytest.raises(Malformed):
        FenceEntry.decode(b'{"mark": "open"}')
    with pytest.raises(Malformed):
        FenceEntry.decode(one.encode().replace(b'"raised"', b'"other"'))
