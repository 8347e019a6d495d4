"""The check of consumer groups: none skips a record, none repeats one unless a report names it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Final

from drkit.exercise.events import (
    OTHER,
    Consumed,
    FaultBegan,
    FinalPosition,
    JournalEntered,
    LookFailed,
    OffsetCommitted,
)
from drkit.exercise.history import Failover, Record, ScenarioHistory, place_of
from drkit.model import TopicPartition

_CHECKPOINTS_SECONDS: Final = 10.0
"""Two checkpoints of a replicator, by default."""


def check_positions(facts: ScenarioHistory) -> Iterator[str]:
    """Check that no group skips a record, and none repeats one, unless the report names it (I5 to I8)."""
    if facts.failovers:
        yield from _without_position(facts, facts.failovers[-1])
    else:
        yield from (problem for is_ahead, problem in out_of_step(facts) if is_ahead)
    yield from _repeated(facts)
    for position in facts.positions.values():
        if position.cluster == facts.active:
            yield _moved_back(facts, position)
            yield from _skipped(facts, position)
            yield from _displaced(facts, position)


def _without_position(facts: ScenarioHistory, f: Failover) -> Iterator[str]:
    """Look for groups that had a position on the side that was left, and have none on the active one."""
    for cluster, group, tp in facts.positions:
        if cluster == f.source and f.moves(tp.topic) and (f.target, group, tp) not in facts.positions:
            is_named = f.names_without_position(group, tp) or any(facts.of(LookFailed))
            yield "" if is_named else f"group {group} has no position in {tp} on {f.target}"


def _committed(facts: ScenarioHistory, f: Failover, group: str, tp: TopicPartition) -> int | None:
    """Return the position of a group on the side that was left, or None if it is unknown or was not moved."""
    if group in f.groups.get("kept", ()):
        return None
    # A standby's positions follow the active side: then only the report has those that were left.
    is_left = f is facts.failovers[-1] and f.returned is None
    position = facts.positions.get((f.source, group, tp)) if is_left else None
    return f.stated_position(group, tp) if position is None else position.offset


def _displaced(facts: ScenarioHistory, e: FinalPosition) -> Iterator[str]:
    """Compare the position of a group that was not at work since a failover with the one that it left."""
    worked = max((i for (group, _), i in facts.last_work.items() if group == e.group), default=-1)
    for f in facts.failovers:
        committed = _committed(facts, f, e.group, e.tp)
        if committed is not None and worked < f.opened:
            yield next(_displacements(facts, f, committed, e), "")


def _displacements(facts: ScenarioHistory, f: Failover, committed: int, e: FinalPosition) -> Iterator[str]:
    offsets = f"{e.tp}: {committed} on {f.source}, {e.offset} on {e.cluster}"
    # A return may have emptied the log of the source: then only acknowledgements have the earlier offsets.
    log, is_last = facts.log_ends.get((f.source, e.tp)), f is facts.failovers[-1]
    stated = f.stated_position(e.group, e.tp, side=1)
    if is_last and stated not in {None, e.offset}:
        yield f"group {e.group} is not at {stated}, as the report has it, {offsets}"
    is_whole = is_last and (f.returned is None or (log is not None and log.start < max(committed, 1)))
    for offset, value in facts.logs[e.cluster].get(e.tp, ()):
        record = (e.tp, value)
        own = facts.own_offset(f.source, record, is_whole=is_whole)
        if own is None or record in facts.replayed:
            continue
        if offset < e.offset and own >= committed:
            yield f"group {e.group} skips {value}, {offsets}"
        if offset >= e.offset and own < committed and not _is_named(facts, f, e, own):
            yield f"group {e.group} repeats {value}, {offsets}"


def _is_named(facts: ScenarioHistory, f: Failover, e: FinalPosition | Consumed, own: int) -> bool:
    """Return whether a failover's report names a record that a group repeats.

    The positions of a primary that is silent are those of the last checkpoint: what a group committed since
    is repeated, and the report has the offset that was translated.

    :param own: the record's offset on the source
    """
    if e.group in (f.groups.get("repeats") or {}) or e.group in f.groups.get("kept", ()):
        return True
    if f.is_planned or (e.group, f.source) not in facts.last_work:
        return False
    translated = f.stated_position(e.group, e.tp)
    return f.names_without_position(e.group, e.tp) if translated is None else own >= translated


def _repeated(facts: ScenarioHistory) -> Iterator[str]:
    """Look for records that a group was given again after their commit was confirmed."""
    unconfirmed: dict[tuple[str, str, TopicPartition], list[tuple[int, Consumed]]] = defaultdict(list)
    confirmed: dict[tuple[str, Record], tuple[int, Consumed]] = {}
    opened = {f.opened: f.target for f in facts.failovers}
    for i, e in enumerate(facts.events):
        if i in opened:  # what it was given there before, it did not commit, and may have other offsets now
            unconfirmed = defaultdict(list, {k: u for k, u in unconfirmed.items() if k[1] != opened[i]})
        if isinstance(e, OffsetCommitted):
            before = unconfirmed.pop((e.group, e.cluster, e.tp), [])
            confirmed |= {(c.group, (c.tp, c.value)): (n, c) for n, c in before if c.offset < e.offset}
            unconfirmed[e.group, e.cluster, e.tp] = [(n, c) for n, c in before if c.offset >= e.offset]
        elif isinstance(e, Consumed):
            record = (e.tp, e.value)
            unconfirmed[e.group, e.cluster, e.tp].append((i, e))
            # A second time is in order once: then the first commit is void.
            n, first = confirmed.pop((e.group, record), (-1, e))
            exits = (f for f in facts.failovers if f.source == first.cluster and f.opened < i and n < f.until)
            is_named = n < 0 or any(f.source == first.cluster and f.replays(record) for f in facts.failovers)
            is_named = is_named or any(_is_named(facts, f, first, first.offset) for f in exits)
            yield "" if is_named else f"group {e.group} is given {e.value} again, {place_of(e)}"


def out_of_step(facts: ScenarioHistory) -> Iterator[tuple[bool, str]]:
    """Return positions on a standby: ahead of the active side (true) or, of idle groups, behind it."""
    at_work, standby = {group for group, _ in facts.last_work}, OTHER.get(facts.active, "")
    for (cluster, group, tp), active in facts.positions.items() if facts.is_copied else ():
        position = facts.positions.get((standby, group, tp))
        for offset, value in facts.logs[standby].get(tp, ()) if cluster == facts.active else ():
            own = facts.offsets[cluster].get((tp, value))
            is_read = position is not None and offset < position.offset
            if own is not None and is_read != (own < active.offset) and (is_read or group not in at_work):
                yield is_read, f"group {group} {'skips' if is_read else 'repeats'} {value} on {standby}, {tp}"
                break


def stale(facts: ScenarioHistory) -> Iterator[str]:
    """Return groups whose stated position was old already when the first fault, or the first run, began."""
    began = min((e.seconds for e in facts.events if isinstance(e, FaultBegan | JournalEntered)), default=0.0)
    for f in facts.failovers[:1]:
        for e in facts.of(OffsetCommitted) if not f.is_planned else ():
            stated = f.stated_position(e.group, e.tp)
            is_old = e.cluster == f.source and e.seconds < began - _CHECKPOINTS_SECONDS
            if is_old and stated is not None and stated < e.offset:
                yield f"group {e.group} had committed {e.offset} in {e.tp} long before, {stated} is stated"


def _moved_back(facts: ScenarioHistory, e: FinalPosition) -> str:
    """Compare a final position with what was committed there since OPEN, and with the end of the log."""
    least, log_end = facts.committed.get((e.group, e.tp), 0), facts.log_ends.get((e.cluster, e.tp))
    problem = f"is before {least}, which it committed" if e.offset < least else ""
    if log_end is not None and e.offset > log_end.end:
        problem = f"is after the end, {log_end.end}"
    return f"group {e.group}, {e.tp}: its position {e.offset} {problem}" if problem else ""


def _skipped(facts: ScenarioHistory, e: FinalPosition) -> Iterator[str]:
    """Look for records before the final position of a group at work that it was never given."""
    # The cluster and the offset at which it began, as far as that is known.
    given = ((i, c.cluster, c.offset) for i, c in facts.at(Consumed) if (c.group, c.tp) == (e.group, e.tp))
    stated = ((f.opened, f.source, f.stated_position(e.group, e.tp)) for f in facts.failovers)
    known = [*islice(given, 1), *((i, cluster, first) for i, cluster, first in stated if first is not None)]
    _, cluster, first = min(known, default=(0, "", 0))
    is_at_work = facts.last_work.get((e.group, facts.active), -1) > facts.opened
    for offset, value in facts.logs[e.cluster].get(e.tp, ()) if known and is_at_work else ():
        record = (e.tp, value)
        own = facts.own_offset(cluster, record)  # a return may have emptied the log since
        if offset < e.offset and (own is None or own >= first or record in facts.replayed):
            is_skipped = (e.group, record) not in facts.given
            yield f"group {e.group} skips {value}, {e.tp}@{offset} on {e.cluster}" if is_skipped else ""
