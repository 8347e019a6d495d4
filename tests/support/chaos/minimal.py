"""Pieces of the smallest histories that a check can judge; all records are of orders-0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from drkit.exercise.events import (
    PRIMARY,
    STANDBY,
    Acked,
    CommandEnded,
    Event,
    FinalPosition,
    JournalEntered,
    LogEnd,
    Read,
    RunReported,
    ScenarioEnded,
)
from drkit.journal.entries import EntryKind, JournalEntry
from drkit.journal.machine import FAILOVER, RETURN, StepName, Table
from drkit.model import TopicPartition

Cases = Mapping[str, Mapping[str, list[Event]]]
"""Check → case → events."""
TP: Final = TopicPartition("orders", 0)
RUN: Final = "run"
EFFECT: Final = "an effect"
DECIDED: Final = {"by": "a person", "mode": "by hand"}
OPENED: Final = JournalEntered("failover", RUN, "OPEN", "result", "")


def acked(*values: str, cluster: str = PRIMARY, first: int = 0, transaction: str = "") -> list[Event]:
    """Acknowledged records at consecutive offsets."""
    return [Acked(cluster, *TP, first + i, value, transaction) for i, value in enumerate(values)]


def log(*values: str, cluster: str = STANDBY, start: int = 0) -> list[Event]:
    """A log that was read to its end."""
    reads = [Read(cluster, *TP, start + i, value) for i, value in enumerate(values)]
    end = start + len(values)
    return [*reads, LogEnd(cluster, *TP, start, end)]


def entry(step: str, kind: str, effect: str = "", *, table: str = "failover", run: str = RUN) -> Event:
    """An entry of a journal."""
    return JournalEntered(table, run, step, kind, effect)


def entries_of(table: Table, run: str) -> list[str]:
    """The entries of a run that is done: of each step, and of its one effect, the beginning and the end."""
    opening = {"table": table.name, "holder": {"token": "token"}}
    begin, end = EntryKind.INTENT, EntryKind.RESULT
    kinds: list[tuple[EntryKind, StepName | None, str, dict[str, Any]]] = [(EntryKind.RUN, None, "", opening)]
    order = ((begin, ""), (begin, EFFECT), (end, EFFECT), (end, ""))
    kinds += [(kind, step, effect, {}) for step in table.order for kind, effect in order]
    kinds.append((EntryKind.END, None, "", {"state": "done"}))
    return [
        JournalEntry(run, number, "token", 1, kind, step, effect, 0, body).to_json()
        for number, (kind, step, effect, body) in enumerate(kinds)
    ]


def without_open(report: RunReported) -> RunReported:
    """The report of a run whose journal lacks OPEN."""
    return replace(report, entries=[e for e in report.entries if '"OPEN"' not in e])


def failover(
    *,
    lost_from: int | None = None,
    planned: bool = False,
    proven: bool = True,
    groups: Mapping[str, Any] | None = None,
    source: str = PRIMARY,
    run: str = RUN,
    **report: Any,
) -> RunReported:
    """The report of a failover that is done."""
    partition = {
        "topic": TP.topic,
        "partition": TP.partition,
        "lost_from": lost_from,
        "records": 0,
        "held_back": 0,
    }
    loss = {"statement": "a statement", "records": 0, "exact": planned, "partitions": [partition]}
    request = {"planned": planned, "accept_data_loss": "" if planned else "a reason"}
    whole = {
        "run": run,
        "request": request,
        "loss": loss,
        "fence": {"proven": proven},
        "groups": groups or {},
        "decision": DECIDED,
    } | report
    return RunReported("failover", run, "done", source, whole, entries_of(FAILOVER, run))


def returned(
    *,
    dispositions: Mapping[str, str] | None = None,
    methods: Mapping[str, str] | None = None,
    give_up_history: Sequence[str] = (),
    source: str = PRIMARY,
    run: str = "return",
) -> RunReported:
    """The report of a return that is done; its entry follows those of the failover."""
    request = {
        "dispositions": dict(dispositions or {}),
        "methods": dict(methods or {}),
        "give_up_history": [*give_up_history],
    }
    report = {"run": run, "request": request, "decision": DECIDED}
    return RunReported("return", run, "done", source, report, entries_of(RETURN, run))


def position(group: str, offset: int, cluster: str = STANDBY) -> FinalPosition:
    """A final position."""
    return FinalPosition(cluster, *TP, group, offset)


def divergence(lost_from: int, end: int | None) -> CommandEnded:
    """An answer of ``drkit divergence``."""
    partition = {"topic": TP.topic, "partition": TP.partition, "lost_from": lost_from, "end": end}
    answer = {"partitions": [partition], "uncopied": []}
    return CommandEnded(["divergence"], 0, [0], answer=answer)


PAID: Final = CommandEnded(["fence", "pay"], 0, [0], answer={"paid": True}, seconds=2.0)
ON_STANDBY: Final = ScenarioEnded(STANDBY, [])
ON_PRIMARY: Final = ScenarioEnded(PRIMARY, [])


def cases_of(cases: Cases) -> list[tuple[str, str]]:
    """Each check with each of its cases."""
    return [(check, case) for check, of_check in cases.items() for case in of_check]
