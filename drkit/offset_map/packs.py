"""The segments of a partition as the parts of one pack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drkit.offset_map.topic import new_nonce
from drkit.offsets import Pack, SegmentMap

_PART_SEGMENTS: Final = 8192
"""Segments in one record of the map topic: less than 200 KB."""


def parts(segments: SegmentMap, until: int) -> Iterator[Pack]:
    """Split the segments of a partition into the parts of one pack."""
    nonce = new_nonce()
    count = max(1, -(-len(segments) // _PART_SEGMENTS))
    for i in range(count):
        piece = segments.part(i * _PART_SEGMENTS, (i + 1) * _PART_SEGMENTS)
        yield Pack(nonce, i, count, until, piece)
