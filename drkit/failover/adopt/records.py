"""The records of drkit's topics, and which of them are signed. No input or output."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from drkit.failover.journal.topic import BEGUN
from drkit.flow_state.names import ADOPTED
from drkit.flow_state.records import kind_of
from drkit.offset_map import bucket

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


class TopicKind(StrEnum):
    """The purpose of a topic; it decides which of its records are kept."""

    STATE = "state"
    MAP = "offset map"
    NOTES = "notes of observers"
    JOURNAL = "failover journal"


@dataclass
class TopicRecords:
    """All records of one of drkit's topics."""

    name: str
    where: str
    """Alias of its cluster."""
    kind: TopicKind
    records: list[ReadRecord] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    """End offset of each partition when the topic was read."""

    def counts(self) -> dict[str, int]:
        """Return the number of records by sign."""
        return {sign.value: n for sign in Sign if (n := sum(r.sign is sign for r in self.records))}

    def is_needed(self, record: ReadRecord) -> bool:
        """Whether drkit will read such a record."""
        key = (record.key or b"").decode(errors="replace")
        if self.kind is TopicKind.STATE:
            return kind_of(key) is not None
        if self.kind is TopicKind.MAP:
            return record.key != bucket.ADOPTED
        return self.kind is not TopicKind.NOTES or key in _NOTES

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


def journal_entries(topic: TopicRecords, *, unsigned: bool) -> list[ReadRecord]:
    """Return the journal entries to sign, in order; empty when all valid ones have the current key.

    Later records do not replace entries of a journal. Entries without a MAC are adopted only the first time,
    before the journal has entries with a MAC or the marks of an adoption.
    """
    marks = [r for r in topic.records if r.key == ADOPTED and is_valid(r)]
    unfinished = bool(marks) and marks[-1].value == BEGUN
    entries = [r for r in topic.records if r.key != ADOPTED]
    valid = [r for r in entries if is_valid(r)]
    if unsigned and (unfinished or not (valid or marks)):
        return entries
    return valid if unfinished or any(r.sign is not Sign.CURRENT for r in valid) else []


def only_foreign(topic: TopicRecords) -> bool:
    """Whether a journal has records, but none with a valid MAC: its reader refuses such a journal."""
    return bool(topic.records) and not any(map(is_valid, topic.records))
