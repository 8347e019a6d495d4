"""The verdict of a scenario: its checks, the faults that had to be in force, what could not be read. Pure.

What was not exercised, or not read to its end, is `inconclusive`, never `pass`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from drkit.exercise import checks
from drkit.exercise.history import (
    Acked,
    Event,
    Failover,
    FaultBegan,
    FaultEnded,
    JournalEntered,
    LogEnd,
    LookFailed,
    Observed,
    Read,
    ScenarioEnded,
    ScenarioHistory,
)

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"
DETECTION: Final = "detection"
"""Instead of a table: its steps are the verdicts of an observer."""
_FAR: Final = 10**12
"""An offset after all others."""
_PLACES: Final = 20
"""The number of places in which a negative control tries its defect."""
_T = TypeVar("_T")


class RequiredFault(NamedTuple):
    """A fault that has to be in force while a step is under way."""

    fault: str
    step: str = ""
    """A step's name, a verdict of an observer, or empty for any time."""

    def __str__(self) -> str:
        return f"{self.fault} at {self.step}" if self.step else self.fault


class ScenarioVerdict(NamedTuple):
    """The verdict over a history."""

    word: str
    """``pass``, ``fail`` or ``inconclusive``."""
    reasons: list[str]
    """Offences of a failed one, what is missing of an inconclusive one."""
    checked: list[checks.CheckResult]


# -- faults and steps ---------------------------------------------------------------------------------------


def coverage(history: ScenarioHistory) -> set[tuple[str, str, str]]:
    """Return each fault with the table and the step, or the verdict, during which it was in force.

    A step is under way from its intent until the run's next entry that is not its effect. If an orchestrator
    dies, the one that continues the run writes that entry. A verdict is valid until the observer's next one.
    """
    covered: set[tuple[str, str, str]] = set()
    active: set[str] = set()
    under_way: dict[str, tuple[str, str]] = {}
    ends = Counter(e.fault for e in history.of(FaultEnded))
    for e in history.events:
        faults = active
        if isinstance(e, FaultBegan):
            faults = active | {e.fault}
            active = faults if e.lasts or ends[e.fault] else active
        elif isinstance(e, FaultEnded):
            active = active - {e.fault}
            ends[e.fault] -= 1
        elif isinstance(e, Observed):
            under_way[e.by] = (DETECTION, e.verdict)
        elif isinstance(e, JournalEntered) and not (e.effect and under_way.get(e.run) == (e.table, e.step)):
            under_way.pop(e.run, None)
            if e.kind == "intent" and not e.effect:
                under_way[e.run] = (e.table, e.step)
        covered |= {(fault, *step) for fault in faults for step in under_way.values()}
    return covered


def in_force(history: ScenarioHistory, wanted: RequiredFault) -> bool:
    """Return whether a fault was in force while a step was under way."""
    if not wanted.step:
        return any(e.fault == wanted.fault for e in history.of(FaultBegan))
    return any((fault, step) == wanted for fault, _, step in coverage(history))


# -- the verdict --------------------------------------------------------------------------------------------


def judge(
    history: ScenarioHistory, wanted: Sequence[RequiredFault], needs: Collection[str] = ()
) -> ScenarioVerdict:
    """Return the verdict over a history.

    :param needs: names of checks that must have examined something, besides those of the runs that are done
    """
    checked = [check(history) for check in checks.CHECKS.values()]
    if offences := [f"{c.name}: {offence}" for c in checked for offence in c.offences]:
        return ScenarioVerdict(FAIL, offences, checked)
    examined = {c.name for c in checked if c.examined}
    needed = dict.fromkeys((*_needs(history), *needs))
    reasons = [f"nothing was examined: {name}" for name in needed if name not in examined]
    reasons += [f"was not in force: {w}" for w in wanted if not in_force(history, w)]
    reasons += _unknown(history)
    return ScenarioVerdict(INCONCLUSIVE if reasons else PASS, reasons, checked)


def _needs(facts: ScenarioHistory) -> Iterator[str]:
    """Return the checks that must have examined something, by the runs that are done."""
    yield from (checks.ACKNOWLEDGED, checks.IN_ORDER, checks.ONE_SIDE, checks.LEFT_BEHIND)
    if facts.failovers:
        yield from (checks.POSITIONS, checks.OLDER_WRITER, checks.JOURNAL, checks.DECIDED)
        if facts.failovers[-1].returned is not None:
            yield checks.SAME_SIDES
        if any(f.returned is not None and not f.is_planned for f in facts.failovers):
            yield checks.GIVEN_UP


