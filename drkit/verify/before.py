"""Compares what MirrorMaker 2 copied before drkit took over: by content and order. Pure.

No map says where a record of that time belongs. MirrorMaker 2 appends a partition in order; after each
restart it may go back and repeat a part. So the target is read as consecutive runs of the source's records:
what a run covers for the first time was copied, what it covers again was repeated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from drkit.offsets.alignment import Fingerprints
from drkit.verify.compare import Counts, Difference, DifferenceKind

_STEP: Final = 4096
FINDINGS: Final = 1000
"""Findings of one part that are kept; all are counted."""
_Numbers = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Reasons why records may be missing on either side."""

    source_start: bool = False
    """Retention removed the first records."""
    target_start: bool = False
    source_compacted: bool = False
    target_compacted: bool = False
    partial: bool = False
    """Older records of both sides were not read."""


class RecordRun(NamedTuple):
    """Records of the source that are consecutive on the target."""

    source: int
    """Source index of the first record."""
    target: int
    records: int


@dataclass(slots=True)
class Before:
    """The result of the comparison."""

    counts: Counts
    findings: list[Difference]


def compare_before(
    source: Fingerprints, target: Fingerprints, trimmed: Trimmed, again_from: int | None = None
) -> Before:
    """Compare two parts of a partition.

    :param source: visible records up to the last one that was copied
    :param target: visible records before the offset from which the map knows every record
    :param again_from: source offset from which records exist at or after that target offset
    """
    source_hashes, target_hashes = _numbers(source), _numbers(target)
    found = Before(Counts(source_records=len(source_hashes), target_records=len(target_hashes)), [])
    runs = list(_runs(source_hashes, target_hashes))
    copied: _Flags = np.zeros(len(source_hashes), bool)
    if again_from is not None:
        copied[bisect_left(source.offsets, again_from) :] = True
    known: _Flags = np.zeros(len(target_hashes), bool)
    high = 0
    for run in runs:
        covered = slice(run.source, run.source + run.records)
        known[run.target : run.target + run.records] = True
        fresh = np.flatnonzero(~copied[covered]) + run.source
        found.counts.repeated += run.records - len(fresh)
        late = fresh[fresh < high]
        found.counts.equal += len(fresh) - len(late)
        for at in late:
            there = int(run.target + at - run.source)
            _add(found, DifferenceKind.OUT_OF_ORDER, (source, int(at)), (target, there))
        copied[covered] = True
        high = max(high, run.source + run.records)
    first = runs[0].target if runs else len(target_hashes)
    begun = min((r.source for r in runs), default=len(source_hashes))
    if trimmed.partial:  # records before the first one that both have are not lost
        copied[:begun], known[:first] = True, True
    _lone_source(found, source, np.flatnonzero(~copied), begun, trimmed)
    _lone_target(found, target, target_hashes, np.flatnonzero(~known), first, trimmed)
    return found


def _lone_source(found: Before, source: Fingerprints, lone: _Numbers, begun: int, trimmed: Trimmed) -> None:
    if trimmed.target_start:
        found.counts.deleted_at_target += int((lone < begun).sum())
        lone = lone[lone >= begun]
    if trimmed.target_compacted:
        found.counts.compacted += len(lone)
        return
    for at in lone:
        _add(found, DifferenceKind.MISSING, (source, int(at)), None)


def _lone_target(
    found: Before, target: Fingerprints, target_hashes: _Numbers, lone: _Numbers, first: int, trimmed: Trimmed
) -> None:
    gone = np.zeros(len(lone), bool)
    if trimmed.source_compacted:
        gone[:] = True
    elif trimmed.source_start:
        # The source has lost its first records. MirrorMaker 2 may have repeated some of them, too.
        gone = (lone < first) | np.isin(target_hashes[lone], target_hashes[lone[lone < first]])
    found.counts.deleted_at_source += int(gone.sum())
    for at in lone[~gone]:
        _add(found, DifferenceKind.EXTRA, None, (target, int(at)))


def _add(
    found: Before,
    kind: DifferenceKind,
    source: tuple[Fingerprints, int] | None,
    target: tuple[Fingerprints, int] | None,
) -> None:
    found.counts.count(kind)
    if len(found.findings) >= FINDINGS:
        return
    up, down = (None if side is None else side[0].offsets[side[1]] for side in (source, target))
    finger = next((side[0].hashes[side[1]] for side in (source, target) if side is not None), 0)
    text = "in the part that MirrorMaker 2 copied"
    found.findings.append(Difference(kind, up, down, f"mm2 {finger:x}", evidence=text))


def _numbers(records: Fingerprints) -> _Numbers:
    return np.frombuffer(records.hashes, np.int64) if len(records) else np.zeros(0, np.int64)


def _runs(source: _Numbers, target: _Numbers) -> Iterator[RecordRun]:
    order = np.argsort(source, kind="stable")
    ordered = source[order]
    low, high = (np.searchsorted(ordered, target, "left"), np.searchsorted(ordered, target, "right"))
    somewhere = np.flatnonzero(low < high)
    at, place = 0, 0
    while at < len(target):
        if place >= len(source) or source[place] != target[at]:
            later = int(np.searchsorted(somewhere, at))
            if later == len(somewhere):
                return
            at = int(somewhere[later])
            place = _nearest(source, target, order[low[at] : high[at]], place, at)
        count = _agree(source, target, place, at)
        yield RecordRun(place, at, count)
        at, place = at + count, place + count


def _nearest(source: _Numbers, target: _Numbers, places: _Numbers, expected: int, at: int) -> int:
    split = int(np.searchsorted(places, expected))
    candidates = [int(p) for p in (*places[split : split + 1], *places[max(0, split - 1) : split])]
    return max(candidates, key=lambda p: _agree(source, target, p, at))


def _agree(source: _Numbers, target: _Numbers, place: int, at: int) -> int:
    most = min(len(source) - place, len(target) - at)
    count = 0
    while count < most:
        step = min(_STEP, most - count)
        following = slice(place + count, place + count + step)
        differ = source[following] != target[at + count : at + count + step]
        if differ.any():
            return count + int(np.argmax(differ))
        count += step
    return count
