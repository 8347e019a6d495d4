"""Checks of a history: which promises of drkit it breaks, and how much each check examined. Pure.

A check that examined nothing proves nothing. A record is missing only from a log that was read to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from drkit.chaos.facts import CHECKS as CHECKS
from drkit.chaos.facts import Facts, check, choice, place_of
from drkit.chaos.group_checks import POSITIONS as POSITIONS
from drkit.chaos.history import (
    Acked,
    CommandEnded,
    Consumed,
    Event,
    FaultBegan,
    FaultEnded,
    Observed,
    Probed,
    Read,
    RunReported,
    ScenarioEnded,
)
from drkit.detect.verdict import VerdictKind
from drkit.errors import Refused
from drkit.model import TopicPartition

ACKNOWLEDGED: Final = "acknowledged or stated as lost"
IN_ORDER: Final = "once, in order"
OLDER_WRITER: Final = "nothing by an older writer after OPEN"
ONE_SIDE: Final = "one open side"
ABORTED: Final = "nothing aborted is seen"
JOURNAL: Final = "journal follows the table"
DECIDED: Final = "decided and stated"
COMMANDS: Final = "commands ended as documented"
OBSERVED: Final = "no living primary is called lost"
LEFT_BEHIND: Final = "nothing left behind"
SAME_SIDES: Final = "same on both sides"
GIVEN_UP: Final = "only what was given up is missing"
_OLDER_DISK: Final = "age "
"""How a fault is called with which a cluster gets an older disk; its target follows."""
_DOWN: Final = frozenset({"kill primary", "freeze primary", "fill primary"})
"""Faults under which an observer may call the primary lost."""


# -- records ------------------------------------------------------------------------------------------------


@check(ACKNOWLEDGED)
def check_acknowledged(facts: Facts) -> Iterator[str]:
    """Check that each acknowledged record is on the active side, or was stated as lost (I1, I2)."""
    present, missing = facts.offsets[facts.active], Counter[TopicPartition]()
    for record, (index, e) in facts.acked.items():
        if (facts.active, e.tp) not in facts.log_ends:
            continue
        is_missing = record not in present
        yield (
            f"{place_of(e)} is missing: {e.value}" if is_missing and not _is_excused(facts, index, e) else ""
        )
        if is_missing and facts.tails and record in facts.tails[-1].stated:
            missing[e.tp] += 1
    last = facts.failovers[-1] if facts.failovers else None
    if last is not None and last.is_fenced and last.loss.get("exact"):
        for p in last.loss.get("partitions") or ():
            number = missing[TopicPartition(p["topic"], p["partition"])]
            stated = (p.get("records") or 0) + (p.get("held_back") or 0)
            if number > stated:
                yield f"{p['topic']}-{p['partition']}: {number} records are lost, {stated} are stated"


def _is_excused(facts: Facts, index: int, e: Acked) -> bool:
    for f, stated, late in facts.tails:
        record = (e.tp, e.value)
        is_trimmed = f.source == facts.active and choice(f.returned, "methods", e.topic) == "trim"
        is_named = record in late and not f.is_fenced and facts.is_divergent(e)
        if record in stated or is_named or (is_trimmed and index < f.opened):
            return True
    return False


@check(IN_ORDER)
def check_order(facts: Facts) -> Iterator[str]:
    """Check that each value is a client's and there once, those of one cluster in their order (I3, I4)."""
    logs = facts.logs[facts.active]
    copies = Counter((tp.topic, value) for tp, log in logs.items() for _, value in log)
    newest: dict[tuple[TopicPartition, str, bool], int] = {}
    for tp, log in logs.items():
        for offset, value in log:
            problem = ""
            if value.rpartition(" ")[0] not in facts.writers:
                problem = f"{tp}@{offset} on {facts.active}: no client wrote {value}"
            elif (number := copies[tp.topic, value]) > 1:
                problem = f"{tp}@{offset} on {facts.active}: {value} is there {number} times"
            elif (tp, value) in facts.acked:
                e = facts.acked[tp, value][1]
                sequence = (tp, e.cluster, (tp, value) in facts.replayed)
                if e.offset < newest.get(sequence, -1):
                    problem = f"{tp}@{offset} on {facts.active}: {value} is out of order"
                newest[sequence] = max(e.offset, newest.get(sequence, -1))
            yield problem


