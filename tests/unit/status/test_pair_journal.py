"""The run that is under way, from records of a journal: of any table, also of a later drkit."""

from __future__ import annotations

import json
from typing import Any

from drkit.errors import Failed
from drkit.journal.entries import Assembly, EntryKind, JournalEntry, JournalHistory, parts_of, read_history
from drkit.journal.machine import RETURN, StepName
from drkit.status.pair.journal import JournalRuns
from tests.support.errors import made

OPENING: dict[str, Any] = {"scope": {"topics": {"orders": "p.orders"}}, "holder": {"token": "t"}}


def entry(number: int, kind: str, step: str | None = None, **more: Any) -> bytes:
    body = more.pop("body", {})
    return json.dumps({
        "v": 1, "run_id": "r1", "number": number, "by": "t", "term": 1, "kind": kind, "step": step,
        "effect": "", "at_ms": WRITTEN_MS, "body": body, **more,
    }).encode()  # fmt: skip


WRITTEN_MS = 5


def history(*values: bytes) -> JournalHistory:
    assembly = Assembly(tolerant=True)
    return read_history(filter(None, map(assembly.take, values)))


def runs(*values: bytes, now_ms: int = WRITTEN_MS, alive: bool | None = True) -> JournalRuns:
    return JournalRuns.of(history(*values), now_ms, lambda _process: alive)


def test_the_step_of_a_failover():
    found = runs(entry(0, "run", body=OPENING), entry(1, "intent", "FENCE")).current
    assert found is not None
    assert (found.table, found.step, found.topics) == ("failover", "FENCE", frozenset({"orders", "p.orders"}))
    assert found.in_words == "FENCE"


def test_the_steps_of_a_return_are_shown_though_the_failover_does_not_know_them():
    opening = entry(0, "run", body={**OPENING, "table": "return"})
    found = runs(
        opening, entry(1, "intent", "CONTACT"), entry(2, "result", "CONTACT"), entry(3, "intent", "X")
    ).current
    assert found is not None
    assert (found.table, found.in_words) == (RETURN.name, "X")


def test_a_held_run_says_why_until_it_is_resumed():
    held = [
        entry(0, "run", body=OPENING),
        entry(1, "held", "DRAIN", body={"error": made(Failed, "late").as_dict()}),
    ]
    found = runs(*held).current
    assert found is not None
    assert found.in_words == "LOCK, held: late"
    resumed = runs(
        *held, entry(2, "hold", by="u", body={"holder": {"token": "u"}}), entry(3, "intent", "OPEN", by="u")
    )
    assert resumed.current is not None
    assert resumed.current.in_words == "OPEN"
    overtaken = runs(
        *held, entry(2, "hold", by="u", body={"holder": {"token": "u"}}), entry(3, "intent", "OPEN")
    )
    assert overtaken.current is not None
    assert overtaken.current.step == "", "an overtaken process does not count"


def test_a_run_ends():
    over = entry(0, "run", body=OPENING), entry(1, "end", body={"state": "done"})
    assert runs(*over).current is None
    assert runs(*over, over[0]).current is None, "a copy of its first record begins no run"


def test_how_the_fence_of_a_run_ended():
    result = entry(1, "result", "FENCE", body={"evidence": {"how": "stopped", "proven": True}})
    assert runs(entry(0, "run", body=OPENING), result).fences == {"r1": "stopped"}


def test_what_is_no_entry_is_passed_over():
    found = runs(
        b"\xff", b"[]", b"{}", b'{"part_of": 3}', entry(0, "run", body=OPENING), b"null", b"[" * 9999
    )
    assert found.current is not None


def test_entries_of_several_records():
    topics = {f"topic-{n}-{'x' * 200}": f"topic-{n}" for n in range(6000)}
    large = JournalEntry(
        "r1",
        0,
        "t",
        1,
        EntryKind.RUN,
        None,
        effect="",
        at_ms=5,
        body={**OPENING, "scope": {"topics": topics}},
    )
    step = JournalEntry("r1", 1, "t", 1, EntryKind.INTENT, StepName.OPEN, effect="", at_ms=5, body={})
    records = parts_of(large)
    assert len(records) > 1
    found = runs(records[0], *records, *parts_of(step)).current
    assert found is not None
    assert len(found.topics) == 12_000
    assert found.step == "OPEN"


def test_a_run_whose_open_has_begun_says_so_also_while_an_earlier_step_is_repeated():
    begun = [entry(0, "run", body=OPENING), entry(1, "intent", "FENCE")]
    opening = [*begun, entry(2, "intent", "OPEN")]
    for values, has_opened in (
        (begun, False),
        (opening, True),
        ([*opening, entry(3, "intent", "FENCE")], True),
    ):
        found = runs(*values).current
        assert found is not None
        assert found.has_opened is has_opened


def test_a_run_whose_process_is_gone_or_silent_is_held():
    written = entry(0, "run", body=OPENING), entry(1, "intent", "FENCE")
    wrote = WRITTEN_MS
    for now_ms, alive, held in (
        (wrote + 14_000, True, ""),
        (wrote + 16_000, True, "written nothing for 16 s"),
        (wrote + 59_000, None, ""),
        (wrote + 61_000, None, "written nothing for 61 s"),
        (wrote, False, "is gone"),
        (wrote - 59_000, None, ""),
        (wrote - 61_000, None, "is unknown: the clock of"),
    ):
        found = runs(*written, now_ms=now_ms, alive=alive).current
        assert found is not None
        assert held in found.held
        assert bool(found.held) is bool(held)
