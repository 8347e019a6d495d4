"""Offset maps made by hand, as runs and positions."""

from __future__ import annotations

from hypothesis import strategies as st

from drkit.offsets import SegmentMap
from drkit.offsets.translation import PartitionPosition

# (hole in the source before the run, hole in the target before it, records)
runs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=12)


def build(shape: list[tuple[int, int, int]]) -> tuple[SegmentMap, list[tuple[int, int]], int]:
    """A map, its (source, target) pairs and the target's end."""
    segments, pairs = SegmentMap(), []
    up = down = 0
    for source_hole, target_hole, count in shape:
        end = down
        up, down = up + source_hole, down + target_hole
        segments.append(up, down, previous_end=end)
        pairs += [(up + i, down + i) for i in range(count)]
        up, down = up + count, down + count
    return segments, pairs, down


def place(
    shape: list[tuple[int, int, int]], hole: int = 0
) -> tuple[PartitionPosition, list[tuple[int, int]]]:
    """A position whose frontier is `hole` dropped source offsets after the last copied record."""
    segments, pairs, end = build(shape)
    segments.close(end)
    frontier = pairs[-1][0] + 1 + hole
    return PartitionPosition(segments, frontier, 0, end + 2, end, 0, frontier + 5), pairs