@check(OLDER_WRITER)
def check_older_writer(facts: Facts) -> Iterator[str]:
    """Check that nothing of the old primary follows the first record of the opened side's own (I10)."""
    for f in facts.failovers:
        for tp, log in facts.logs[f.target].items():
            is_written = False
            for offset, value in log:
                index, e = facts.acked.get((tp, value), (-1, None))
                if e is None:
                    continue
                is_written = is_written or (e.cluster == f.target and index > f.opened)
                if is_written:
                    is_old = e.cluster == f.source and index < f.until and (tp, value) not in facts.replayed
                    yield f"{tp}@{offset} on {f.target}: {value} of {f.source} was added" if is_old else ""


@check(ABORTED)
def check_aborted(facts: Facts) -> Iterator[str]:
    """Check that no record of an aborted transaction was read or consumed (I15)."""
    sights: list[Read | Consumed] = [*facts.of(Read), *facts.of(Consumed)]
    seen = {(e.topic, e.value): e for e in sights}
    for e in facts.of(Acked):
        if e.transaction == "aborted":
            sight = seen.get((e.topic, e.value))
            yield f"{place_of(sight)}: {e.value} was aborted" if sight is not None else ""


@check("same for every reader")
def check_readers(facts: Facts) -> Iterator[str]:
    """Check that one position never shows two values (I17); examined is what was shown twice.

    Offsets are used again only after a cluster came back with an older disk.
    """
    values: dict[tuple[str, TopicPartition, int], str] = {}
    for e in facts.events:
        if isinstance(e, FaultBegan) and e.fault.startswith(_OLDER_DISK):
            values = {place: value for place, value in values.items() if place[0] not in e.fault.split()}
        elif isinstance(e, Read | Consumed):
            place = (e.cluster, e.tp, e.offset)
            if place in values:
                yield f"{place_of(e)}: {values[place]} and {e.value}" if values[place] != e.value else ""
            values.setdefault(place, e.value)


# -- sides, runs, commands ----------------------------------------------------------------------------------


def _is_sent_after(e: Acked, event: Event) -> bool:
    """Return whether a record was sent after an event; without its time, as it was acknowledged after it."""
    return e.sent is None or e.sent > event.seconds


@check(ONE_SIDE)
def check_one_side(facts: Facts) -> Iterator[str]:
    """Check that the side that was left takes no write after OPEN, or one that is named (I9, I20)."""
    for f, _, late in facts.tails:
        paid = [
            i
            for i, e in enumerate(facts.events)
            if isinstance(e, CommandEnded) and {"fence", "pay"} <= {*e.words} and e.code == 0 and i > f.opened
        ]
        for record in late:
            index, e = facts.acked[record]
            problem = "" if f.is_fenced or facts.is_divergent(e) else "no divergence names it"
            if paid and index > paid[0] and _is_sent_after(e, facts.events[paid[0]]):
                problem = "its fence was paid before"
            if f.is_fenced and _is_sent_after(e, facts.events[f.opened]):
                problem = "its fence was proven"
            yield f"{place_of(e)}: {e.value} was acknowledged after OPEN, {problem}" if problem else ""
    for p in facts.of(Probed) if facts.active else ():
        if p.cluster == facts.active:
            yield "" if p.is_accepted else f"{p.topic} on {p.cluster} takes no writes: {p.error}"
        elif (
            facts.failovers and facts.failovers[-1].returned is None
        ):  # later it is a standby without a fence
            yield f"{p.topic} on {p.cluster} takes writes, too" if p.is_accepted else ""


@check(JOURNAL)
def check_journal(facts: Facts) -> Iterator[str]:
    """Check that the entries of each run follow its table (I11, I13)."""
    for e in facts.of(RunReported):
        yield from e.violations
        yield from [""] * max(0, e.entries - len(e.violations))


