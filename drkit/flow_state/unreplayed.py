"""Records that a return was to append to the new primary and has not: only an export has them. Pure.

An aborted return notes them. They are appended by ``drkit replay``, or given up by name; both is on record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple

from drkit.counted import counted
from drkit.flow_state.records import SavedTailRecord, TailRecord, UnreplayedRecord
from drkit.flow_state.state import FlowState
from drkit.next_command import WHY, NextCommand

_QUARANTINE: Final = "quarantine"


class UnreplayedEnd(StrEnum):
    """What became of such records."""

    REPLAYED = "replayed"
    """They were appended to the topic."""
    QUARANTINED = "quarantined"
    """They were appended to a topic of their own."""
    GIVEN_UP = "given up"


class Unreplayed(NamedTuple):
    """What one export has of one topic of the old primary."""

    topic: str
    run: str
    """Of the export."""
    record: UnreplayedRecord

    @property
    def name(self) -> str:
        """The record's name in the state."""
        return UnreplayedRecord.name_of(self.topic, self.run)

    @property
    def command(self) -> str:
        """What appends the records, as was decided."""
        record = self.record
        return str(replay_command(record.manifest, [self.topic], record.disposition, record.sha256))

    @property
    def to_give_up(self) -> str:
        """What gives them up."""
        return to_give_up(self.record.manifest, self.topic)

    @property
    def in_words(self) -> str:
        """The sentence for people, without what to do."""
        some = counted(self.record.records, "record")
        return f"{some} of {self.topic}: {self.record.disposition} was decided in {self.record.run_id}"

    def ended(self, how: UnreplayedEnd, at_ms: int, by: str, reason: str = "") -> UnreplayedRecord:
        """The record of its end."""
        return replace(self.record, ended=how.value, ended_ms=at_ms, by=by, reason=reason or None)


def to_give_up(manifest: str, *topics: str) -> str:
    """Return the command that gives up the records that an export has of some topics."""
    return str(replay_command(manifest, topics).plus("--give-up", WHY))


def replay_command(
    manifest: str, topics: Iterable[str], disposition: str | None = None, sha256: str = ""
) -> NextCommand:
    """Return the command that appends the records of some topics from an export.

    :param sha256: of the manifest, as it is on record
    """
    named = (word for topic in sorted(topics) for word in ("--topic", topic))
    more: tuple[str, ...] = ("--sha256", sha256) if sha256 else ()
    more += ("--to-quarantine",) if disposition == _QUARANTINE else ()
    return NextCommand(("drkit", "replay", "--from", manifest, *named, *more))


def recorded_hashes(state: FlowState, paths: Collection[str], run: str) -> frozenset[str]:
    """Return the recorded SHA-256 of an export's manifest: at most one for each record, or an empty set.

    :param state: of the flow from the old primary, which the new one has
    :param paths: of the manifest, or its URL
    :param run: the run in the export's manifest
    """
    hashes: set[str | None] = {r.sha256 for r in state.all(TailRecord).values() if r.manifest in paths}
    for records in (state.all(SavedTailRecord), state.all(UnreplayedRecord)):
        hashes |= {r.sha256 for name, r in records.items() if r.manifest in paths or name.endswith(f"/{run}")}
    return frozenset(filter(None, hashes))


def unreplayed(state: FlowState, topics: Collection[str] | None = None) -> list[Unreplayed]:
    """What is still to be appended, by topic.

    :param state: of the flow from the old primary, which the new one has
    :param topics: of the old primary; None: all
    :raises Damaged: a record of them was replaced
    """
    return [each for each in _open(state) if topics is None or each.topic in topics]


def _open(state: FlowState) -> Iterator[Unreplayed]:
    for name, record in sorted(state.all(UnreplayedRecord).items()):
        if record.ended is None:
            topic, _, run = name.rpartition("/")
            yield Unreplayed(topic, run, record)
