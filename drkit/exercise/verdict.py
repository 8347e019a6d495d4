"""The verdict of a scenario: its checks, the faults that had to be in force, what could not be read. Pure.

What was not exercised, or not read to its end, is `inconclusive`, never `pass`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
import math
from typing import Any, Final, NamedTuple

from drkit.detect.verdict import VerdictKind
from drkit.exercise import checks
from drkit.exercise.events import (
    OTHER,
    Acked,
    ClientStopped,
    CommandEnded,
    Consumed,
    Event,
    ExportRead,
    FaultBegan,
    FaultEnded,
    FinalPosition,
    JournalEntered,
    LookFailed,
    NotAcked,
    Observed,
    Read,
    RunReported,
    ScenarioEnded,
)
from drkit.exercise.group_checks import out_of_step, stale
from drkit.exercise.history import Failover, ScenarioHistory
from drkit.journal.machine import StepName

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"
DETECTION: Final = "detection"
"""Instead of a table: its steps are the verdicts of an observer."""
_FAR: Final = 10**12
"""An offset after all others."""
_IDLE_SECONDS: Final = 20.0
"""A writer that gets no answer at all has tried again within that time."""
_EVENTS: Final = 20
"""The number of events at which a negative control tries its defect."""
_Defect = tuple[str, str, Sequence[tuple[int, Any]], Callable[[Any], Sequence[Event]]]


class RequiredFault(NamedTuple):
    """A fault that has to be in force while a step is under way."""

    fault: str
    step: str
    """A step's name, or a verdict of an observer."""

    def __str__(self) -> str:
        return f"{self.fault} at {self.step}"


class ScenarioVerdict(NamedTuple):
    """The verdict over a history."""

    word: str
    """``pass``, ``fail`` or ``inconclusive``."""
    reasons: list[str]
    """Offences of a failed one, what is missing of an inconclusive one."""
    checked: list[checks.CheckResult]


def coverage(history: ScenarioHistory) -> set[tuple[str, str, str]]:
    """Return each fault with the table and the step, or the verdict, during which it was in force.

    A step is under way from its intent until the run's next entry that is not its effect. If an orchestrator
    dies, the one that continues the run writes that entry. An observer's verdict is that of its look alone.
    """
    covered: set[tuple[str, str, str]] = set()
    active: set[str] = set()
    under_way: dict[str, tuple[str, str]] = {}
    for e in history.events:
        faults = active
        if isinstance(e, FaultBegan):
            faults = active | {e.fault}
            active = faults if e.lasts else active
        elif isinstance(e, FaultEnded):
            active = active - {e.fault}
        elif isinstance(e, Observed):
            covered |= {(fault, DETECTION, e.verdict) for fault in faults}
        elif isinstance(e, JournalEntered) and not (e.effect and under_way.get(e.run) == (e.table, e.step)):
            under_way.pop(e.run, None)
            if e.kind == "intent" and not e.effect:
                under_way[e.run] = (e.table, e.step)
        covered |= {(fault, *step) for fault in faults for step in under_way.values()}
    return covered


def judge(history: ScenarioHistory, wanted: Sequence[RequiredFault]) -> ScenarioVerdict:
    """Return the verdict over a history, in which some faults had to be in force.

    Without its end a history lacks the reports that explain what clients saw.
    """
    checked = [check(history) for check in checks.CHECKS.values()]
    offences = [f"{c.name}: {offence}" for c in checked for offence in c.offences]
    if offences and history.last(ScenarioEnded) is not None:
        return ScenarioVerdict(FAIL, offences, checked)
    examined = {c.name for c in checked if c.examined}
    reasons = [f"nothing was examined: {name}" for name in _needs(history) if name not in examined]
    in_force = {(fault, step) for fault, _, step in coverage(history)}
    reasons += [f"was not in force: {w}" for w in wanted if w not in in_force]
    reasons += _unknown(history)
    return ScenarioVerdict(INCONCLUSIVE if reasons else PASS, reasons, checked)


