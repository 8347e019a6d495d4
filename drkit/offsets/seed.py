"""How the map of one direction begins: with the map of the opposite direction, inverted. Pure.

After a turn one map per direction then knows the whole history of both logs: a group anywhere in it has an
exact position, and no record is fetched that the target has. A position on the source and one on the target
are the same if the records after them are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from drkit.offsets.crossing import Crossing
from drkit.offsets.map_record import NO_ANCHOR, History, Turn
from drkit.offsets.segments import OPEN, UNKNOWN, SegmentMap
from drkit.offsets.takeup import Author


class CopyEnd(NamedTuple):
    """Where the new direction begins to copy."""

    upstream: int
    """End of the new source: everything before it is on the target, or is given up by name."""
    downstream: int
    """End of the new target."""


class Seed(NamedTuple):
    """What the map of a direction says before its first record is copied."""

    segments: SegmentMap
    upstream: int
    """Next source offset to copy."""
    downstream: int
    """The target's end."""
    copied_end: int
    """Target offset after the last record that the segments name."""

    def turn(self, to: History, ended: History | None, author: Author) -> Turn:
        """The record that follows the pack of the segments: from here on only the new history counts.

        :param to: a live producer id that the flow has never used. An id that was fenced begins again at
            sequence 0 in the fence's epoch, and the leader refuses the next number that the map would name
        :param ended: the history of an earlier turn in this direction; its claims that were never appended
            must not explain records of the new one
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
    """The known segments seen from the other side, each with its length.

    :param copied_end: target offset after the last copied record. The last segment ends there: what
        follows was written by clients, and the map must not vouch for it
    """
    found: list[tuple[int, int, int]] = []
    for up, down, length in segments.triples():
        if length == UNKNOWN:
            continue
        records = max(0, copied_end - down) if length == OPEN else length
        if records or not found:  # an empty first one says where known offsets begin
            found.append((down, up, records))
    return found


def seed_after(
    opposite: SegmentMap,
    copied_end: int,
    at: CopyEnd,
    first_record: int | None,
    crossings: Sequence[Crossing] = (),
) -> Seed:
    """The seed of a direction whose target holds all that its source has before `at`.

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
    return _seed(known, at, first_record, end)


def seed_of_emptied(at: CopyEnd, first_record: int | None) -> Seed:
    """The seed of a direction whose target partition was emptied up to its end.

    :param at: `upstream` is the source's log start where everything is copied again, and the cut where the
        older records are given up
    :param first_record: as in :func:`seed_after`
    """
    return _seed([], at, first_record, at.downstream)


def _seed(known: list[tuple[int, int, int]], at: CopyEnd, first_record: int | None, end: int) -> Seed:
    if first_record is not None and first_record < (known[0][0] if known else at.upstream):
        # It has no counterpart on the target. Without an end of its own the unknown part would reach to the
        # next copied record: a group that is exactly at the cut would have no position until one follows.
        known = [(0, 0, UNKNOWN), *(known or [(at.upstream, at.downstream, 0)])]
    return Seed(SegmentMap.of(known), at.upstream, at.downstream, end)