def _unknown(facts: ScenarioHistory) -> Iterator[str]:
    """Return what is not known at the end."""
    if facts.last(ScenarioEnded) is None:
        yield "the run has no end"
    for look in facts.of(LookFailed):
        yield f"not read: {look.what}: {look.error}"
    for log in facts.of(LogEnd):
        if log.read_to < log.end:
            yield f"{log.tp} on {log.cluster} was read to {log.read_to} of {log.end}"
    ended = {(log.cluster, log.tp) for log in facts.of(LogEnd)}
    for tp in sorted({tp for tp, _ in facts.acked}):
        if facts.active and (facts.active, tp) not in ended:
            yield f"{tp} on {facts.active} was not read"
    for f in facts.failovers:
        if f.opened == len(facts.events):
            yield f"failover {f.report.get('run', '')} is done, and no entry has the end of OPEN"


# -- negative controls --------------------------------------------------------------------------------------


def negative_controls(history: ScenarioHistory) -> dict[str, bool]:
    """Put one defect at a time into a history; return by its name whether its own check finds it.

    In one place a defect may break no promise, so it is put into several until it is found. One for which the
    history has no event is left out.
    """
    controls: dict[str, bool] = {}
    for check, name, events in _defects(history):
        controls[name] = controls.get(name) or bool(checks.CHECKS[check](ScenarioHistory(events)).offences)
    return controls


def _defects(facts: ScenarioHistory) -> Iterator[tuple[str, str, list[Event]]]:
    """Return the check that must find each defect, the defect's name, and the history with it."""
    reads = [e for e in facts.of(Read) if e.cluster == facts.active]
    for read in _spread(reads):
        yield checks.ACKNOWLEDGED, "a copied record dropped", _changed(facts, (read, None))
        yield checks.IN_ORDER, "a copied record repeated", [*facts.events, replace(read, offset=_FAR)]
        foreign = replace(read, offset=_FAR, value="not a client's")
        yield checks.IN_ORDER, "a foreign record", [*facts.events, foreign]
    for a, b in _spread([(a, b) for a, b in pairwise(reads) if a.tp == b.tp]):
        swapped = (a, replace(a, value=b.value)), (b, replace(b, value=a.value))
        yield checks.IN_ORDER, "two records swapped", _changed(facts, *swapped)
    for position in _spread([p for p in facts.positions.values() if p.cluster == facts.active]):
        for shift, name in ((1, "a position one later"), (-1, "a position one earlier")):
            moved = replace(position, offset=position.offset + shift)
            yield checks.POSITIONS, name, _changed(facts, (position, moved))
    for e in _spread([e for e in facts.of(Acked) if e.transaction == "aborted" and facts.active]):
        shown = Read(facts.active, *e.tp, _FAR, e.value)
        yield checks.ABORTED, "an aborted record shown", [*facts.events, shown]
    if facts.failovers:
        yield from _defects_of_failover(facts, facts.failovers[-1])


def _defects_of_failover(facts: ScenarioHistory, f: Failover) -> Iterator[tuple[str, str, list[Event]]]:
    if f.opened < len(facts.events):
        late = Acked(f.source, "any topic", 0, _FAR, "a record after OPEN")
        events = [*facts.events[: f.opened + 1], late, *facts.events[f.opened + 1 :]]
        yield checks.ONE_SIDE, "a record acknowledged after OPEN", events
    if f.returned is None:
        return
    compared = {tp for cluster, tp in facts.log_ends if cluster == f.source and f.copies_whole(tp.topic)}
    compared &= {tp for cluster, tp in facts.log_ends if cluster == f.target}
    for read in _spread([e for e in facts.of(Read) if e.cluster == f.source and e.tp in compared]):
        yield checks.SAME_SIDES, "a record of the standby dropped", _changed(facts, (read, None))
    for tp, value in _spread([r for r in sorted(f.tail) if f.disposition(r) == "discard"]):
        shown = Read(facts.active, *tp, _FAR, value)
        yield checks.GIVEN_UP, "a record that was given up shown", [*facts.events, shown]


def _spread(places: Sequence[_T]) -> Sequence[_T]:
    """Return some of the places, from the first to the last."""
    return places[:: len(places) // _PLACES + 1]


def _changed(facts: ScenarioHistory, *changes: tuple[Event, Event | None]) -> list[Event]:
    """Return the events with some replaced, or left out."""
    by_id = {id(old): new for old, new in changes}
    events = (by_id.get(id(e), e) for e in facts.events)
    return [e for e in events if e is not None]
