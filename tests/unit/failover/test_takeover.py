"""Taking over a run of another machine: the journal says whether its process still writes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drkit.flow_state.processes import this_process
from drkit.journal.entries import EntryKind, JournalEntry, JournalHistory
from drkit.journal.file import JournalFile
from drkit.journal.journal import OUTLIVE_SECONDS, Journal, RunLocked
from drkit.journal.machine import StepName
from tests.support.errors import sentence


class Log:
    """The journal's topic in memory; the last process that appended has the newest epoch."""

    where = "the journal"

    def __init__(self) -> None:
        self.history = JournalHistory()
        self.later: list[tuple[float, JournalEntry]] = []
        """What another process appends, and when."""
        self.now = 0.0

    def read(self) -> None:
        for _, entry in [x for x in self.later if x[0] <= self.now]:
            self.history.take(entry)
        self.later = [x for x in self.later if x[0] > self.now]

    def append(self, entry: JournalEntry) -> bool:
        self.history.take(entry)
        return True

    def take_epoch(self) -> None:
        pass

    def entry(self, kind: EntryKind, step: StepName | None = None, **body: Any) -> JournalEntry:
        number = len(self.history.runs["r"].entries) if self.history.runs else 0
        return JournalEntry("r", number, "old", 1, kind, step, "", 0, body)


def begun(host: str, *, held: bool = False) -> tuple[Log, Journal]:
    """A run that another process began."""
    log = Log()
    holder = {**this_process().to_json(), "token": "old", "host": host, "pid": 1, "space": "other"}
    log.append(log.entry(EntryKind.RUN, holder=holder))
    log.append(log.entry(EntryKind.INTENT, StepName.DRAIN))
    if held:
        log.append(log.entry(EntryKind.HELD, StepName.DRAIN, error={}))

    def run(work: Any, *args: Any) -> Any:
        return work(*args)

    def sleep(seconds: float) -> None:
        log.now += seconds

    loop: Any = SimpleNamespace(run=run, sleep=sleep)
    return log, Journal(loop, log, JournalFile(Path("/nowhere"), "r"), "r", clock=lambda: log.now)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JournalFile, "append", lambda *_: None)
    monkeypatch.setattr(JournalFile, "compare", lambda *_: None)


def test_a_run_that_is_still_written_is_not_taken_over() -> None:
    log, journal = begun("elsewhere")
    log.later = [(OUTLIVE_SECONDS - 3, log.entry(EntryKind.INTENT, StepName.DRAIN, renewed=True))]
    with pytest.raises(RunLocked, match=sentence("run_locked", table="failover")) as caught:
        journal.take_over({})
    assert "host elsewhere" in caught.value.where
    assert "it wrote an entry while this process looked on" in caught.value.evidence
    assert "--take-over" in caught.value.hint
    assert log.history.runs["r"].holder["token"] == "old", "nothing was taken"


def test_a_run_without_new_entries_is_taken_over_after_a_while() -> None:
    log, journal = begun("elsewhere")
    journal.take_over({})
    assert log.now >= OUTLIVE_SECONDS
    assert log.history.runs["r"].holder["token"] == journal.token


@pytest.mark.parametrize(("held", "at_once"), [(True, False), (False, True)])
def test_one_that_is_held_or_known_to_be_dead_is_taken_over_at_once(*, held: bool, at_once: bool) -> None:
    log, journal = begun("elsewhere", held=held)
    journal.take_over({}, at_once=at_once)
    assert log.now == 0
    assert log.history.runs["r"].holder["token"] == journal.token


@pytest.mark.parametrize("held", [True, False])
def test_a_living_process_that_held_its_run_does_not_block_a_takeover(*, held: bool) -> None:
    """`drkit watch` in mode auto: a person resumes on the same machine what it has held."""
    log, journal = begun("here", held=held)
    log.history.runs["r"].holder = {**this_process().to_json(), "token": "old"}
    if held:
        journal.take_over({})
        assert log.now == 0
        assert log.history.runs["r"].holder["token"] == journal.token
        return
    with pytest.raises(RunLocked, match=sentence("run_locked", table="failover")):
        journal.take_over({}, at_once=True)


def test_a_step_that_waits_says_that_its_process_lives() -> None:
    log, journal = begun("elsewhere", held=True)
    journal.take_over({})
    known = len(journal.run.entries)
    for kind in (EntryKind.INTENT, EntryKind.RESULT):
        journal.write(kind, StepName.DRAIN, "", {})
        for _ in range(100):
            log.now += 0.1
            journal.renew()
    kinds = [e.kind for e in journal.run.entries[known:]]
    assert kinds == [EntryKind.INTENT, EntryKind.INTENT, EntryKind.INTENT, EntryKind.RESULT], (
        "often enough, and only in a step"
    )


def test_one_that_was_overtaken_says_nothing_more() -> None:
    log, journal = begun("elsewhere", held=True)
    journal.take_over({})
    journal.write(EntryKind.INTENT, StepName.DRAIN, "", {})
    holder = {**journal.run.holder, "token": "third"}
    log.append(JournalEntry("r", 9, "third", 1, EntryKind.HOLD, None, "", 0, {"holder": holder}))
    known = len(journal.run.entries)
    log.now += 60.0
    journal.renew()
    assert len(journal.run.entries) == known, "its entry does not count"
    with pytest.raises(RunLocked):
        journal.confirm()


@pytest.mark.parametrize("seconds", [0.5, 15.0])
def test_an_effect_does_not_follow_an_intent_that_took_long_to_write(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Its process worked on, its log did not: meanwhile another one took over, and finished the run."""
    log, journal = begun("elsewhere", held=True)
    journal.take_over({})
    monkeypatch.setattr("drkit.journal.journal.boottime", lambda: log.now)
    append = log.append

    def late(entry: JournalEntry) -> bool:
        alone = append(entry)
        log.now += seconds
        holder = {"holder": {"token": "new"}}
        log.later = [
            (1.0, JournalEntry("r", entry.number + 1, "new", 1, EntryKind.HOLD, None, "", 0, holder))
        ]
        return alone

    monkeypatch.setattr(log, "append", late)
    if seconds < 1:
        journal.write(EntryKind.INTENT, StepName.FREEZE, "stop", {})
        return
    with pytest.raises(RunLocked, match=sentence("run_locked", table="failover")):
        journal.write(EntryKind.INTENT, StepName.FREEZE, "stop", {})


@pytest.mark.parametrize(("first", "second"), [("failover", "return"), ("return", "failover")])
def test_a_failover_and_a_return_of_a_pair_do_not_run_at_once(first: str, second: str) -> None:
    log, _ = begun("elsewhere")
    log.history = JournalHistory()

    def journal(run_id: str) -> Journal:
        loop: Any = SimpleNamespace(run=lambda work, *args: work(*args))
        return Journal(loop, log, JournalFile(Path("/nowhere"), run_id), run_id)  # type: ignore[arg-type]

    journal(first).begin(1, {"table": first})
    with pytest.raises(RunLocked, match=sentence("run_locked", table=first)) as caught:
        journal(second).begin(1, {"table": second})
    assert "it is under way" in caught.value.evidence
    assert list(log.history.runs) == [first]
