"""Logs and their copies as lists of contents, and the evidence of positions in them."""

from __future__ import annotations

from collections.abc import Sequence

from drkit.drill.position_rows import PositionEvidence, PositionForm, RecordWindow
from drkit.drill.record_windows import take_window


def window(contents: Sequence[str], begin: int) -> RecordWindow:
    """Return the window of a log that begins at offset 0, read as far as it takes."""
    pieces = [(i, 0, contents[i].encode()) for i in range(begin, len(contents))]
    for read in range(len(pieces) + 1):
        found = take_window(pieces[:read], is_whole=read == len(pieces))
        if found is not None:
            return found
    raise AssertionError


def position(
    source: Sequence[str], copied: int, upstream: int, downstream: int, *, foreign: Sequence[str] = ()
) -> PositionEvidence:
    """Return the evidence of a stored position; the target has the first records of the source."""
    target = [*source[:copied], *foreign]
    return PositionEvidence(
        "g", "orders", 0, PositionForm.STORED, upstream, downstream, upstream,
        frontier=copied, target_log=(0, len(target)), source=window(source, upstream),
        target=window(target, downstream) if downstream <= len(target) else RecordWindow((), at_end=True),
    )  # fmt: skip
