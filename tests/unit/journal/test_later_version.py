"""One reader of the journal for those that act on it and those that show it, also a later drkit's."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from drkit.journal.entries import (
    Assembly,
    EntryKind,
    JournalEntry,
    JournalHistory,
    parts_of,
    read_history,
)
from drkit.journal.machine import FAILOVER, TABLES, RunState, StepName, Table
from drkit.status.pair.journal import JournalRuns
from tests.support.examples import times
from tests.support.recorded import FILE

HOLDER = {"holder": {"token": "a"}}


def raw(number: int, kind: str, step: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "v": 1, "run_id": "r", "number": number, "by": "a", "term": 1, "kind": kind, "step": step,
        "effect": "", "at_ms": 1, "body": {}, **more,
    }  # fmt: skip


BEGUN = (raw(0, "run", body=HOLDER), raw(1, "intent", "FENCE"))


def read(values: list[bytes], *, tolerant: bool) -> JournalHistory:
    assembly, history = Assembly(tolerant=tolerant), JournalHistory()
    for value in values:
        entry = assembly.take(value)
        if entry is not None:
            history.take(entry)
    return history


def shown(values: list[bytes], now_ms: int = 1) -> JournalRuns:
    return JournalRuns.of(read(values, tolerant=True), now_ms, lambda _holder: True)


@pytest.mark.parametrize(
    ("later", "step"),
    [
        (raw(2, "paused", "FENCE"), "FENCE"),
        (raw(2, "intent", "PREPARE"), "PREPARE"),
        (raw(2, "intent", "DRAIN", v=2), "DRAIN"),
        (raw(2, "intent", "DRAIN", zone="eu"), "DRAIN"),
        (raw(2, "end", body={"state": "forked"}), "FENCE"),
        (raw(2, "intent", "DRAIN", body=["a list"]), "FENCE"),
        (raw(2, "hold", body={"holder": "a text"}), "FENCE"),
    ],
)
def test_a_later_drkits_entry_is_shown_or_passed_over_and_a_failover_refuses_it(
    later: dict[str, Any], step: str
):
    values = [json.dumps(each).encode() for each in (*BEGUN, later, raw(3, "result", "FENCE"))]
    found = shown(values).current
    assert found is not None
    assert found.step == step
    with pytest.raises(ValueError, match=r".+"):
        read(values, tolerant=False)


@pytest.mark.parametrize(
    "scope",
    [
        {"topics": {"orders": "p.orders"}},
        {"topics": ["orders", "p.orders"]},
        {"topics": 5},
        {"topics": {"orders": ["p.orders"]}},
        ["orders"],
        None,
    ],
)
def test_a_run_of_a_later_table_is_shown_without_a_command(scope: Any):
    values = [
        json.dumps(each).encode()
        for each in (
            raw(0, "run", body={**HOLDER, "table": "merge", "scope": scope}),
            raw(1, "intent", "SNAPSHOT"),
            raw(2, "result", "FENCE", body={"evidence": "none"}),
            raw(3, "held", "SNAPSHOT", body={"error": {"error": "lag"}}),
        )
    ]
    found = shown(values).current
    assert found is not None
    assert (found.table, found.in_words) == ("merge", "SNAPSHOT, held: lag")
    assert found.leads_on("p->s") == ""
    assert found.covers("orders")
    with pytest.raises(ValueError, match="another version"):
        read(values, tolerant=False)


ACTS = st.tuples(
    st.sampled_from(["a", "b"]),
    st.sampled_from([*EntryKind]),
    st.sampled_from([None, *StepName]),
    st.sampled_from(["", "", "e"]),
    st.sampled_from(["aborted", "refused", "done", "running"]),
    st.integers(0, 3),
)


@given(st.sampled_from(list(TABLES.values())), st.lists(ACTS, max_size=30))
@settings(max_examples=times(1))
def test_whoever_shows_a_journal_and_whoever_acts_on_it_see_the_same_run(table: Table, acts: list[Any]):
    """Two processes, each of which may have been overtaken; copies of earlier entries; every kind."""
    values = []
    for number, (by, kind, step, effect, state, back) in enumerate(acts):
        body = {"holder": {"token": by}, "table": table.name, "state": state}
        needed = step or table.order[0] if kind in {EntryKind.INTENT, EntryKind.RESULT} else step
        entry = JournalEntry("r", max(0, number - back), by, 1, kind, needed, effect, number, body)
        values += parts_of(entry)
    acting, showing = read(values, tolerant=False), shown(values, len(values))
    run, seen = acting.open, showing.current
    assert (run is None) is (seen is None)
    if run is None or seen is None:
        return
    assert (seen.run_id, seen.table) == (run.run_id, run.table.name)
    assert seen.aborting is (run.state is RunState.ABORTING)
    assert bool(seen.held) is run.is_left
    assert seen.has_opened is (StepName.OPEN in run.begun)
    assert (seen.step in run.begun) if run.begun else not seen.step


@pytest.mark.parametrize("tolerant", [True, False])
def test_recorded_entries_are_read_alike(*, tolerant: bool):
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    values = [text.encode() for name, text in recorded.items() if name.startswith("journal ")]
    history = read(values, tolerant=tolerant)
    assert len(values) == 3
    [run] = history.runs.values()
    assert (run.run_id, run.term, run.state) == ("r-1", 3, RunState.RUNNING)
    assert len(run.entries) == 1, "the others are of a process that does not hold the run"


def test_what_is_over_is_forgotten_and_a_copy_of_it_begins_nothing():
    values = [json.dumps(each).encode() for each in BEGUN]
    how = raw(2, "result", "FENCE", body={"evidence": {"how": "acl"}})
    values += [json.dumps(each).encode() for each in (how, raw(3, "end", body={"state": "done"}))]
    history = read(values, tolerant=True)
    before = history.term
    history.forget_ended({StepName.FENCE})
    for value in values:
        entry = Assembly(tolerant=True).take(value)
        assert entry is not None
        history.take(entry)
    assert (history.open, history.term, history.runs["r"].entries) == (None, before, [])
    assert JournalRuns.of(history, 1) == JournalRuns(None, {"r": "acl"}, frozenset("r"), frozenset("r"))


def test_thousands_of_renewals_are_read_in_a_moment():
    """A step that waits for a day repeats its intent every four seconds."""
    entries = [JournalEntry("r", 0, "a", 1, EntryKind.RUN, None, "", 0, {**HOLDER, "table": FAILOVER.name})]
    renewal = entries[0]._replace(kind=EntryKind.INTENT, step=StepName.DRAIN, body={"renewed": True})
    entries += [renewal._replace(number=number, at_ms=4000 * number) for number in range(1, 20_000)]
    began = process_time()
    history = read_history(entries)
    assert process_time() - began < 2
    assert history.open is not None
    assert len(history.open.entries) == 20_000
