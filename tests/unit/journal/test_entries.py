"""The journal's entries: every reader gets the same answer, in whatever order they were written."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
import pytest

from drkit.journal.entries import (
    Assembly,
    EntryKind,
    JournalEntry,
    RunLog,
    parts_of,
    read_history,
)
from drkit.journal.lost import violations
from drkit.journal.machine import (
    FAILOVER,
    ORDER,
    RETURN,
    TABLE,
    TABLES,
    RunState,
    StepName,
    Table,
)
from drkit.wire import Record, encode
from tests.support.examples import times


def entry(
    run: str, number: int, by: str, kind: EntryKind, step: StepName | None = None, **more: Any
) -> JournalEntry:
    body = {"holder": {"token": by}} if kind in {EntryKind.RUN, EntryKind.HOLD} else {}
    return JournalEntry(
        run,
        number,
        by,
        1,
        kind,
        step,
        more.get("effect", ""),
        1000 + number,
        {**body, **more.get("body", {})},
    )


def whole_run(run: str = "r", by: str = "a", table: Table = FAILOVER) -> list[JournalEntry]:
    """All entries of a run that nothing disturbs."""
    told = [(kind, step) for step in table.order for kind in (EntryKind.INTENT, EntryKind.RESULT)]
    begun = entry(run, 0, by, EntryKind.RUN, body={"holder": {"token": by}, "table": table.name})
    entries = [begun, *(entry(run, n, by, kind, step) for n, (kind, step) in enumerate(told, 1))]
    return [*entries, entry(run, len(entries), by, EntryKind.END, body={"state": "done"})]


def log_of(entries: list[JournalEntry]) -> RunLog:
    history = read_history(entries)
    assert history.last is not None
    return history.last


def test_the_table_has_every_step_once_and_one_point_of_no_return() -> None:
    assert [row.step for row in TABLE] == list(StepName)[: len(TABLE)]
    assert {step for table in TABLES.values() for step in table.order} == set(StepName)
    late = [row.step for row in TABLE if not row.abortable]
    assert late == list(ORDER[ORDER.index(FAILOVER.point_of_no_return) :]), (
        "after the point of no return no step can be undone"
    )


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_whole_run_follows_the_table(table: Table) -> None:
    run = log_of(whole_run(table=table))
    assert run.table is table
    assert run.state is RunState.DONE
    assert not violations(run)
    assert not run.abortable


@given(st.sampled_from(list(TABLES.values())), st.data())
def test_any_prefix_follows_the_table_and_a_missing_entry_is_seen(table: Table, data: st.DataObject) -> None:
    """I11: every interrupted prefix is a legal journal; one with a hole is not."""
    entries = whole_run(table=table)
    cut = data.draw(st.integers(1, len(entries) - 2))
    assert not violations(log_of(entries[:cut]))
    holed = [e for n, e in enumerate(entries) if n != cut]
    assert violations(log_of(holed))


@given(st.data())
def test_of_two_that_began_at_once_every_reader_sees_the_same_one(data: st.DataObject) -> None:
    one, two = whole_run("one", "a"), whole_run("two", "b")
    mixed: list[JournalEntry] = []
    rest = [list(one), list(two)]
    while any(rest):
        side = data.draw(st.sampled_from([r for r in rest if r]))
        mixed.append(side.pop(0))
    first = mixed[0].run_id
    history = read_history(mixed)
    assert next(iter(history.runs)) == first
    assert history.runs[first].state is RunState.DONE
    # The other one counts only if it began when the first was over.
    ended = next(n for n, e in enumerate(mixed) if e.run_id == first and e.kind is EntryKind.END)
    late = next(n for n, e in enumerate(mixed) if e.run_id != first)
    assert (len(history.runs) == 2) is (late > ended)


def test_what_an_overtaken_process_wrote_does_not_count() -> None:
    entries = whole_run()[:4]
    taken = entry("r", 4, "b", EntryKind.HOLD)
    late = entry("r", 4, "a", EntryKind.RESULT, StepName.SNAPSHOT)
    run = log_of([*entries, taken, late])
    assert run.holder["token"] == "b"
    assert StepName.SNAPSHOT not in run.results
    own = entry("r", 5, "b", EntryKind.RESULT, StepName.SNAPSHOT)
    assert StepName.SNAPSHOT in log_of([*entries, taken, late, own]).results


def test_states_of_a_run() -> None:
    early = FAILOVER.order[: FAILOVER.order.index(StepName.DRAIN)]
    begun = [e for e in whole_run() if e.step is None or e.step in early][:-1]
    held = entry("r", 20, "a", EntryKind.HELD, StepName.DRAIN, body={"error": {"error": "lag"}})
    assert log_of([*begun, held]).state is RunState.HELD
    assert log_of([*begun, held, entry("r", 21, "b", EntryKind.HOLD)]).state is RunState.RUNNING
    abort = entry("r", 21, "a", EntryKind.ABORT)
    assert log_of([*begun, held, abort]).state is RunState.ABORTING
    again = log_of([*begun, held, abort, entry("r", 22, "b", EntryKind.HOLD)])
    assert again.state is RunState.ABORTING, "an abort that was killed continues as one"
    end = entry("r", 23, "a", EntryKind.END, body={"state": "aborted"})
    history = read_history([*begun, held, abort, end])
    assert history.open is None
    assert history.last is not None
    assert history.last.state is RunState.ABORTED


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_an_abort_after_the_point_of_no_return_is_seen(table: Table) -> None:
    entries = whole_run(table=table)
    late = max(n for n, e in enumerate(entries) if e.step is table.last_abort) + 1
    run = log_of([*entries[:late], entry("r", late, "a", EntryKind.ABORT)])
    assert any(f"an abort after {table.last_abort}" in what for what in violations(run))


def test_a_step_of_the_other_table_does_not_count() -> None:
    begun = whole_run(table=RETURN)[:3]
    foreign = entry("r", 3, "a", EntryKind.INTENT, StepName.SNAPSHOT)
    assert log_of([*begun, foreign]).entries == begun


@pytest.mark.parametrize("letter", ["x", "ü", '"', "\\", "→", "😀", "\x01"])
@given(size=st.integers(0, 1_500_000))
@example(size=399_000)
@example(size=1_048_000)
@settings(max_examples=times(0.1))
def test_large_entries_travel_in_parts(size: int, letter: str) -> None:
    """Every part is taken by a broker with Kafka's default for max.message.bytes, whatever the letters."""
    large = entry("r" * 12, 0, "a", EntryKind.RUN, body={"text": letter * size})
    parts = parts_of(large)
    batches = [encode([Record(0, 1, b"r" * 12, part)], 0) for part in parts]
    assert max(map(len, batches)) <= 1_048_588
    assert len(parts) <= 1 + sum(map(len, parts)) // 500_000, "and is not cut smaller than needed"
    assembly = Assembly()
    found = [assembly.take(p) for p in parts]
    assert found[-1] == large
    assert found[:-1] == [None] * (len(parts) - 1)


def test_parts_of_an_entry_that_was_never_finished_say_nothing() -> None:
    large = parts_of(entry("r", 0, "a", EntryKind.RUN, body={"text": "x" * 2_100_000}))
    assert len(large) > 2
    assembly = Assembly()
    for part in large[:-1]:
        assert assembly.take(part) is None
    whole = entry("r", 0, "b", EntryKind.RUN)
    assert assembly.take(parts_of(whole)[0]) == whole
    assert [assembly.take(p) for p in large][-1] is not None
    with pytest.raises(ValueError, match="Expecting value"):
        assembly.take(b"foreign")
