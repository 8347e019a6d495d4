"""Segments: runs of records whose upstream minus downstream offset is constant.

A segment is open-ended until the next one begins; the next one also says where the previous one
ended on the target, because the target may have holes of its own (transaction markers, aborted
transactions, foreign records). Stored as three arrays of 64-bit integers: 24 bytes a segment.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from drkit.model import SourceOffset, TargetOffset

_LITTLE_ENDIAN: Final = array("q", [1]).tobytes()[0] == 1
OPEN = -1
"""Length of an open-ended last segment."""
UNKNOWN = -2
"""Length of a first segment with unknown offsets: another replicator copied it, or a failback
gave it up."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No exact answer exists; `reason` says why. Never replaced by a guess."""

    reason: str
    nearest: int | None = None
    """First target offset left, if the next records to read are lost, or None if it is unknown."""


class SegmentMap:
    """The segments of one partition, in ascending order of both offsets.

    Shapes: three parallel ``array('q')`` of equal length: upstream starts, downstream starts,
    lengths in records (−1: open-ended, only the last; −2: unknown inside, only the first; 0: where
    known offsets begin, only before all known ones).
    """

    __slots__ = ("_down", "_length", "_up")

    def __init__(self) -> None:
        self._up = array("q")
        self._down = array("q")
        self._length = array("q")

    def __len__(self) -> int:
        return len(self._up)

    @classmethod
    def of(cls, segments: Iterable[tuple[int, int, int]]) -> SegmentMap:
        """From (upstream start, downstream start, records or −1), ascending."""
        out = cls()
        for up, down, length in segments:
            out._up.append(up)
            out._down.append(down)
            out._length.append(length)
        return out

    def join(self, following: SegmentMap) -> None:
        """Append all segments of a map that begins where this one ends."""
        for column, more in zip(self._columns(), following._columns(), strict=True):
            column.extend(more)

    def copy(self) -> SegmentMap:
        """Return an independent copy."""
        return self.part(0, len(self))

    def part(self, start: int, stop: int) -> SegmentMap:
        """Return some of the segments, by their index."""
        out = SegmentMap()
        out._up, out._down, out._length = (column[start:stop] for column in self._columns())
        return out

    def to_bytes(self) -> bytes:
        """The three columns one after the other, big-endian."""
        return b"".join(_swapped(column).tobytes() for column in self._columns())

    def _columns(self) -> tuple[array[int], array[int], array[int]]:
        return self._up, self._down, self._length

    @classmethod
    def from_bytes(cls, data: bytes) -> SegmentMap:
        """Read what :meth:`to_bytes` gave, without an object per segment.

        :raises ValueError: not three columns of one length
        """
        size, rest = divmod(len(data), 3)
        if rest:
            raise ValueError(f"{len(data)} bytes are not three columns")
        out = cls()
        for column, start in zip(out._columns(), (0, size, 2 * size), strict=True):
            column.frombytes(data[start : start + size])
            if _LITTLE_ENDIAN:
                column.byteswap()
        return out

    def triples(self) -> list[tuple[int, int, int]]:
        """All (upstream start, downstream start, records or −1), ascending."""
        return list(zip(self._up, self._down, self._length, strict=True))

    def append(self, upstream: int, downstream: int, *, previous_end: int) -> None:
        """Begin a segment; it cuts every earlier one that starts at or after it on either side.

        :param upstream: source offset of its first record
        :param downstream: target offset of its first record
        :param previous_end: target offset after the last record of the segment before it
        """
        up, down, length = self._up, self._down, self._length
        while up and (up[-1] >= upstream or down[-1] >= downstream):
            if (up[-1] < upstream or down[-1] < downstream) and self._ends_unknown(upstream, downstream):
                break
            up.pop()
            down.pop()
            length.pop()
        if up:
            end = min(previous_end, downstream)
            known = max(0, end - down[-1])
            length[-1] = known if length[-1] == OPEN else min(length[-1], known)
            if up[-1] + length[-1] > upstream:  # the source was cut back into the segment
                length[-1] = upstream - up[-1]
            same = upstream - downstream == up[-1] - down[-1]
            if same and length[-1] != UNKNOWN and down[-1] + length[-1] == downstream:
                length[-1] = OPEN
                return
        up.append(upstream)
        down.append(downstream)
        length.append(OPEN)

    def _ends_unknown(self, upstream: int, downstream: int) -> bool:
        """Return whether the last segment only marks the start of known offsets, at or before these."""
        first = 1 if self._length[0] == UNKNOWN else 0
        is_empty = len(self) == first + 1 and self._length[first] == 0
        return is_empty and self._up[first] <= upstream and self._down[first] <= downstream

    def extend(self, newer: SegmentMap, until: int) -> None:
        """Append another map's segments from target offset `until` on.

        This map covers everything before `until`.
        """
        if self._up and self._length[-1] == OPEN:
            self.close(until)
        for up, down, length in newer.triples():
            known = max(0, until - down)
            if length != OPEN and known >= length:
                continue
            end = self._down[-1] + self._length[-1] if self._up else until
            self.append(up + known, down + known, previous_end=end)
            if length != OPEN:
                self.close(down + length)

    def close(self, end: int) -> None:
        """State that the last segment ends at the target offset `end`."""
        if self._up and self._length[-1] != UNKNOWN:
            self._length[-1] = max(0, end - self._down[-1])

    def cut(self, downstream: int) -> None:
        """Forget everything at or after a target offset (the target lost its tail)."""
        while self._down and self._down[-1] >= downstream:
            if self._ends_unknown(self._up[-1], downstream):
                return
            self._up.pop()
            self._down.pop()
            self._length.pop()
        if self._down and self._length[-1] >= downstream - self._down[-1]:
            self._length[-1] = OPEN

    def copied_end(self, target_end: int) -> int:
        """Target offset after the last copied record; 0 without one."""
        if not self._up:
            return 0
        down, length = self._down[-1], self._length[-1]
        if length == UNKNOWN:
            return target_end
        return target_end if length == OPEN else min(target_end, down + length)

    def segments(self) -> list[tuple[int, int]]:
        """All (upstream start, downstream start), ascending."""
        return list(zip(self._up, self._down, strict=True))

    def delta(self) -> int | None:
        """Upstream minus downstream of the last segment while it is open."""
        return self._up[-1] - self._down[-1] if self._up and self._length[-1] == OPEN else None

    def known_from(self) -> tuple[int, int] | None:
        """First (upstream, downstream) offset after an unknown part; None without such a part."""
        if len(self) > 1 and self._length[0] == UNKNOWN:
            return self._up[1], self._down[1]
        return None

    def frontier(self, target_end: int) -> SourceOffset | None:
        """First source offset after the last copied record, or None when nothing was copied."""
        if not self._up:
            return None
        length = self._length[-1]
        if length == UNKNOWN:
            return None
        if length == OPEN:
            length = max(0, target_end - self._down[-1])
        return SourceOffset(self._up[-1] + length)

    def translate(self, upstream: SourceOffset, target_end: int) -> TargetOffset | Unavailable:
        """The target offset of the first copied record at or after `upstream`.

        After the last copied record the answer is the end of the last segment on the target.
        """
        if not self._up:
            return Unavailable("nothing of this partition has been copied yet")
        index = bisect_right(self._up, upstream) - 1
        if index < 0:
            return TargetOffset(self._down[0])
        if self._length[index] == UNKNOWN:
            return _before(SourceOffset(self._up[index + 1]) if index + 1 < len(self) else None)
        offset = upstream - self._up[index]
        if index + 1 == len(self._up):
            length = self._length[index]
            last = target_end - self._down[index] if length == OPEN else length
            return TargetOffset(self._down[index] + min(offset, max(0, last)))
        if offset >= self._length[index]:
            return TargetOffset(self._down[index + 1])
        return TargetOffset(self._down[index] + offset)

    def inverse(self, downstream: TargetOffset) -> SourceOffset | Unavailable:
        """The source offset of the first record whose copy is at or after `downstream`."""
        if not self._up:
            return Unavailable("nothing of this partition has been copied yet")
        index = bisect_right(self._down, downstream) - 1
        if index < 0:
            return SourceOffset(self._up[0])
        if self._length[index] == UNKNOWN:
            return _before(SourceOffset(self._up[index + 1]) if index + 1 < len(self) else None)
        offset = downstream - self._down[index]
        if self._length[index] != OPEN and offset >= self._length[index]:
            if index + 1 < len(self._up):
                return SourceOffset(self._up[index + 1])
            offset = self._length[index]
        return SourceOffset(self._up[index] + offset)

    def first_record(self) -> tuple[int, int] | None:
        """Source and target offset of the first copied record with known offsets; None without one."""
        for up, down, length in zip(self._up, self._down, self._length, strict=True):
            if length not in {UNKNOWN, 0}:
                return up, down
        return None

    def record_before(self, downstream: int) -> tuple[int, int] | None:
        """Source and target offset of the last copied record before a target offset; None without one.

        :param downstream: at most the target offset after the last copied record
        """
        index = bisect_left(self._down, downstream) - 1
        while index >= 0 and self._length[index] != UNKNOWN:
            length, inside = self._length[index], downstream - 1 - self._down[index]
            if length != OPEN:
                inside = min(inside, length - 1)
            if inside >= 0:
                return self._up[index] + inside, self._down[index] + inside
            index -= 1
        return None

    def copy_of(self, upstream: int) -> int | None:
        """Return the target offset of the copy of a source record, or None if the map has no copy."""
        return _counterpart(self._up, self._down, self._length, upstream)

    def origin_of(self, downstream: int) -> int | None:
        """Return the source offset of the record with a copy at a target offset, or None if unknown."""
        return _counterpart(self._down, self._up, self._length, downstream)

    def removed(self, target_start: int) -> tuple[int, int]:
        """Return the source offsets, half open, with copies that were removed before the target's log start.

        A part with unknown offsets does not count: a failback gave it up, or another replicator copied it.
        """
        first = next((up for up, length in zip(self._up, self._length, strict=True) if length != UNKNOWN), 0)
        end = self.inverse(TargetOffset(target_start))
        return first, first if isinstance(end, Unavailable) else max(first, end)

    def trim(self, target_start: int) -> int:
        """Drop segments that ended before the target's log start; returns how many.

        An empty one remains at the start of known offsets: records the flow never copied were not removed.
        """
        dropped = max(0, bisect_left(self._down, target_start + 1) - 1)
        begins = 1 if dropped and self._length[0] == UNKNOWN else 0
        if begins < dropped:
            self._length[begins] = 0
        for column in self._columns():
            del column[begins + 1 : dropped], column[:begins]
        return dropped


def _counterpart(here: array[int], there: array[int], lengths: array[int], offset: int) -> int | None:
    index = bisect_right(here, offset) - 1
    inside = offset - here[index] if index >= 0 else -1
    if inside < 0 or (lengths[index] != OPEN and inside >= lengths[index]):
        return None
    return there[index] + inside


def _swapped(column: array[int]) -> array[int]:
    swapped = column[:]
    if _LITTLE_ENDIAN:
        swapped.byteswap()
    return swapped


def _before(first: SourceOffset | None) -> Unavailable:
    known = f"; known from source offset {first} on" if first is not None else ""
    return Unavailable(f"it is before the offset map of this flow begins, so its position is unknown{known}")
