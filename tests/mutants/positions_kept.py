"""A drkit that takes an offset of the source for the same offset of the target, in both directions."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import POSITIONS
from drkit.offsets.segments import SegmentMap

BROKEN: Final = "positions are not translated: the target gets the offset of the source"
SCENARIO: Final = "primary-killed"
CAUGHT_BY: Final = POSITIONS


def _same(_: SegmentMap, offset: int, *_end: int) -> int:
    return offset


def apply() -> None:
    """Break this process."""
    patch.object(SegmentMap, "translate", _same).start()
    patch.object(SegmentMap, "inverse", _same).start()
