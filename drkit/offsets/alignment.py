"""Finds where another replicator stopped, by the target's last records in the source. Pure.

MirrorMaker 2 stores its offsets from time to time, so any number of records after the stored offset may
already be copied. Its last worker copied from some stored offset without a break: the target ends in the
source's records after that offset, in order, up to the last one copied. This module finds that record.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

Headers = Iterable[tuple[str, bytes | None]]
_RIVALS = 2000
"""Maximum number of candidates to compare."""


@dataclass(slots=True)
class Fingerprints:
    """Records of one partition in order: their offsets, and a 64-bit content hash of each."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    hashes: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, offset: int, content: int) -> None:
        """Add the next record."""
        self.offsets.append(offset)
        self.hashes.append(content)


def fingerprint(
    key: bytes | None, value: bytes | None, headers: Headers | None, timestamp: int | None = None
) -> int:
    """Return a 64-bit hash of a record's key, value, headers and, if given, timestamp."""
    digest = blake2b(digest_size=8)
    named = (part for name, text in headers or () for part in (name.encode(), text))
    for part in (key, value, *named):
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    if timestamp is not None:
        digest.update(b"@%d" % timestamp)
    return int.from_bytes(digest.digest(), "big", signed=True)


@dataclass(frozen=True, slots=True)
class Aligned:
    """The offset up to which the other replicator copied."""

    next_source: int
    """First source offset that is not on the target."""
    behind: int
    """Records on the target after the stored offset."""
    segments: tuple[tuple[int, int, int], ...]
    """(upstream, downstream, records) of the last records, as far back as both sides agree."""


@dataclass(frozen=True, slots=True)
class NotAligned:
    """The offset cannot be proven."""

    reason: str


def align(source: Fingerprints, target: Fingerprints, copied: int | None) -> Aligned | NotAligned:
    """Find the last record of the target in the source.

    :param source: visible records from some way before `copied` on, to where it may have been copied
    :param target: the last visible records, all of them or more than `source` has after `copied`
    :param copied: a source offset that is on the target; None: possibly not even the first is
    """
    first = 0 if copied is None else bisect_left(source.offsets, copied)
    unproven = 0 if copied is None else bisect_right(source.offsets, copied)
    if copied is not None and first == len(source):
        return Aligned(copied + 1, 0, ())  # the source holds nothing that could have been copied since
    run = _run_up_to(source, target, len(target), first, unproven)
    best, end = run, len(target)
    # A worker that was killed soon after its start may have copied less than the one before it.
    while isinstance(run, _Run) and (end := end - run.count) > 0:
        run = _run_up_to(source, target, end, 0, unproven)
        if isinstance(run, _Run) and isinstance(best, _Run) and run.place > best.place:
            best = run
    if isinstance(best, NotAligned):
        return best
    behind = max(0, best.place + 1 - unproven)
    return Aligned(source.offsets[best.place] + 1, behind, _segments(source, target, best))


@dataclass(frozen=True, slots=True)
class _Run:
    """Records of the source that one worker appended without a break."""

    place: int
    """Index in the source of the last one."""
    end: int
    """Index in the target after the last one."""
    count: int
    """Number of records on which both sides agree, backwards."""


def _run_up_to(
    source: Fingerprints, target: Fingerprints, end: int, first: int, unproven: int
) -> _Run | NotAligned:
    if not end:
        return NotAligned("the target holds no record to compare with")
    last_hash = target.hashes[end - 1]
    candidates = [i for i in range(first, len(source)) if source.hashes[i] == last_hash]
    if not candidates:
        return NotAligned(
            f"the target's last record, at offset {target.offsets[end - 1]}, is not among the"
            f" {len(source) - first} records of the source from offset {source.offsets[first]} on"
        )
    if len(candidates) > _RIVALS:
        return NotAligned(f"{len(candidates)} records of the source equal the target's last one")
    runs = [_Run(i, end, _agree(source, target, i, end)) for i in candidates]
    possible = [r for r in runs if r.count >= min(r.place + 1 - unproven, end)]
    if not possible:
        nearest = runs[0]
        return NotAligned(
            f"the target differs from the source at target offset {target.offsets[end - 1 - nearest.count]}:"
            f" the {nearest.count} records after it are the source's up to {source.offsets[nearest.place]}"
        )
    if len(possible) > 1:
        # With runs of equal records, the right candidate also agrees with all records read before.
        possible = [r for r in possible if r.count == min(r.place + 1, end)]
    if len(possible) != 1:
        return NotAligned("several parts of the source end in the same records as the target")
    return possible[0]


def _agree(source: Fingerprints, target: Fingerprints, place: int, end: int) -> int:
    limit = min(place + 1, end)
    count = 0
    while count < limit and source.hashes[place - count] == target.hashes[end - 1 - count]:
        count += 1
    return count


def _segments(source: Fingerprints, target: Fingerprints, run: _Run) -> tuple[tuple[int, int, int], ...]:
    segments: list[tuple[int, int, int]] = []
    for back in range(run.count - 1, -1, -1):
        up, down = source.offsets[run.place - back], target.offsets[run.end - 1 - back]
        if segments and up == segments[-1][0] + segments[-1][2] and down == segments[-1][1] + segments[-1][2]:
            segments[-1] = (*segments[-1][:2], segments[-1][2] + 1)
        else:
            segments.append((up, down, 1))
    return tuple(segments)