@check(DECIDED)
def check_decided(facts: Facts) -> Iterator[str]:
    """Check that each failover states its loss, who accepted it, and every group's position (I12)."""
    for f in facts.failovers:
        name = f"failover {f.report.get('run', '')}".strip()
        accepted = (f.report.get("request") or {}).get("accept_data_loss") or f.report.get("decision")
        if f.is_planned:
            yield "" if f.loss.get("records") == 0 else f"{name} was planned, and states a loss"
        else:
            yield "" if f.loss.get("statement") else f"{name} states no loss"
            yield "" if accepted else f"{name} has no decision"
        for group in f.groups.get("asked", ()):
            is_named = group in (f.groups.get("positions") or {}) or f.names_without_position(group)
            yield "" if is_named else f"{name} does not say where group {group} is"


@check(COMMANDS)
def check_commands(facts: Facts) -> Iterator[str]:
    """Check the exit code of each command, and that a refusal has its reason."""
    for e in facts.of(CommandEnded):
        if e.code not in e.expected:
            yield f"{' '.join(e.words)}: exit code {e.code}, expected {e.expected}: {e.error}"
        else:
            is_silent = e.code == Refused.exit_code and not e.error
            yield f"{' '.join(e.words)}: refused without a reason" if is_silent else ""


@check(OBSERVED)
def check_observers(facts: Facts) -> Iterator[str]:
    """Check that an observer calls the primary lost only while it is down."""
    down: set[str] = set()
    for e in facts.events:
        if isinstance(e, FaultBegan | FaultEnded) and e.fault in _DOWN:
            down ^= {e.fault}
        elif isinstance(e, Observed):
            is_wrong = e.verdict == VerdictKind.LOST.name and not down
            yield f"{e.by} calls a living primary lost: {e.reason}" if is_wrong else ""


@check(LEFT_BEHIND)
def check_left(facts: Facts) -> Iterator[str]:
    """Check that nothing is left behind (I18)."""
    end = facts.last(ScenarioEnded)
    if end is not None:
        yield ", ".join(end.left)


# -- returns ------------------------------------------------------------------------------------------------


@check(SAME_SIDES)
def check_sides(facts: Facts) -> Iterator[str]:
    """Check that both sides have the same records, if a return is the last run that is done."""
    f = facts.failovers[-1] if facts.failovers else None
    if f is None or f.returned is None:
        return
    logs = {c: {tp: [v for _, v in log] for tp, log in facts.logs[c].items()} for c in (f.source, f.target)}
    for tp in sorted(logs[f.source].keys() | logs[f.target].keys()):
        is_read = {(f.source, tp), (f.target, tp)} <= facts.log_ends.keys()
        if is_read and f.copies_whole(tp.topic):
            standby, active = (logs[c].get(tp, []) for c in (f.source, f.target))
            pairs = zip(standby, active, strict=False)
            place = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(standby), len(active)))
            numbers = f"{len(standby)} records on {f.source}, {len(active)} on {f.target}"
            yield "" if standby == active else f"{tp} differs from record {place} on: {numbers}"


@check(GIVEN_UP)
def check_given_up(facts: Facts) -> Iterator[str]:
    """Check that of each tail that returned only those records are missing that were given up (I14)."""
    for tail in facts.tails:
        f, later = tail.failover, facts.tails[facts.tails.index(tail) + 1 :]
        if f.returned is None:
            continue
        given_up = (f.returned.get("request") or {}).get("give_up_history") or ()
        for record in sorted(tail.records):
            tp, value = record
            if (facts.active, tp) not in facts.log_ends or any(record in t.stated for t in later):
                continue
            disposition, is_there = tail.disposition(record), record in facts.offsets[facts.active]
            is_given_up = disposition in {"discard", "quarantine"}
            if is_there == is_given_up and not (tp.topic in given_up and not is_there):
                state = "there" if is_there else "missing"
                yield f"{tp}: {value} is {state}, its disposition is {disposition or 'none'}"
            else:
                yield ""