def _needs(facts: ScenarioHistory) -> Iterator[str]:
    """Return the checks that must have examined something, by the runs that are done."""
    yield from (checks.ACKNOWLEDGED, checks.IN_ORDER, checks.ONE_SIDE, checks.LEFT_BEHIND)
    if facts.is_copied:
        yield checks.SAME_SIDES
    if facts.failovers:
        yield from (checks.POSITIONS, checks.OLDER_WRITER, checks.JOURNAL, checks.DECIDED)
        if any(f.returned is not None and not f.is_planned for f in facts.failovers):
            yield checks.GIVEN_UP


def _unknown(facts: ScenarioHistory) -> Iterator[str]:
    """Return what is not known at the end."""
    if facts.last(ScenarioEnded) is None:
        yield "the run has no end"
    for look in facts.of(LookFailed):
        yield f"not read: {look.what}: {look.error}"
    ended = (e for e in facts.of(CommandEnded) if not e.is_expected)
    yield from (f"ended otherwise than expected: {e.typed}: {e.outcome}" for e in ended)
    unreported = {e.run for e in facts.of(JournalEntered)} - {e.run for e in facts.of(RunReported)}
    yield from (f"no report of run {run}" for run in sorted(unreported))
    yield from (problem for _, problem in out_of_step(facts))
    yield from stale(facts)
    yield from (f"client {name} did nothing before it was stopped" for name in _silent(facts))
    partitions = {tp for _, tp in facts.log_ends} | {tp for tp, _ in facts.acked}
    unread = {(cluster, tp) for cluster in OTHER for tp in partitions} - facts.log_ends.keys()
    yield from (f"{tp} on {cluster} was not read" for cluster, tp in sorted(unread) if facts.active)
    for f in facts.failovers:
        name = f"failover {f.report.get('run', '')}"
        if f.opened == len(facts.events):
            yield f"{name} is done, and no entry has the end of OPEN"
        excused = {g for _, g, _ in facts.positions if f.is_excused(g)}
        yield from (f"{name} excuses itself from group {group}" for group in sorted(excused))
        if not any(here != there for here, there in f.pairs):
            yield f"{name}: each position has the same offset on both sides, so none was translated"


def _silent(facts: ScenarioHistory) -> Iterator[str]:
    """Return the writers that did nothing lately when they were stopped, and the readers that never did.

    A writer that follows the endpoint file has to succeed; those of the old primary may be refused.
    """
    newest: dict[str, float] = {}
    following = {e.name for e in facts.of(ClientStopped) if e.kind == "following writer"}
    for e in facts.events:
        if isinstance(e, Acked | Consumed) or (isinstance(e, NotAcked) and e.by not in following):
            newest[e.by] = e.seconds
        elif isinstance(e, ClientStopped):
            is_late = e.seconds - newest.get(e.name, -math.inf) > _IDLE_SECONDS
            is_silent = is_late if e.kind.endswith("writer") else e.name not in newest
            if is_silent and e.kind.endswith(("writer", "consumer")):
                yield e.name


