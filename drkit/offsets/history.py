"""The claims of one history: they map each sequence number to its source record.

All writers of a history agree on that (decision 0021), so every claim is true for any writer. An anchor, a
sequence number with its offset, locates the records of a claim on the target. Two points of a log that are
equally many sequence numbers and offsets apart have nothing else between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drkit.offsets.map_record import SEQUENCE_MODULUS, Intent


class Piece(NamedTuple):
    """A run of copied records."""

    upstream: int
    downstream: int
    records: int


class Anchor(NamedTuple):
    """The next sequence number, with its source and target offset."""

    sequence: int
    upstream: int
    downstream: int


def steps(sequence: int, since: int) -> int:
    """Return the distance from `since` to `sequence`; negative if `sequence` is before it."""
    ahead = (sequence - since) % SEQUENCE_MODULUS
    return ahead if ahead < SEQUENCE_MODULUS // 2 else ahead - SEQUENCE_MODULUS


def pieces_of(claim: Intent, index: int, count: int, downstream: int) -> list[Piece]:
    """Return the runs of `count` records of a claim from its record `index`, at target offset `downstream`.

    The last run is open-ended: its writer makes a new claim if the next record is not consecutive.
    """
    pieces: list[Piece] = []
    position = 0
    last = len(claim.runs) - 1
    for i, (up, n) in enumerate(claim.runs):
        run_end = position + n if i < last else index + count
        lo, hi = max(position, index), min(run_end, index + count)
        if hi > lo:
            pieces.append(Piece(up + lo - position, downstream + lo - index, hi - lo))
        position += n
    return pieces


@dataclass(frozen=True, slots=True)
class HistoryClaims:
    """Claims of one history, relative to a sequence number.

    Positions are sequence numbers relative to `since`.
    """

    since: int
    claims: tuple[tuple[int, Intent], ...]
    """(position of the first record, claim), ascending."""
    begin: tuple[int, int] | None = None
    """(position, source offset) from which records are consecutive until the first claim."""

    @classmethod
    def of(cls, claims: Iterable[Intent], since: int, begin: tuple[int, int] | None = None) -> HistoryClaims:
        """Sort the claims by position."""
        placed = sorted(((steps(c.base_sequence, since), c) for c in claims), key=lambda x: x[0])
        return cls(since, tuple(placed), begin)

    def pieces(self, low: int, high: int, downstream: int) -> list[Piece] | None:
        """Return the records at positions `low` to `high` from a target offset on, or None if unclaimed."""
        pieces: list[Piece] = []
        governing: tuple[int, Intent] | None = None
        end = self.begin[0] if self.begin is not None else None
        claims = list(self.claims)
        position, index = low, 0
        while position < high:
            while index < len(claims) and claims[index][0] <= position:
                ends = claims[index][0] + claims[index][1].count
                # The claim that lists a record defines it, or else the one whose list ends last.
                if end is None or ends > end or (governing is not None and ends == end):
                    governing, end = claims[index], ends
                index += 1
            until = min(high, claims[index][0]) if index < len(claims) else high
            down = downstream + position - low
            if governing is not None:
                pieces += pieces_of(governing[1], position - governing[0], until - position, down)
            elif self.begin is not None and position >= self.begin[0]:
                pieces.append(Piece(self.begin[1] + position - self.begin[0], down, until - position))
            else:
                return None
            position = until
        return pieces

    def leader_epoch(self, position: int) -> int | None:
        """Return the source's leader epoch of the record at a position, from the claim that defines it."""
        best: tuple[int, int] | None = None
        for start, claim in self.claims:
            if start > position:
                break
            ends = start + claim.count
            if (best is None or ends >= best[0]) and (self.begin is None or ends > self.begin[0]):
                best = ends, claim.leader_epoch
        return best[1] if best is not None else None


class Stretch(NamedTuple):
    """Positions whose records are consecutive on the target."""

    low: int
    high: int
    downstream: int
    """Target offset of the record at `low`."""
    previous_end: int
    """Target offset after the last record of the flow before it."""


class Broken(NamedTuple):
    """The claims do not cover the range between two anchors: records of the map are missing."""

    reason: str


def stretches(
    claims: HistoryClaims, sequence: int, offset: int, floor: Anchor | None, floor_end: int = 0
) -> Sequence[Stretch] | Broken:
    """Return the target ranges of a history's records before an anchor, ascending.

    :param sequence: next sequence number at the anchor; `said.since`
    :param offset: target offset after the record before it
    :param floor: the last anchor, or None if the claims begin the history
    :param floor_end: target offset after the last record of the flow before the floor
    """
    bottom = steps(floor.sequence, sequence) if floor is not None else None
    groups = _groups(claims, offset, bottom)
    ranges = [_stretch(g, bottom, floor_end) for g in groups if bottom is None or g.high > bottom]
    if floor is None or bottom is None or bottom >= 0:
        return ranges[::-1]
    low, shift = (ranges[-1].low, groups[len(ranges) - 1].before) if ranges else (0, offset)
    if low > bottom:
        if floor.downstream - bottom != shift:
            return Broken(
                f"what was appended from sequence {floor.sequence} on, at target offset {floor.downstream},"
                f" is not known up to sequence {sequence} at {offset}"
            )
        ranges.append(Stretch(bottom, low, floor.downstream, floor_end))
    return ranges[::-1]


class _Group(NamedTuple):
    """Claims whose target offsets an anchor proves: offsets and sequence numbers advance equally."""

    low: int
    high: int
    shift: int
    """Target offset minus position."""
    previous_end: int
    """Target offset after the last record before it, as its first claim says."""

    @property
    def before(self) -> int:
        """Shift of the records before it."""
        return self.previous_end - self.low


def _groups(claims: HistoryClaims, offset: int, bottom: int | None) -> list[_Group]:
    """Group the claims from the anchor downwards; a claim's `previous_end` anchors the next group."""
    groups: list[_Group] = []
    high, shift = 0, offset
    for position, claim in reversed(claims.claims):
        current = groups[-1] if groups and groups[-1].high == high else None
        if bottom is not None and current is not None and current.low <= bottom:
            break
        if position >= high:
            continue
        if claim.downstream - position == shift:
            group = _Group(position, high, shift, claim.previous_end)
            groups[len(groups) - (current is not None) :] = [group]
        elif current is not None and position < current.low and claim.downstream - position == current.before:
            high, shift = current.low, current.before
            groups.append(_Group(position, high, shift, claim.previous_end))
    return groups


def _stretch(group: _Group, bottom: int | None, floor_end: int) -> Stretch:
    if bottom is not None and group.low <= bottom:
        return Stretch(bottom, group.high, group.shift + bottom, floor_end)
    return Stretch(group.low, group.high, group.shift + group.low, group.previous_end)
