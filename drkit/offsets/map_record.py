"""Records of the offset-map topic. What each of them means: decision 0021; their bytes: `map_codec`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from drkit.offsets.segments import SegmentMap

SEQUENCE_MODULUS = 1 << 31
"""Sequence numbers run from 0 to 2³¹−1 and start again at 0."""


class MapRecordKind(IntEnum):
    """What a record of the map says."""

    INTENT = 1
    MARK = 2
    PACK = 3
    TURN = 4
    REIGN = 5


class Mode(IntEnum):
    """How an intent's records reached the target."""

    LIVE = 1
    """A claim: durable before its first batch; an anchor or the log shows what of it was appended."""
    BULK = 2
    """Committed in the same transaction as its records: true."""
    REPAIR = 3
    """Found in the target's log: true, cuts all segments that start at or after it."""


class History(NamedTuple):
    """A live producer id with one epoch: the writers of one history agree on the record of each sequence."""

    producer_id: int
    epoch: int


NO_HISTORY: Final = History(-1, -1)
"""Of a mark in format 1."""


NO_ANCHOR: Final = -1
"""Replaces a sequence number or an offset where a cut reaches back beyond its history's beginning."""


@dataclass(frozen=True, slots=True)
class MapKey:
    """What a record of the map is about."""

    source_id: UUID
    target_id: UUID
    partition: int


BUCKET_KEY: Final = MapKey(UUID(int=0), UUID(int=0), -1)
"""The key of what is said of a whole bucket."""


@dataclass(frozen=True, slots=True)
class Intent:
    """Runs of source records from one target offset on."""

    mode: Mode
    nonce: int
    history: History
    """Of the live records; in bulk mode the history that `base_sequence` belongs to."""
    base_sequence: int
    """Of the first record; in bulk mode the next sequence number of the live history."""
    downstream: int
    """Target offset of the first record."""
    previous_end: int
    """Target offset after the last record of this flow before this intent."""
    leader_epoch: int
    runs: tuple[tuple[int, int], ...]
    """(first source offset, records) of each run of consecutive source offsets."""
    target_epoch: int = -1
    """Leader epoch of the target partition when it was settled before this, −1 if unknown."""
    legacy: bool = False
    """In format 1, whose writers could disagree within one history."""

    @property
    def count(self) -> int:
        """Records in all runs."""
        return sum(n for _, n in self.runs)

    def pieces(self) -> list[tuple[int, int, int]]:
        """(upstream, downstream, records) per run, were all of it on the target without a break."""
        out, down = [], self.downstream
        for up, n in self.runs:
            out.append((up, down, n))
            down += n
        return out


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything up to here is acknowledged and checked."""

    nonce: int
    history: History
    upstream: int
    """Next source offset to copy (frontier)."""
    downstream: int
    """The target's end that was looked at."""
    copied_end: int
    """Target offset after the last record of this flow; foreign records may follow."""
    sequence: int
    """Next live sequence number of the history: the record before it ends at `copied_end`, if it is live."""
    leader_epoch: int
    """Leader epoch of the last source batch, −1 if unknown."""
    target_epoch: int = -1
    """Lowest leader epoch of the target partition under which this was seen, −1 if unknown."""
    live: bool | None = None
    """The last record before `copied_end` was appended in this history; None: format 1 does not say."""


@dataclass(frozen=True, slots=True)
class Pack:
    """One part of the confirmed segments of a partition."""

    nonce: int
    """Tells the parts of one pack from those of another."""
    part: int
    parts: int
    until: int
    """Target offset up to which the pack speaks."""
    segments: SegmentMap


@dataclass(frozen=True, slots=True)
class Turn:
    """The end of one history and the beginning of the next; nothing of the old one counts after it."""

    nonce: int
    reign: int
    """Number of the reign that wrote it."""
    ended: History
    ended_sequence: int
    """Next sequence number of the ended history: the record before it ends at `copied_end`."""
    history: History
    """The new history; its first sequence number is 0."""
    upstream: int
    """Next source offset to copy."""
    downstream: int
    """The target's end that was looked at."""
    copied_end: int
    """Target offset after the last record of this flow: what the map said of later ones is void."""
    leader_epoch: int
    target_epoch: int


@dataclass(frozen=True, slots=True)
class Reign:
    """A copy task has taken the bucket; with `ended` it has released it, and nothing is in flight."""

    nonce: int
    number: int
    ended: bool
    unclean: int
    """The newest reign that did not end cleanly, 0 without one: its appends may still be in flight."""


MapRecord = Intent | Mark | Pack | Turn | Reign
"""Whatever the map topic holds."""
