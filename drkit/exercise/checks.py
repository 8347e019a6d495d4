"""Checks of a history: which promises of drkit it breaks, and how much each check examined. Pure.

A check that examined nothing proves nothing. A record is missing only from a log that was read to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
import math
from typing import Final, NamedTuple

from drkit.counted import total
from drkit.detect.verdict import VerdictKind
from drkit.errors import Refused
from drkit.exercise.events import (
    OTHER,
    Acked,
    ClientStopped,
    CommandEnded,
    Consumed,
    ExportRead,
    FaultBegan,
    FaultEnded,
    JournalEntered,
    LookFailed,
    NotAcked,
    Observed,
    Probed,
    Read,
    RunReported,
    ScenarioEnded,
)
from drkit.exercise.group_checks import check_positions
from drkit.exercise.history import OLDER_DISK, Failover, ScenarioHistory, choice, place_of
from drkit.journal.entries import JournalEntry, read_history
from drkit.journal.lost import violations
from drkit.journal.machine import RunState
from drkit.model import TopicPartition

ACKNOWLEDGED: Final = "acknowledged or stated as lost"
IN_ORDER: Final = "once, in order"
OLDER_WRITER: Final = "nothing by an older writer after OPEN"
ONE_SIDE: Final = "one open side"
ABORTED: Final = "nothing aborted is seen"
READERS: Final = "same for every reader"
POSITIONS: Final = "positions of groups"
JOURNAL: Final = "journal follows the table"
DECIDED: Final = "decided and stated"
COMMANDS: Final = "commands ended as documented"
OBSERVED: Final = "no living primary is called lost"
LEFT_BEHIND: Final = "nothing left behind"
SAME_SIDES: Final = "same on both sides"
GIVEN_UP: Final = "only what was given up is missing"
_DOWN: Final = frozenset({"kill primary", "freeze primary", "fill primary"})
"""Faults under which an observer may call the primary lost."""


class CheckResult(NamedTuple):
    """The result of one check."""

    name: str
    examined: int
    offences: list[str]


Check = Callable[[ScenarioHistory], CheckResult]
CHECKS: Final[dict[str, Check]] = {}
"""The checks by their names."""


def check(name: str) -> Callable[[Callable[[ScenarioHistory], Iterator[str]]], Check]:
    """Register a check, which yields for each item that it examines what is wrong with it, or nothing."""

    def register(examine: Callable[[ScenarioHistory], Iterator[str]]) -> Check:
        @wraps(examine)
        def checked(history: ScenarioHistory) -> CheckResult:
            problems = list(examine(history))
            return CheckResult(name, len(problems), list(filter(None, problems)))

        CHECKS[name] = checked
        return checked

    return register


check(POSITIONS)(check_positions)


@check(ACKNOWLEDGED)
def check_acknowledged(facts: ScenarioHistory) -> Iterator[str]:
    """Check that each acknowledged record is on the active side, or was stated as lost (I1, I2).

    What is stated as lost, or named as divergent, is not there.
    """
    present = facts.offsets[facts.active]
    f = facts.failovers[-1] if facts.failovers else None
    is_left = f is not None and f.returned is None
    is_only = len(facts.failovers) == 1  # an answer does not name its failover
    for record, (index, e) in facts.acked.items():
        if (facts.active, e.tp) in facts.log_ends and record not in facts.taken_back:
            is_missing, problem = record not in present, ""
            is_stated = f is not None and record in f.stated
            is_named = is_stated or (is_only and e.cluster != facts.active and facts.is_divergent(e))
            if is_missing and not _is_excused(facts, index, e):
                problem = f"{place_of(e)} is missing: {e.value}"
            elif is_named and is_left and not is_missing:
                problem = f"{place_of(e)} is not lost: {e.value}"
            elif f is not None and is_left and is_missing and not _is_kept(facts, f, e):
                problem = f"{place_of(e)} is gone there, too: {e.value}"
            yield problem
    if f is not None and is_left and f.is_fenced and f.loss.get("exact"):
        for p in f.loss.get("partitions") or ():
            tp, stated, held_back = TopicPartition(p["topic"], p["partition"]), p["records"], p["held_back"]
            first = math.inf if p["lost_from"] is None else p["lost_from"]
            lost = sum(offset >= first for offset, _ in facts.logs[f.source].get(tp, ()))
            if (f.source, tp) in facts.log_ends and not stated <= lost <= stated + held_back:
                yield f"{tp}: {lost} records are lost, {stated} are stated, and {held_back} held back"


def _is_kept(facts: ScenarioHistory, f: Failover, e: Acked) -> bool:
    is_read = e.cluster == f.source and (f.source, e.tp) in facts.log_ends and f.source not in facts.aged
    return not is_read or (e.tp, e.value) in facts.offsets[f.source]


def _is_excused(facts: ScenarioHistory, index: int, e: Acked) -> bool:
    for f in facts.failovers:
        record = (e.tp, e.value)
        is_trimmed = f.source == facts.active and choice(f.returned, "methods", e.topic) == "trim"
        is_named = record in f.late and not f.is_fenced and facts.is_divergent(e)
        if record in f.stated or is_named or (is_trimmed and index < f.opened):
            return True
    return False


@check(IN_ORDER)
def check_order(facts: ScenarioHistory) -> Iterator[str]:
    """Check that each value is a client's and there once, those of one cluster in their order (I3, I4)."""
    logs = facts.logs[facts.active]
    copies = Counter((tp.topic, value) for tp, log in logs.items() for _, value in log)
    sent = {(e.topic, e.value) for e in facts.events if isinstance(e, Acked | NotAcked)}
    # The last values of a client that was killed are unknown; they begin like its others.
    ended = {e.name for e in facts.of(ClientStopped) if not e.was_killed}
    writers = {e.value.rpartition(" ")[0] for e in facts.of(Acked) if e.by not in ended}
    newest: dict[tuple[TopicPartition, str, bool], int] = {}
    for tp, log in logs.items():
        for offset, value in log:
            where, problem = f"{tp}@{offset} on {facts.active}", ""
            if (tp.topic, value) not in sent and value.rpartition(" ")[0] not in writers:
                problem = f"{where}: no client wrote {value}"
            elif (number := copies[tp.topic, value]) > 1:
                problem = f"{where}: {value} is there {number} times"
            elif (tp, value) in facts.acked:
                e = facts.acked[tp, value][1]
                sequence = (tp, e.cluster, (tp, value) in facts.replayed)
                if e.offset < newest.get(sequence, -1):
                    problem = f"{where}: {value} is out of order"
                newest[sequence] = max(e.offset, newest.get(sequence, -1))
            yield problem


