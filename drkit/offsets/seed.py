"""The first map records of a direction: the inverted map of the opposite direction. Pure.

After a turn the map of each direction covers the whole history of both logs: a group at any offset has an
exact position, and no record that the target has is fetched again. A source and a target position are equal
if the records after them are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from drkit.offsets.crossing import Crossing
from drkit.offsets.map_record import NO_ANCHOR, History, Turn
from drkit.offsets.segments import OPEN, UNKNOWN, SegmentMap
from drkit.offsets.takeup import Author


class CopyEnd(NamedTuple):
    """The position at which the new direction begins to copy."""

    upstream: int
    """End of the new source: everything before it is on the target, or explicitly given up."""
    downstream: int
    """End of the new target."""


class Seed(NamedTuple):
    """The map of a direction before its first record is copied."""

    segments: SegmentMap
    upstream: int
    """Next source offset to copy."""
    downstream: int
    """The target's end."""
    copied_end: int
    """Target offset after the last record that the segments name."""

    def turn(self, to: History, ended: History | None, author: Author) -> Turn:
        """Return the turn record that follows the pack of segments: after it only the new history counts.

        :param to: a live producer id that the flow has never used. A fenced id restarts at sequence 0 in the
            fence's epoch, so the leader would refuse the next sequence number of the map
        :param ended: the history of an earlier turn in this direction; its claims without an append must not
            define records of the new one
        """
        return Turn(
            nonce=author.nonce,
            reign=author.reign,
            ended=ended or History(to.producer_id, to.epoch - 1),
            ended_sequence=NO_ANCHOR,
            history=to,
            upstream=self.upstream,
            downstream=self.downstream,
            copied_end=self.copied_end,
            # The new source never had the old one's epochs: with a smaller one it would report a diverging
            # log and records are copied twice, with a larger one it would answer nothing (KIP-320).
            leader_epoch=-1,
            target_epoch=author.target_epoch,
        )


def inverted(segments: SegmentMap, copied_end: int) -> list[tuple[int, int, int]]:
    """Return the known segments with source and target swapped, each with its length.

    :param copied_end: target offset after the last copied record. The last segment ends there: later
        records are of clients, and not part of the map
    """
    known: list[tuple[int, int, int]] = []
    for up, down, length in segments.triples():
        if length == UNKNOWN:
            continue
        records = max(0, copied_end - down) if length == OPEN else length
        if records or not known:  # an empty first one says where known offsets begin
            known.append((down, up, records))
    return known


def seed_after(
    opposite: SegmentMap,
    copied_end: int,
    begin: CopyEnd,
    first_record: int | None,
    crossings: Sequence[Crossing] = (),
) -> Seed:
    """Return the seed of a direction whose target has all records that its source has before `begin`.

    :param opposite: the map of the direction that ended
    :param copied_end: its target offset after the last copied record
    :param first_record: source offset of the first record that is left there; None: it holds none
    :param crossings: of the direction that begins; the first record of one is no earlier history
    """
    known = inverted(opposite, copied_end)
    # Offsets there without a copy, such as markers or a kept tail, are not the flow's.
    end = known[-1][1] + known[-1][2] if known else 0
    if crossings and first_record is not None and first_record >= crossings[0].source_first:
        first_record = None
    return _seed(known, begin, first_record, end)


def seed_of_emptied(begin: CopyEnd, first_record: int | None) -> Seed:
    """Return the seed of a direction whose target partition was emptied up to its end.

    :param begin: `upstream` is the source's log start where everything is copied again, and the cut where the
        older records are given up
    :param first_record: as in :func:`seed_after`
    """
    return _seed([], begin, first_record, begin.downstream)


def _seed(known: list[tuple[int, int, int]], begin: CopyEnd, first_record: int | None, end: int) -> Seed:
    if first_record is not None and first_record < (known[0][0] if known else begin.upstream):
        # It has no counterpart on the target. Without its own end the unknown part would extend to the next
        # copied record: a group exactly at the cut would have no position until then.
        known = [(0, 0, UNKNOWN), *(known or [(begin.upstream, begin.downstream, 0)])]
    return Seed(SegmentMap.of(known), begin.upstream, begin.downstream, end)
