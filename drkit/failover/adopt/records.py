"""The records of drkit's topics, which of them are signed, and what is not replaced. No input or output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from drkit.clock import wall_ms
from drkit.config import FlowSettings
from drkit.control_key import SignedTopic
from drkit.errors import Refused
from drkit.flow_state.lease.watch import replicator_of
from drkit.flow_state.names import ADOPTED, BEGUN
from drkit.flow_state.records import kind_of
from drkit.flow_state.state import FlowState
from drkit.offset_map import bucket

LOGS: Final = frozenset({SignedTopic.JOURNAL, SignedTopic.FENCES})
"""Topics in which later records do not replace earlier ones."""

_NOTES: Final = frozenset({"pause", "automatic"})
"""Notes that are valid until a person withdraws them; the others are published repeatedly."""


class Sign(StrEnum):
    """The signature of a record."""

    CURRENT = "signed"
    PREVIOUS = "signed with an older key"
    NONE = "without a MAC"
    WRONG = "with a wrong MAC"


class ReadRecord(NamedTuple):
    """A record from one of drkit's topics."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    sign: Sign
    order: int = 0
    """The order in its MAC, or 0 for a MAC without one."""


@dataclass
class TopicRecords:
    """All records of one of drkit's topics."""

    name: str
    where: str
    """Alias of its cluster."""
    kind: SignedTopic
    records: list[ReadRecord] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    """End offset of each partition when the topic was read."""
    hidden: int | None = None
    """First offset of a record with a valid MAC whose transaction is open; None: there is none."""
    unreachable: str = ""
    """Why it was not read: its cluster, the source, does not answer."""

    def counts(self) -> dict[str, int]:
        """Return the number of records by sign."""
        return {sign.value: n for sign in Sign if (n := sum(r.sign is sign for r in self.records))}

    def is_needed(self, record: ReadRecord) -> bool:
        """Whether drkit will read such a record."""
        key = (record.key or b"").decode(errors="replace")
        if self.kind is SignedTopic.STATE:
            return kind_of(key) is not None
        if self.kind is SignedTopic.MAP:
            return record.key != bucket.ADOPTED
        return self.kind is not SignedTopic.NOTES or key in _NOTES

    def newest(self, *, unsigned: bool) -> list[ReadRecord]:
        """Return the valid record of every key, in the order of the offsets.

        A record with a MAC wins over later ones without, and over copies of earlier records.

        :param unsigned: for a key without any MAC, use the newest record
        """
        found: dict[tuple[int, bytes | None], ReadRecord] = {}
        for record in filter(self.is_needed, self.records):
            at = record.partition, record.key
            before = found.get(at)
            if is_valid(record):
                wins = before is None or record.order >= before.order  # lower in a copy
            else:
                wins = unsigned and (before is None or not is_valid(before))
            if wins:
                found[at] = record
        return sorted(found.values(), key=lambda r: (r.partition, r.offset))

    def foreign(self) -> list[ReadRecord]:
        """Return the newest record of every key that has no record with a valid MAC."""
        return [r for r in self.newest(unsigned=True) if not is_valid(r)]

    def is_signed(self) -> bool:
        """Whether the newest needed record of every key has a MAC of the current control key."""
        last: dict[tuple[int, bytes | None], ReadRecord] = {}
        for record in filter(self.is_needed, self.records):
            before = last.get((record.partition, record.key))
            if before is None or not is_valid(record) or record.order >= before.order:
                last[record.partition, record.key] = record
        return all(r.sign is Sign.CURRENT for r in last.values())


def is_valid(record: ReadRecord) -> bool:
    """Whether a record has the MAC of an accepted control key."""
    return record.sign in {Sign.CURRENT, Sign.PREVIOUS}


def log_entries(topic: TopicRecords, *, unsigned: bool) -> list[ReadRecord]:
    """Return the entries of a log to sign, in order; empty when all valid ones have the current key.

    Entries without a MAC are adopted only the first time, before the log has entries with a MAC or the marks
    of an adoption.
    """
    marks: list[ReadRecord] = []
    entries: list[ReadRecord] = []  # since the last adoption that ended began: all that count are there
    begun = 0
    for record in topic.records:
        if record.key != ADOPTED:
            entries.append(record)
        elif is_valid(record):
            marks.append(record)
            if record.value == BEGUN:
                begun = len(entries)
            else:
                del entries[:begun]
                begun = 0
    unfinished = bool(marks) and marks[-1].value == BEGUN
    valid = [r for r in entries if is_valid(r)]
    if unsigned and (unfinished or not (valid or marks)):
        return entries
    return valid if unfinished or any(r.sign is not Sign.CURRENT for r in valid) else []


def only_foreign(topic: TopicRecords) -> bool:
    """Whether a log has records, but none with a valid MAC: its reader refuses such a log."""
    return bool(topic.records) and not any(map(is_valid, topic.records))


def refuse_running(flow: FlowSettings, topics: Iterable[TopicRecords]) -> None:
    """Refuse while the flow runs: the records that were read would replace newer ones.

    :raises Refused: a replicator runs
    """
    state = FlowState()
    for record in (r for t in topics if t.kind is SignedTopic.STATE for r in t.newest(unsigned=True)):
        state.take(record.key or b"", record.value)
    replicator = replicator_of(state, wall_ms())
    if replicator is not None and replicator.alive:
        raise Refused(
            "adopt_flow_running",
            where=f"flow {flow.name}: host {replicator.host}, process {replicator.process}",
            evidence=f"it renewed its lease {replicator.age_seconds:.1f} s ago",
        )


def refuse_loss(topics: Iterable[TopicRecords]) -> None:
    """Refuse to delete records without a MAC if no record has one: that would delete all of drkit's state.

    :raises Refused: no record of the flow's state was written with this key
    """
    state = [t for t in topics if t.kind is SignedTopic.STATE]
    if not any(is_valid(r) for t in state for r in t.records):
        raise Refused(
            "adopt_nothing_signed",
            where=", ".join(f"{t.name} on {t.where}" for t in state),
            evidence=", ".join(f"{n} {sign}" for t in state for sign, n in t.counts().items())
            or "no records",
        )


def refuse_change(topic: TopicRecords, ends: Mapping[int, int]) -> None:
    """Refuse to sign a topic that has changed: the records that were read would replace newer ones.

    :param ends: current end offsets of the topic's partitions
    :raises Refused: they differ from those at the time of the read
    """
    if topic.ends != ends:
        raise Refused(
            "adopt_state_changing",
            where=f"{topic.name} on {topic.where}",
            evidence=f"it ended at {topic.ends or 'none'}, now at {dict(ends) or 'none'}",
        )