@check(OLDER_WRITER)
def check_older_writer(facts: ScenarioHistory) -> Iterator[str]:
    """Check that nothing of the old primary follows the first record of the opened side's own (I10)."""
    for f in facts.failovers:
        for tp, log in facts.logs[f.target].items():
            is_written = False
            for offset, value in log:
                if (tp, value) not in facts.acked:
                    continue
                index, e = facts.acked[tp, value]
                is_written = is_written or (e.cluster == f.target and index > f.opened)
                if is_written:
                    is_old = e.cluster == f.source and index < f.until and (tp, value) not in facts.replayed
                    yield f"{tp}@{offset} on {f.target}: {value} of {f.source} was added" if is_old else ""


@check(ABORTED)
def check_aborted(facts: ScenarioHistory) -> Iterator[str]:
    """Check that no record of an aborted transaction was read or consumed (I15).

    Where its own cluster was killed before its producer's next transaction was decided, and shows it at its
    offset, Kafka has restored it: see docs/internal/upstream.md.
    """
    sights: list[Read | Consumed] = [*facts.of(Read), *facts.of(Consumed)]
    seen = {(e.topic, e.value): e for e in sights}
    shown = {(e.cluster, e.tp, e.offset, e.value) for e in sights}
    for i, e in facts.at(Acked):
        if e.transaction == "aborted":
            is_shown = (e.cluster, e.tp, e.offset, e.value) in shown
            is_restored = is_shown and facts.was_undone(i, e)
            sight = None if is_restored else seen.get((e.topic, e.value))
            yield f"{place_of(sight)}: {e.value} was aborted" if sight is not None else ""


@check(READERS)
def check_readers(facts: ScenarioHistory) -> Iterator[str]:
    """Check that a position shows one value (I17), and a record one key, its headers and timestamp, to all.

    Offsets are used again only after a cluster came back with an older disk.
    """
    values: dict[tuple[str, TopicPartition, int], str] = {}
    envelopes = {(e.tp, e.value): e.envelope for e in facts.of(Acked) if e.envelope}
    for e in facts.events:
        if isinstance(e, FaultBegan) and e.fault.startswith(OLDER_DISK):
            values = {place: value for place, value in values.items() if place[0] not in e.fault.split()}
        elif isinstance(e, Read | Consumed):
            place = (e.cluster, e.tp, e.offset)
            if e.envelope != envelopes.setdefault((e.tp, e.value), e.envelope):
                yield f"{place_of(e)}: key, headers or timestamp of {e.value} are others than at first"
            if place in values:
                yield f"{place_of(e)}: {values[place]} and {e.value}" if values[place] != e.value else ""
            values.setdefault(place, e.value)


