"""A pair on paper that keeps every promise, and the history of what is done to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from drkit.exercise.events import (
    PRIMARY,
    STANDBY,
    Acked,
    CommandEnded,
    Consumed,
    Event,
    ExportRead,
    FaultBegan,
    FaultEnded,
    FinalPosition,
    JournalEntered,
    LogEnd,
    Observed,
    OffsetCommitted,
    Probed,
    Read,
    RunReported,
    ScenarioEnded,
)
from drkit.exercise.history import ScenarioHistory
from drkit.journal.machine import FAILOVER, RETURN, StepName, Table
from drkit.model import TopicPartition
from tests.support.chaos.minimal import EFFECT, failover, returned

PARTITIONS: Final = tuple(TopicPartition(topic, p) for topic in ("orders", "payments") for p in (0, 1))
LIVE, IDLE = "shop", "billing"


@dataclass
class Log:
    """The log of a partition; None is an offset without a visible record."""

    start: int = 0
    entries: list[str | None] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.entries)

    def append(self, value: str | None) -> int:
        self.entries.append(value)
        return self.end - 1

    def records(self, first: int = 0) -> Iterator[tuple[int, str]]:
        """Visible records from an offset on."""
        for i, value in enumerate(self.entries):
            if value is not None and self.start + i >= first:
                yield self.start + i, value


class PairModel:
    """Two clusters, a copy from the active to the passive one, a group at work and an idle one."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.events: list[Event] = []
        self.logs = {c: {tp: Log() for tp in PARTITIONS} for c in (PRIMARY, STANDBY)}
        self.active, self.passive = PRIMARY, STANDBY
        self.is_copying = True
        self.copied = dict.fromkeys(PARTITIONS, 0)
        self.committed: dict[str, dict[tuple[str, TopicPartition], int]] = {PRIMARY: {}, STANDBY: {}}
        self.checkpoint: dict[tuple[str, TopicPartition], int] = {}
        self.fetched: dict[TopicPartition, int] = {}
        self.reports: list[RunReported] = []
        self.lost: dict[TopicPartition, int] = {}
        """Where the tail of the old primary begins."""
        self.opened_at: dict[TopicPartition, int] = {}
        self._number = 0

    # -- clients ------------------------------------------------------------------------------------

    def write(self, number: int, cluster: str = "") -> None:
        """Write records, some in transactions, of which some are aborted."""
        cluster = cluster or self.active
        for _ in range(number):
            tp, log = (tp := self.random.choice(PARTITIONS)), self.logs[cluster][tp]
            if self.random.random() < 0.7:
                value = self._value()
                self.events.append(Acked(cluster, *tp, log.append(value), value, envelope=value))
                continue
            outcome = self.random.choice(("committed", "aborted"))
            values = [self._value() for _ in range(self.random.randint(1, 3))]
            offsets = [log.append(v if outcome == "committed" else None) for v in values]
            log.append(None)
            self.events += [
                Acked(cluster, *tp, o, v, outcome, envelope=v) for o, v in zip(offsets, values, strict=True)
            ]

    def _value(self) -> str:
        self._number += 1
        return f"value {self._number}"

    def consume(self, number: int, *, commits: bool = True) -> None:
        """Let the group at work read some records of each partition, and commit."""
        for tp in PARTITIONS:
            first = self.fetched.get(tp, self.committed[self.active].get((LIVE, tp), 0))
            for offset, value in list(self.logs[self.active][tp].records(first))[:number]:
                self.events.append(Consumed(self.active, *tp, offset, value, LIVE, envelope=value))
                self.fetched[tp] = offset + 1
        if commits:
            for tp, offset in self.fetched.items():
                self.committed[self.active][LIVE, tp] = offset
                self.events.append(OffsetCommitted(self.active, *tp, LIVE, offset))

    def begin_groups(self) -> None:
        """Let the idle group commit somewhere in each log, and perhaps the one that will be at work."""
        for group in (IDLE, *((LIVE,) if self.random.random() < 0.5 else ())):
            for tp, log in self.logs[PRIMARY].items():
                self.committed[PRIMARY][group, tp] = self.random.randint(0, log.end)
        self.save_checkpoint()

    def save_checkpoint(self) -> None:
        """Note positions for a failover in which the primary is silent."""
        self.checkpoint = dict(self.committed[self.active])

    # -- the copy -----------------------------------------------------------------------------------

    def copy(self, *, everything: bool = False) -> None:
        """Copy to the passive side, of each partition a part or everything."""
        for tp, log in self.logs[self.active].items():
            for offset, value in list(log.records(self.copied[tp])):
                if not everything and self.random.random() < 0.2:
                    break
                target = self.logs[self.passive][tp]
                target.append(value)
                if self.random.random() < 0.2:
                    target.append(None)
                self.copied[tp] = offset + 1

    def translate(self, positions: Mapping[tuple[str, TopicPartition], int]) -> dict[Any, int]:
        """Return positions on the passive side: of the next copied record, or the end."""
        places = {}
        for (group, tp), committed in positions.items():
            target = self.logs[self.passive][tp]
            there = {value: offset for offset, value in target.records()}
            later = (there[v] for _, v in self.logs[self.active][tp].records(committed) if v in there)
            places[group, tp] = next(later, target.end)
        return places

    # -- runs ---------------------------------------------------------------------------------------

    def fail_over(self, *, planned: bool, pending: bool = False, late: int = 0) -> None:
        """Fail over: planned, or with a proven fence, or with a pending one and `late` records behind it."""
        run, source, target = f"run{len(self.reports)}", self.active, self.passive
        if not planned:
            self.events.append(FaultBegan(f"kill {source}", "no process is left", lasts=True))
            if source == PRIMARY:
                self.events.append(Observed("LOST", "no answer"))
        positions: dict[tuple[str, TopicPartition], int] = {}
        places: dict[Any, int] = {}
        for step in self._steps(FAILOVER, run):
            if step is StepName.DRAIN and planned:
                self.copy(everything=True)
            elif step is StepName.TRANSLATE:
                positions = dict(self.committed[source]) if planned else dict(self.checkpoint)
                places = self.translate(positions)
                self.committed[target] = dict(places)
                self.lost = dict(self.copied)
        repeats = self._commit_late() if planned and self.random.random() < 0.5 else {}
        self.opened_at = {tp: log.end for tp, log in self.logs[target].items()}
        partitions = [self._loss(source, tp) for tp in PARTITIONS]
        lost = sum(p["records"] for p in partitions)
        self.active, self.passive, self.is_copying, self.fetched = target, source, False, {}
        by_group: dict[str, dict[str, list[int]]] = {LIVE: {}, IDLE: {}}
        for (group, tp), committed in positions.items():
            by_group[group][str(tp)] = [committed, places[group, tp]]
        unknown = {str(tp): "no checkpoint" for (_, tp) in self.committed[source].keys() - positions.keys()}
        loss = {"statement": "a statement", "exact": not pending, "partitions": partitions, "records": lost}
        asked = sorted({group for group, _ in self.committed[source].keys() | positions.keys()})
        named = {"asked": asked, "positions": {g: p for g, p in by_group.items() if p}}
        self.reports.append(
            failover(
                planned=planned,
                proven=not pending,
                groups={**named, "repeats": repeats, "unavailable": {LIVE: unknown}},
                source=source,
                run=run,
                loss=loss,
            )
        )
        self._type("failover")
        if not planned:
            self.events.append(FaultEnded(f"kill {source}"))
        if pending:
            self.write(late, source)
            self._divergence(source)
            self._type("fence", "pay", answer={"paid": True})

    def _loss(self, source: str, tp: TopicPartition) -> dict[str, Any]:
        records = list(self.logs[source][tp].records(self.lost[tp]))
        return {**tp._asdict(), "lost_from": self.lost[tp], "records": len(records), "held_back": 0}

    def _commit_late(self) -> dict[str, int]:
        """Let the group at work commit after its position was taken."""
        before = len(self.events)
        self.consume(2)
        events, self.events = self.events[before:], self.events[:before]
        opened = next(i for i in range(before - 1, -1, -1) if self._is_opened(self.events[i]))
        self.events[opened:opened] = events
        return {LIVE: 1}

    @staticmethod
    def _is_opened(e: Event) -> bool:
        return isinstance(e, JournalEntered) and (e.step, e.kind) == (StepName.OPEN, "result")

    def bring_back(self, disposition: str) -> None:
        """Make the old primary the standby; partitions with a tail, and some others, are emptied."""
        run, home = f"run{len(self.reports)}", self.logs[self.passive]
        list(self._steps(RETURN, run))
        self.copied, self.is_copying = dict(self.opened_at), True
        for tp, log in home.items():
            tail = [value for _, value in log.records(self.lost[tp])]
            if disposition == "replay":
                for value in tail:
                    self.logs[self.active][tp].append(value)
            if tail or self.random.random() < 0.3:
                home[tp], self.copied[tp] = Log(start=log.end), 0
        dispositions = {"*": disposition} if disposition else {}
        self.reports.append(returned(dispositions=dispositions, source=self.passive, run=run))
        self._type("reprotect")
        self.copy(everything=True)
        self.save_checkpoint()

    def _steps(self, table: Table, run: str) -> Iterator[StepName]:
        for step in table.order:
            self.events.append(JournalEntered(table.name, run, step, "intent", ""))
            yield step
            for kind in ("intent", "result"):
                self.events.append(JournalEntered(table.name, run, step, kind, EFFECT))
            self.events.append(JournalEntered(table.name, run, step, "result", ""))

    def _divergence(self, source: str) -> None:
        ends = {tp: log.end for tp, log in self.logs[source].items()}
        partitions = [{**tp._asdict(), "lost_from": self.lost[tp], "end": end} for tp, end in ends.items()]
        self._type("divergence", answer={"partitions": partitions})

    def _type(self, *words: str, answer: dict[str, Any] | None = None) -> None:
        self.events.append(CommandEnded([*words], 0, [0], answer=answer or {"done": True}))

    # -- the end ------------------------------------------------------------------------------------

    def history(self) -> ScenarioHistory:
        """Return the history, with the facts at the end."""
        if self.is_copying:
            self.copy(everything=True)
        if self.is_copying and self.random.random() < 0.7:
            self.committed[self.passive] = self.translate(self.committed[self.active])
        self.events += self.reports
        for cluster, logs in self.logs.items():
            for tp, log in logs.items():
                self.events += [
                    Read(cluster, *tp, offset, value, envelope=value) for offset, value in log.records()
                ]
                self.events.append(LogEnd(cluster, *tp, log.start, log.end))
            for (group, tp), offset in self.committed[cluster].items():
                self.events.append(FinalPosition(cluster, *tp, group, offset))
        for topic in sorted({tp.topic for tp in PARTITIONS}):
            self.events.append(Probed(self.active, topic, is_accepted=True))
            if self.reports:
                self.events.append(Probed(self.passive, topic, is_accepted=False, error="fenced"))
        facts = ScenarioHistory([*self.events, ScenarioEnded(self.active, [])])
        returned = {record for f in facts.failovers if f.returned is not None for record in f.tail}
        tails = [facts.acked[record][1] for record in sorted(returned)]
        exports = [ExportRead(e.cluster, *e.tp, e.offset, e.value, envelope=e.envelope) for e in tails]
        return ScenarioHistory([*self.events, *exports, ScenarioEnded(self.active, [])])


RUNS: Final = ("", "f", "fr", "frf", "frfr")
"""Failovers and returns, in turn."""


def random_run(seed: int, runs: str | None = None) -> ScenarioHistory:
    """Return the history of a random run that keeps every promise."""
    pair = PairModel(seed)
    random = pair.random
    pair.write(20)
    pair.begin_groups()
    for run in runs if runs is not None else random.choice(RUNS):
        pair.write(random.randint(5, 15))
        pair.consume(random.randint(1, 3), commits=random.random() < 0.8)
        if random.random() < 0.7:
            pair.save_checkpoint()
        pair.write(random.randint(0, 10))
        if pair.is_copying:
            pair.copy()
        pair.consume(random.randint(1, 3), commits=random.random() < 0.8)
        if run == "r":
            pair.bring_back(random.choice(("replay", "discard")))
        elif random.random() < 0.4:
            pair.fail_over(planned=True)
        else:
            pair.fail_over(planned=False, pending=random.random() < 0.6, late=random.randint(0, 6))
    pair.write(20)
    pair.consume(100 if random.random() < 0.5 else 3)
    return pair.history()