def negative_controls(history: ScenarioHistory) -> dict[str, bool]:
    """Put one defect at a time into a history; return by its name whether its own check finds it.

    At one event a defect may break no promise, so it is put at several until it is found. One for which the
    history has no event is left out.
    """
    controls: dict[str, bool] = {}
    for check, name, events_of, change in _defects(history):
        for i, e in events_of[:: len(events_of) // _EVENTS + 1]:
            events = [*history.events[:i], *change(e), *history.events[i + 1 :]]
            is_found = controls.get(name) or checks.CHECKS[check](ScenarioHistory(events)).offences
            controls[name] = bool(is_found)
    return controls


def _defects(facts: ScenarioHistory) -> Iterator[_Defect]:
    """Return the check that must find each defect, its name, its events, and what is there instead."""
    active = facts.active
    reads = [(i, e) for i, e in facts.at(Read) if e.cluster == active]
    plain = {record for record, (_, e) in facts.acked.items() if not e.transaction}
    known = [(i, e) for i, e in reads if (e.tp, e.value) in plain]
    sealed = [(i, e) for i, e in known if facts.acked[e.tp, e.value][1].envelope]
    positions = [(i, e) for i, e in facts.at(FinalPosition) if e.cluster == active]
    aborted = [(i, e) for i, e in facts.at(Acked) if e.transaction == "aborted" and active]
    first, lost = [*enumerate(facts.events[:1])], Observed(VerdictKind.LOST.name, "put in")
    commands, ends = [*facts.at(CommandEnded)], [*facts.at(ScenarioEnded)]
    copies = [(i, e) for i, e in facts.at(Read) if facts.is_copied and e.cluster == OTHER.get(active)]
    copies = [(i, e) for i, e in copies if {(c, e.tp) for c in OTHER} <= facts.log_ends.keys()]
    whole = [(i, e) for i, e in copies if not facts.failovers or facts.failovers[-1].copies_whole(e.topic)]

    def later(e: FinalPosition) -> list[Event]:
        log, end = facts.logs[active].get(e.tp, ()), facts.log_ends.get((active, e.tp))
        record = next((o for o, _ in log if o >= e.offset), end.end if end is not None else e.offset)
        return [replace(e, offset=record + 1)]

    def earlier(e: FinalPosition) -> list[Event]:
        before = (o for o, _ in facts.logs[active].get(e.tp, ()) if o < e.offset)
        return [replace(e, offset=max(before, default=e.offset - 1))]

    yield checks.ACKNOWLEDGED, "a copied record dropped", known, lambda _: []
    yield checks.IN_ORDER, "a copied record repeated", reads, lambda e: [e, replace(e, offset=_FAR)]
    yield checks.IN_ORDER, "a foreign record", reads, lambda e: [e, replace(e, offset=_FAR, value="a stray")]
    yield checks.IN_ORDER, "a record out of order", reads, lambda e: [replace(e, offset=_FAR)]
    yield checks.POSITIONS, "a position one later", positions, later
    yield checks.POSITIONS, "a position one earlier", positions, earlier
    yield checks.ABORTED, "an aborted record shown", aborted, partial(_shown, active)
    yield checks.READERS, "another record at an offset", reads, lambda e: [e, replace(e, value="a stray")]
    yield checks.READERS, "another key of a record", sealed, lambda e: [replace(e, envelope="put in")]
    yield checks.OBSERVED, "a living primary called lost", first, lambda e: [lost, e]
    yield checks.COMMANDS, "another exit code", commands, lambda e: [replace(e, expected=[], error={})]
    yield checks.SAME_SIDES, "a record of the standby dropped", whole[:-1], lambda _: []
    yield checks.LEFT_BEHIND, "a run left open", ends, lambda e: [replace(e, left=["a run"])]
    for f in facts.failovers[-1:]:
        yield from _defects_of(f, facts)


def _defects_of(f: Failover, facts: ScenarioHistory) -> Iterator[_Defect]:
    """Return the defects of the last failover, and of its return."""
    shown, late = partial(_shown, facts.active), Acked(f.source, "any topic", 0, _FAR, "a record after OPEN")
    opened = [(i, e) for i, e in facts.at(JournalEntered) if i == f.opened]
    done = [(i, e) for i, e in facts.at(RunReported) if e.report is f.report]
    own = {e.tp for i, e in facts.acked.values() if e.cluster == f.target and i > f.opened}
    old = [(i, e) for i, e in facts.acked.values() if e.cluster == f.source and e.tp in own]
    old = [(i, e) for i, e in old if i < f.until and (e.tp, e.value) not in facts.replayed]

    def unopened(e: RunReported) -> list[Event]:
        return [replace(e, entries=[text for text in e.entries if f'"{StepName.OPEN}"' not in text])]

    yield checks.JOURNAL, "OPEN without entries", done, unopened
    yield checks.DECIDED, "no loss stated", done, lambda e: [replace(e, report={**e.report, "loss": {}})]
    yield checks.OLDER_WRITER, "a record of the old primary added", old, shown
    yield checks.ONE_SIDE, "a record acknowledged after OPEN", opened, lambda e: [e, late]
    if f.returned is not None:
        saved = [(i, e) for i, e in facts.at(ExportRead) if (e.tp, e.value) in f.tail]
        saved = [] if f.source in facts.aged else saved
        yield checks.GIVEN_UP, "an exported record dropped", saved, lambda _: []
        given_up = [facts.acked[r] for r in sorted(f.tail) if f.disposition(r) == "discard"]
        yield checks.GIVEN_UP, "a record that was given up shown", given_up, shown


def _shown(cluster: str, e: Acked) -> list[Event]:
    return [e, Read(cluster, *e.tp, _FAR, e.value)]