@check(ONE_SIDE)
def check_one_side(facts: ScenarioHistory) -> Iterator[str]:
    """Check that the side that was left takes no write after OPEN, or one that is named (I9, I20)."""
    paid = [i for i, e in facts.at(CommandEnded) if {"fence", "pay"} <= {*e.words} and e.answer.get("paid")]
    for f in facts.failovers:
        first_paid = next((i for i in paid if i > f.opened), len(facts.events))
        for record in sorted(f.late):
            index, e = facts.acked[record]
            is_known = f.is_fenced or facts.is_divergent(e)  # or it was copied, and its line is late
            is_known = is_known or (record in facts.offsets[f.target] and record not in facts.replayed)
            problem = "" if is_known else "no divergence names it"
            if index > first_paid and e.is_sent_after(facts.events[first_paid]):
                problem = "its fence was paid before"
            if f.is_fenced and e.is_sent_after(facts.events[f.opened]):
                problem = "its fence was proven"
            yield f"{place_of(e)}: {e.value} was acknowledged after OPEN, {problem}" if problem else ""
    # After a return the other side is a standby without a fence.
    is_closed = bool(facts.failovers) and facts.failovers[-1].returned is None
    for p in facts.of(Probed) if facts.active else ():
        if p.cluster == facts.active:
            yield "" if p.is_accepted else f"{p.topic} on {p.cluster} takes no writes: {p.error}"
        elif is_closed:
            yield f"{p.topic} on {p.cluster} takes writes, too" if p.is_accepted else ""


@check(JOURNAL)
def check_journal(facts: ScenarioHistory) -> Iterator[str]:
    """Check that the journal has each entry that was made, and that they follow the table (I11, I13)."""
    for e in facts.of(RunReported):
        run = read_history(map(JournalEntry.from_json, e.entries)).runs[e.run]
        entered = Counter((j.step, j.kind, j.effect) for j in facts.of(JournalEntered) if j.run == e.run)
        entered.subtract((entry.step or "", str(entry.kind), entry.effect) for entry in run.entries)
        lost = (f"{' '.join(entry)} is gone" for entry, times in entered.items() if times > 0)
        broken = [*violations(run), *lost]
        yield from broken
        yield from [""] * max(0, len(e.entries) - len(broken))


def _unnamed(facts: ScenarioHistory, f: Failover, answer: CommandEnded) -> Iterator[str]:
    """Look for lost records that an answer of ``drkit divergence`` does not name, and for what it invents."""
    for tp, _, end in answer.divergent:
        log = None if f.returned else facts.log_ends.get((f.source, tp))
        is_beyond = log is not None and end > log.end
        yield f"divergence names {tp} up to {end}, it ends at {log.end}" if log and is_beyond else ""
    # An older disk, or Kafka itself, may have nothing left of them.
    for record in () if f.source in facts.aged else sorted(f.tail - facts.taken_back):
        e = facts.acked[record][1]
        is_left = e.cluster == f.source and record not in facts.offsets[f.target]
        if is_left and e.seconds < (answer.began or 0) and not answer.names(e):
            yield f"no divergence names {place_of(e)}: {e.value}"


@check(DECIDED)
def check_decided(facts: ScenarioHistory) -> Iterator[str]:
    """Check that each failover states its loss, who accepted it, and every group's position (I12)."""
    for f in facts.failovers:
        name = f"failover {f.report.get('run', '')}".strip()
        for run, report in ((name, f.report), (f"the return from {name}", f.returned)):
            is_decided = report is None or (report.get("decision") or {}).get("by")
            yield "" if is_decided else f"{run} does not name who decided"
        if f.is_planned:
            is_lossless = f.loss.get("records") == 0 and f.loss.get("exact")
            yield "" if is_lossless else f"{name} was planned, and does not state that nothing is lost"
        else:
            yield "" if f.loss.get("statement") else f"{name} states no loss"
            is_guess = f.loss.get("exact") and not f.is_fenced
            yield f"{name} calls its loss exact, and its source is not fenced" if is_guess else ""
        records = total(p.get("records") for p in f.loss.get("partitions") or ())
        is_sum = records in {None, f.loss.get("records")}
        yield "" if is_sum else f"{name} states {f.loss.get('records')} records, its partitions {records}"
        for e in (e for i, e in facts.at(CommandEnded) if f.opened < i < f.until and e.divergent):
            yield from _unnamed(facts, f, e)
        for group in f.groups.get("asked", ()):
            is_named = group in (f.groups.get("positions") or {}) or f.names_without_position(group)
            yield "" if is_named else f"{name} does not say where group {group} is"


