"""The check of consumer groups' positions: what a group skips, and what it is given again. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from drkit.chaos.facts import Facts, Failover, Record, check, place_of
from drkit.chaos.history import Consumed, FinalPosition, LookFailed, OffsetCommitted
from drkit.model import TopicPartition

POSITIONS: Final = "positions of groups"


@check(POSITIONS)
def check_positions(facts: Facts) -> Iterator[str]:
    """Check that no group skips a record, and none repeats one, unless the report names it (I5 to I8)."""
    if facts.failovers:
        yield from _without_position(facts, facts.failovers[-1])
    yield from _repeated(facts)
    for position in facts.positions.values():
        if position.cluster == facts.active:
            for translation in translations(facts, position.group, position.tp):
                yield _displacement(facts, translation, position)
            yield _moved_back(facts, position)
            yield from _skipped(facts, position)


def _without_position(facts: Facts, f: Failover) -> Iterator[str]:
    """Look for groups that had a position on the side that was left, and have none on the active one."""
    for cluster, group, tp in facts.positions:
        if cluster == f.source and f.moves(tp.topic) and (f.target, group, tp) not in facts.positions:
            is_named = f.names_without_position(group, tp) or any(facts.of(LookFailed))
            yield "" if is_named else f"group {group} has no position in {tp} on {f.target}"


class Translation(NamedTuple):
    """A position that a failover translated, of a group that was not at work since."""

    failover: Failover
    committed: int
    """On the source."""
    is_emptied: bool
    """Whether the source's final log may have other offsets."""

    def source_offset(self, facts: Facts, record: Record) -> int | None:
        """Return the offset of a record on the source; None: unknown."""
        source = self.failover.source
        acked = facts.acked_at(source, record)
        return acked if self.is_emptied else facts.offsets[source].get(record, acked)


def translations(facts: Facts, group: str, tp: TopicPartition) -> Iterator[Translation]:
    """Return the translations from which a group's position on the active side follows."""
    worked = max((i for (name, _), i in facts.last_work.items() if name == group), default=-1)
    for f in facts.failovers:
        is_left = f is facts.failovers[-1] and f.returned is None
        # A standby's positions follow the active side: then only the report has those that were left.
        left = facts.positions.get((f.source, group, tp)) if is_left else None
        committed = left.offset if left is not None else f.stated_position(group, tp)
        log = facts.log_ends.get((f.source, tp))
        is_emptied = not is_left and (log is None or log.start >= max(committed or 0, 1))
        is_emptied = is_emptied or f is not facts.failovers[-1]
        if committed is not None and worked < f.opened and group not in f.groups.get("kept", ()):
            yield Translation(f, committed, is_emptied)


def _displacement(facts: Facts, translation: Translation, position: FinalPosition) -> str:
    """Compare the position of a group that is not at work with the one that was translated."""
    f, committed, _ = translation
    for offset, value in facts.logs[facts.active].get(position.tp, ()):
        record = (position.tp, value)
        own = translation.source_offset(facts, record)
        if own is None or record in facts.replayed:
            continue
        places = f"{position.tp}: {committed} on {f.source}, {position.offset} on {facts.active}"
        if offset < position.offset and own >= committed:
            return f"group {position.group} skips {value}, {places}"
        if offset >= position.offset and own < committed and not _is_named(facts, f, position, own):
            return f"group {position.group} repeats {value}, {places}"
    return ""


def _is_named(facts: Facts, f: Failover, e: FinalPosition | Consumed, own: int) -> bool:
    """Return whether a failover's report says that a group repeats a record.

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


def _repeated(facts: Facts) -> Iterator[str]:
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
            n, first = confirmed.pop((e.group, record), (0, None))
            is_named = first is None or record in facts.replayed
            if first is not None:
                left = (
                    f for f in facts.failovers if f.source == first.cluster and f.opened < i and n < f.until
                )
                is_named = is_named or any(_is_named(facts, f, first, first.offset) for f in left)
            yield "" if is_named else f"group {e.group} is given {e.value} again, {place_of(e)}"


def _moved_back(facts: Facts, e: FinalPosition) -> str:
    """Compare a final position with what was committed there since OPEN, and with the end of the log."""
    least, log_end = facts.committed.get((e.group, e.tp), 0), facts.log_ends.get((e.cluster, e.tp))
    problem = f"is before {least}, which it committed" if e.offset < least else ""
    if log_end is not None and e.offset > log_end.end:
        problem = f"is after the end, {log_end.end}"
    return f"group {e.group}, {e.tp}: its position {e.offset} {problem}" if problem else ""


def _skipped(facts: Facts, e: FinalPosition) -> Iterator[str]:
    """Look for records before the final position of a group at work that it was never given."""
    first = _first_position(facts, e.group, e.tp)
    if first is None or not facts.is_live(e.group):
        return
    for offset, value in facts.logs[e.cluster].get(e.tp, ()):
        record = (e.tp, value)
        own = facts.acked_at(first[0], record)  # a return may have emptied the log since
        own = facts.offsets[first[0]].get(record) if own is None else own
        if offset < e.offset and (own is None or own >= first[1] or record in facts.replayed):
            is_skipped = (e.group, record) not in facts.given
            yield f"group {e.group} skips {value}, {e.tp}@{offset} on {e.cluster}" if is_skipped else ""


def _first_position(facts: Facts, group: str, tp: TopicPartition) -> tuple[str, int] | None:
    """Return the cluster and the offset at which a group began, as far as that is known."""
    known = [
        (i, e.cluster, e.offset)
        for i, e in enumerate(facts.events)
        if isinstance(e, Consumed) and (e.group, e.tp) == (group, tp)
    ][:1]
    for f in facts.failovers:
        if (offset := f.stated_position(group, tp)) is not None:
            known.append((f.opened, f.source, offset))
    return min(known)[1:] if known else None
