"""Defects to put into the history of a run that keeps every promise; each breaks one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from drkit.exercise.events import (
    PRIMARY,
    Acked,
    CommandEnded,
    Consumed,
    Event,
    FinalPosition,
    Observed,
    OffsetCommitted,
    Probed,
    Read,
    RunReported,
    ScenarioEnded,
)
from drkit.exercise.history import ScenarioHistory
from drkit.model import TopicPartition
from tests.support.chaos.pair_model import IDLE, LIVE

Events = list[Event]
Defect = Callable[[ScenarioHistory], Iterator[Events]]
"""Yields the events with the defect, for each place where the history can have it."""
DEFECTS: Final[list[Defect]] = []
_FAR: Final = 10**9


def _defect(defect: Defect) -> Defect:
    DEFECTS.append(defect)
    return defect


def _change(facts: ScenarioHistory, *changes: tuple[Event, Event | None]) -> Events:
    """The events with some replaced, or left out."""
    by_id = {id(old): new for old, new in changes}
    events = [by_id.get(id(e), e) for e in facts.events]
    return [e for e in events if e is not None]


def _add(facts: ScenarioHistory, event: Event) -> Events:
    return [*facts.events, event]


# -- records ------------------------------------------------------------------------------------------------


def _safe_reads(facts: ScenarioHistory) -> list[Read]:
    """Acknowledged records of the active side that no failover has given up.

    A record that the active side itself committed in a transaction, and lacks, was taken back by Kafka.
    """
    tails = {record for f in facts.failovers for record in f.tail}
    own = {r for r, (_, e) in facts.acked.items() if e.transaction and e.cluster == facts.active}
    known = facts.acked.keys() - tails - own
    return [e for e in facts.of(Read) if e.cluster == facts.active and (e.tp, e.value) in known]


@_defect
def lose_a_record(facts: ScenarioHistory) -> Iterator[Events]:
    for read in _safe_reads(facts):
        yield _change(facts, (read, None))


@_defect
def copy_a_record_twice(facts: ScenarioHistory) -> Iterator[Events]:
    for read in _safe_reads(facts):
        yield _add(facts, replace(read, offset=_FAR))


@_defect
def swap_two_records(facts: ScenarioHistory) -> Iterator[Events]:
    def order(e: Read) -> tuple[TopicPartition, str]:
        return e.tp, facts.acked[e.tp, e.value][1].cluster

    reads = sorted(_safe_reads(facts), key=lambda e: (*order(e), e.offset))
    for a, b in pairwise(reads):
        if order(a) == order(b):
            yield _change(facts, (a, replace(a, value=b.value)), (b, replace(b, value=a.value)))


@_defect
def show_an_aborted_record(facts: ScenarioHistory) -> Iterator[Events]:
    for e in facts.of(Acked):
        if e.transaction == "aborted":
            yield _add(facts, Consumed(facts.active, *e.tp, _FAR, e.value, LIVE))
            yield _add(facts, Read(facts.active, *e.tp, _FAR, e.value))


@_defect
def show_two_values(facts: ScenarioHistory) -> Iterator[Events]:
    for read in facts.of(Read):
        yield _add(facts, Consumed(read.cluster, *read.tp, read.offset, "another value", "another"))


@_defect
def change_a_key_a_header_or_a_timestamp(facts: ScenarioHistory) -> Iterator[Events]:
    for read in _safe_reads(facts):
        yield _change(facts, (read, replace(read, envelope="another")))


@_defect
def state_no_loss(facts: ScenarioHistory) -> Iterator[Events]:
    """The newest report does not state what its failover lost."""
    for f in facts.failovers[-1:]:
        earlier = {r for before in facts.failovers[:-1] for r in before.tail}
        if f.stated - facts.offsets[facts.active].keys() - earlier:
            yield _change_report(facts, f.report, loss={**f.loss, "partitions": []})


def _change_report(facts: ScenarioHistory, report: object, **fields: object) -> Events:
    [event] = [e for e in facts.of(RunReported) if e.report is report]
    return _change(facts, (event, replace(event, report={**event.report, **fields})))


@_defect
def add_a_record_of_the_old_primary(facts: ScenarioHistory) -> Iterator[Events]:
    """A record that only the old primary has is copied after what clients wrote to the new one."""
    for f in facts.failovers[-1:]:
        own = {e.tp for i, e in facts.acked.values() if e.cluster == f.target and i > f.opened}
        for tp, value in f.tail - facts.offsets[f.target].keys():
            if tp in own:
                yield _add(facts, Read(f.target, *tp, _FAR, value))


@_defect
def lose_a_tail_that_was_to_be_replayed(facts: ScenarioHistory) -> Iterator[Events]:
    for e in facts.of(Read):
        if e.cluster == facts.active and (e.tp, e.value) in facts.replayed:
            yield _change(facts, (e, None))


@_defect
def lose_a_record_of_the_standby(facts: ScenarioHistory) -> Iterator[Events]:
    if facts.failovers and facts.failovers[-1].returned is not None:
        for e in facts.of(Read):
            if e.cluster != facts.active:
                yield _change(facts, (e, None))


# -- groups -------------------------------------------------------------------------------------------------


@_defect
def move_an_idle_group(facts: ScenarioHistory) -> Iterator[Events]:
    """The idle group skips a record, or repeats one, of those from before the first failover."""
    for p in facts.of(FinalPosition):
        if p.cluster != facts.active or p.group != IDLE or not facts.failovers:
            continue
        first, offsets = facts.failovers[0].opened, []
        for offset, value in facts.logs[p.cluster].get(p.tp, []):
            index, acked = facts.acked[p.tp, value]
            is_replayed = (p.tp, value) in facts.replayed
            if index < first and acked.cluster == PRIMARY and not is_replayed:
                offsets.append(offset)
        for offset in offsets:
            moved = offset if offset < p.offset else offset + 1
            yield _change(facts, (p, replace(p, offset=moved)))


@_defect
def move_a_position_of_the_standby_forward(facts: ScenarioHistory) -> Iterator[Events]:
    if not facts.failovers:
        for (cluster, group, tp), p in facts.positions.items():
            active = facts.positions.get((facts.active, group, tp))
            if cluster == facts.active or active is None:
                continue
            for offset, value in facts.logs[cluster].get(tp, ()):
                if facts.offsets[facts.active].get((tp, value), -1) >= active.offset:
                    yield _change(facts, (p, replace(p, offset=offset + 1)))


@_defect
def forget_a_position(facts: ScenarioHistory) -> Iterator[Events]:
    for f in facts.failovers[-1:]:
        for (cluster, group, tp), p in facts.positions.items():
            is_known = (f.source, group, tp) in facts.positions and not f.names_without_position(group, tp)
            if cluster == f.target and is_known:
                yield _change(facts, (p, None))


def _commits(facts: ScenarioHistory) -> dict[tuple[str, TopicPartition], tuple[int, int]]:
    """The last commit on the active side since that was opened: its event and its offset."""
    return {
        (e.group, e.tp): (i, e.offset)
        for i, e in enumerate(facts.events)
        if isinstance(e, OffsetCommitted) and e.cluster == facts.active and i > facts.opened
    }


@_defect
def move_a_live_group_back(facts: ScenarioHistory) -> Iterator[Events]:
    commits = _commits(facts)
    for p in facts.of(FinalPosition):
        if p.cluster == facts.active and (p.group, p.tp) in commits:
            yield _change(facts, (p, replace(p, offset=p.offset - 1)))


@_defect
def move_a_live_group_after_the_end(facts: ScenarioHistory) -> Iterator[Events]:
    for p in facts.of(FinalPosition):
        if p.cluster == facts.active:
            yield _change(facts, (p, replace(p, offset=facts.log_ends[p.cluster, p.tp].end + 1)))


def _committed_here(facts: ScenarioHistory) -> Iterator[Consumed]:
    """What the group at work was given on the active side and has committed there."""
    commits = _commits(facts)
    for i, e in enumerate(facts.events):
        if isinstance(e, Consumed) and e.cluster == facts.active and i > facts.opened:
            index, offset = commits.get((e.group, e.tp), (-1, 0))
            if i < index and e.offset < offset:
                yield e


@_defect
def skip_a_record(facts: ScenarioHistory) -> Iterator[Events]:
    """The group at work is never given a record before its position, and was given earlier ones."""
    begun: set[TopicPartition] = set()
    committed = {id(e) for e in _committed_here(facts)}
    values = [e.value for e in facts.of(Consumed)]
    for e in facts.of(Consumed):
        if id(e) in committed and e.tp in begun and values.count(e.value) == 1:
            yield _change(facts, (e, None))
        begun.add(e.tp)


@_defect
def consume_again(facts: ScenarioHistory) -> Iterator[Events]:
    for e in _committed_here(facts):
        if (e.tp, e.value) not in facts.replayed:
            yield _add(facts, e)


# -- sides, runs, commands ----------------------------------------------------------------------------------


@_defect
def acknowledge_after_open(facts: ScenarioHistory) -> Iterator[Events]:
    for f in facts.failovers[-1:]:
        late = Acked(f.source, "orders", 0, _FAR, "late")
        yield [*facts.events[: f.opened + 1], late, *facts.events[f.opened + 1 :]]


@_defect
def acknowledge_after_payment(facts: ScenarioHistory) -> Iterator[Events]:
    """The old primary takes a record that the divergence names, after its fence was paid."""
    for f in facts.failovers[-1:]:
        for record in () if f.is_fenced else f.late:
            late = facts.acked[record][1]
            end = next(i for i, e in enumerate(facts.events) if isinstance(e, RunReported))
            yield [*(e for e in facts.events[:end] if e is not late), late, *facts.events[end:]]


@_defect
def accept_writes_on_both_sides(facts: ScenarioHistory) -> Iterator[Events]:
    for f in facts.failovers[-1:]:
        if f.returned is None:
            yield _add(facts, Probed(f.source, "orders", is_accepted=True))


@_defect
def close_the_active_side(facts: ScenarioHistory) -> Iterator[Events]:
    yield _add(facts, Probed(facts.active, "orders", is_accepted=False))


@_defect
def leave_the_table(facts: ScenarioHistory) -> Iterator[Events]:
    for e in facts.of(RunReported):
        for i, entry in enumerate(e.entries):
            if '"step"' in entry and '"step":null' not in entry:
                entries = [*e.entries[:i], *e.entries[i + 1 :]]
                yield _change(facts, (e, replace(e, entries=entries)))


@_defect
def name_no_position_of_a_group(facts: ScenarioHistory) -> Iterator[Events]:
    for f in facts.failovers:
        yield _change_report(facts, f.report, groups={**f.groups, "asked": ["another"]})


@_defect
def call_a_living_primary_lost(facts: ScenarioHistory) -> Iterator[Events]:
    yield [*facts.events, *[Observed("LOST", "no answer")] * 2]  # the first may be of an earlier look


@_defect
def end_a_command_badly(facts: ScenarioHistory) -> Iterator[Events]:
    yield _add(facts, CommandEnded(["failover"], 1, [0]))


@_defect
def leave_a_topic(facts: ScenarioHistory) -> Iterator[Events]:
    yield _add(facts, ScenarioEnded(facts.active, ["a topic"]))