@check(COMMANDS)
def check_commands(facts: ScenarioHistory) -> Iterator[str]:
    """Check the exit code of each command, and that one that failed has its reason.

    One that did nothing because it refused, or reached no cluster, breaks no promise. What was typed after
    that had another beginning than it was written for.
    """
    ended = [*facts.of(CommandEnded)]
    first = next((i for i, e in enumerate(ended) if not e.is_expected), len(ended))
    for e in ended[: first + 1]:
        problem = f"exit code {e.code}, expected {e.expected}: {e.error}"
        is_declined = e.error_code.endswith(("_unreachable", "_timeout"))
        is_declined = is_declined or bool(e.code == Refused.exit_code and e.error_code)
        yield "" if e.is_expected or is_declined else f"{' '.join(e.words)}: {problem}"


@check(OBSERVED)
def check_observers(facts: ScenarioHistory) -> Iterator[str]:
    """Check that an observer calls the primary lost only while it is down, or in a look that began then."""
    down: set[str] = set()
    is_earlier = False
    for e in facts.events:
        if isinstance(e, FaultBegan) and e.fault in _DOWN:
            down |= {e.fault}
        elif isinstance(e, FaultEnded):
            is_earlier = is_earlier or e.fault in down
            down -= {e.fault}
        elif isinstance(e, Observed):
            is_wrong = e.verdict == VerdictKind.LOST.name and not down and not is_earlier
            is_earlier = False
            yield f"{e.by} calls a living primary lost: {e.reason}" if is_wrong else ""


@check(LEFT_BEHIND)
def check_left(facts: ScenarioHistory) -> Iterator[str]:
    """Check that nothing is left behind (I18)."""
    end = facts.last(ScenarioEnded)
    if end is not None:
        states = {e.run: RunState(e.state) for e in facts.of(RunReported)}
        open_runs = [f"run {run} is {state}" for run, state in states.items() if not state.is_over]
        yield ", ".join(open_runs + end.left)


@check(SAME_SIDES)
def check_sides(facts: ScenarioHistory) -> Iterator[str]:
    """Check that the standby has the same records as the active side; see `ScenarioHistory.is_copied`."""
    sides = OTHER.get(facts.active, ""), facts.active
    logs = [{tp: [v for _, v in log] for tp, log in facts.logs[side].items()} for side in sides]
    for tp in sorted(logs[0].keys() | logs[1].keys()) if facts.is_copied else ():
        is_whole = not facts.failovers or facts.failovers[-1].copies_whole(tp.topic)
        if is_whole and {(side, tp) for side in sides} <= facts.log_ends.keys():
            standby, active = (log.get(tp, []) for log in logs)
            pairs = zip(standby, active, strict=False)
            place = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(standby), len(active)))
            numbers = f"{len(standby)} records on {sides[0]}, {len(active)} on {sides[1]}"
            # What is not copied yet is no offence: then the look at the copy's end has failed.
            is_same = standby == active or (place == len(standby) and any(facts.of(LookFailed)))
            yield "" if is_same else f"{tp} differs from record {place} on: {numbers}"


@check(GIVEN_UP)
def check_given_up(facts: ScenarioHistory) -> Iterator[str]:
    """Check that of each tail that returned only those records are missing that were given up (I14).

    Each was exported before, with its key, headers and timestamp.
    """
    exported = {(e.tp, e.value, known) for e in facts.of(ExportRead) for known in (e.envelope, "")}
    for number, f in enumerate(facts.failovers, 1):
        if f.returned is None:
            continue
        for record in () if f.source in facts.aged else sorted(f.tail - facts.taken_back):
            e = facts.acked[record][1]
            is_saved = e.cluster != f.source or (*record, e.envelope) in exported
            yield "" if is_saved else f"{place_of(e)}: {e.value} is not in the export"
        given_up = (f.returned.get("request") or {}).get("give_up_history") or ()
        lost_again = {record for later in facts.failovers[number:] for record in later.stated}
        for tp, value in sorted(f.tail - lost_again):
            if (facts.active, tp) not in facts.log_ends:
                continue
            disposition, is_there = f.disposition((tp, value)), (tp, value) in facts.offsets[facts.active]
            is_wrong = is_there == (disposition in {"discard", "quarantine"})
            is_wrong = is_wrong and (is_there or tp.topic not in given_up)
            state = "there" if is_there else "missing"
            problem = f"{tp}: {value} is {state}, its disposition is {disposition or 'none'}"
            yield problem if is_wrong else ""
