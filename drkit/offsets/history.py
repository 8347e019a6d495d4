"""What the claims of one history say: which source record each sequence number carries.

All writers of a history agree on that (decision 0021), so every claim is true for any writer. An anchor, a
sequence number with its offset, says where the records of a claim are on the target. Two points of a log
that are equally many sequence numbers and offsets apart have nothing else between them.
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
    """A sequence number, the source offset of its record, and the target offset where it comes next."""

    sequence: int
    upstream: int
    downstream: int


def steps(sequence: int, since: int) -> int:
    """How many sequence numbers `sequence` is after `since`; negative when it is before it."""
    ahead = (sequence - since) % SEQUENCE_MODULUS
    return ahead if ahead < SEQUENCE_MODULUS // 2 else ahead - SEQUENCE_MODULUS


def pieces_of(claim: Intent, index: int, count: int, downstream: int) -> list[Piece]:
    """The runs of `count` records of a claim from its record `index` on, at target offset `downstream`.

    The last run has no end: its writer makes a new claim when the next record does not follow.
    """
    pieces: list[Piece] = []
    at = 0
    last = len(claim.runs) - 1
    for i, (up, n) in enumerate(claim.runs):
        run_end = at + n if i < last else index + count
        lo, hi = max(at, index), min(run_end, index + count)
        if hi > lo:
            pieces.append(Piece(up + lo - at, downstream + lo - index, hi - lo))
        at += n
    return pieces


@dataclass(frozen=True, slots=True)
class HistoryClaims:
    """Claims of one history, and from where on they are asked.

    Positions are sequence numbers relative to `since`.
    """

    since: int
    claims: tuple[tuple[int, Intent], ...]
    """(position of the first record, claim), ascending."""
    begin: tuple[int, int] | None = None
    """(position, source offset) from which on records follow each other while no claim says otherwise."""

    @classmethod
    def of(cls, claims: Iterable[Intent], since: int, begin: tuple[int, int] | None = None) -> HistoryClaims:
        """The claims in order."""
        placed = sorted(((steps(c.base_sequence, since), c) for c in claims), key=lambda x: x[0])
        return cls(since, tuple(placed), begin)

    def pieces(self, low: int, high: int, downstream: int) -> list[Piece] | None:
        """The records at positions `low` to `high`, the first of them at a target offset; None: not said."""
        out: list[Piece] = []
        governing: tuple[int, Intent] | None = None
        end = self.begin[0] if self.begin is not None else None
        rest = list(self.claims)
        at, i = low, 0
        while at < high:
            while i < len(rest) and rest[i][0] <= at:
                ends = rest[i][0] + rest[i][1].count
                # The claim that lists a record says what it is, or else the one whose list ends last.
                if end is None or ends > end or (governing is not None and ends == end):
                    governing, end = rest[i], ends
                i += 1
            until = min(high, rest[i][0]) if i < len(rest) else high
            down = downstream + at - low
            if governing is not None:
                out += pieces_of(governing[1], at - governing[0], until - at, down)
            elif self.begin is not None and at >= self.begin[0]:
                out.append(Piece(self.begin[1] + at - self.begin[0], down, until - at))
            else:
                return None
            at = until
        return out

    def leader_epoch(self, position: int) -> int | None:
        """The source's leader epoch at the record of a position, by the claim that says what it is."""
        best: tuple[int, int] | None = None
        for start, claim in self.claims:
            if start > position:
                break
            ends = start + claim.count
            if (best is None or ends >= best[0]) and (self.begin is None or ends > self.begin[0]):
                best = ends, claim.leader_epoch
        return best[1] if best is not None else None


class Stretch(NamedTuple):
    """Positions whose records are on the target one after the other."""

    low: int
    high: int
    downstream: int
    """Target offset of the record at `low`."""
    previous_end: int
    """Target offset after the last record of the flow before it."""


class Broken(NamedTuple):
    """The claims do not reach from one anchor to the next: records of the map are missing."""

    reason: str


def stretches(
    said: HistoryClaims, sequence: int, offset: int, floor: Anchor | None, floor_end: int = 0
) -> Sequence[Stretch] | Broken:
    """Where the records of a history before an anchor are on the target, ascending.

    :param sequence: next sequence number at the anchor; `said.since`
    :param offset: target offset after the record before it
    :param floor: what is known already; None: the claims begin the history
    :param floor_end: target offset after the last record of the flow before the floor
    """
    bottom = steps(floor.sequence, sequence) if floor is not None else None
    groups = _groups(said, offset, bottom)
    out = [_stretch(g, bottom, floor_end) for g in groups if bottom is None or g.high > bottom]
    if floor is None or bottom is None or bottom >= 0:
        return out[::-1]
    low, shift = (out[-1].low, groups[len(out) - 1].before) if out else (0, offset)
    if low > bottom:
        if floor.downstream - bottom != shift:
            return Broken(
                f"what was appended from sequence {floor.sequence} on, at target offset {floor.downstream},"
                f" is not known up to sequence {sequence} at {offset}"
            )
        out.append(Stretch(bottom, low, floor.downstream, floor_end))
    return out[::-1]


class _Group(NamedTuple):
    """Claims of which the anchor proves where they are: as many offsets as sequence numbers between them."""

    low: int
    high: int
    shift: int
    """Target offset minus position."""
    previous_end: int
    """Target offset after the last record before it, as its first claim says."""

    @property
    def before(self) -> int:
        """Shift of what is before it."""
        return self.previous_end - self.low


def _groups(said: HistoryClaims, offset: int, bottom: int | None) -> list[_Group]:
    """From the anchor downwards; what a claim says of the end before it is the anchor of the next group."""
    groups: list[_Group] = []
    high, shift = 0, offset
    for at, claim in reversed(said.claims):
        current = groups[-1] if groups and groups[-1].high == high else None
        if bottom is not None and current is not None and current.low <= bottom:
            break
        if at >= high:
            continue
        if claim.downstream - at == shift:
            found = _Group(at, high, shift, claim.previous_end)
            groups[len(groups) - (current is not None) :] = [found]
        elif current is not None and at < current.low and claim.downstream - at == current.before:
            high, shift = current.low, current.before
            groups.append(_Group(at, high, shift, claim.previous_end))
    return groups


def _stretch(group: _Group, bottom: int | None, floor_end: int) -> Stretch:
    if bottom is not None and group.low <= bottom:
        return Stretch(bottom, group.high, group.shift + bottom, floor_end)
    return Stretch(group.low, group.high, group.shift + group.low, group.previous_end)
