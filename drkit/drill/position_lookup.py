"""The positions that a drill looks at, and the offsets after which both sides are compared. Pure."""

from __future__ import annotations

from typing import NamedTuple

from drkit.drill.position_rows import PositionAnswer, PositionEvidence, PositionForm, judge_position
from drkit.kafka.groups.requests import Committed
from drkit.model import TopicPartition
from drkit.offsets import SegmentMap, Unavailable
from drkit.offsets.group_guard import StoredOffset
from drkit.offsets.translation import Exact, PartitionPosition


class PositionLookup(NamedTuple):
    """A position of a group in a partition of the source."""

    group: str
    tp: TopicPartition
    form: PositionForm
    committed: int
    upstream: int
    downstream: int | None = None
    """None: the translation of `upstream`."""
    written_ms: int | None = None
    known: PositionAnswer | None = None
    reason: str = ""

    def evidence(self, known: PositionAnswer | None = None, reason: str = "") -> PositionEvidence:
        """Return evidence without records.

        :param known: the answer; None: the one of the question
        """
        offsets = (self.upstream, self.downstream, self.committed)
        known, reason = known or self.known, reason or self.reason
        return PositionEvidence(self.group, *self.tp, self.form, *offsets, known=known, reason=reason)


class CompareFrom(NamedTuple):
    """The offsets after which the records of both sides are compared."""

    source: int
    target: int
    downstream: int
    """The position on the target."""
    expected: int | None = None
    """The exact translation, where the comparison does not begin at the position."""


def stored_question(
    group: str, tp: TopicPartition, committed: Committed, stored: Committed | None, source: str
) -> PositionLookup:
    """Return the question about the offset that the target stores.

    :param committed: by the group on the source
    :param source: alias of the flow's source
    """
    question = PositionLookup(group, tp, PositionForm.STORED, committed.offset, committed.offset)
    if stored is None:
        return question._replace(known=PositionAnswer.NO_POSITION, reason="the target stores no offset")
    question = question._replace(downstream=stored.offset)
    mark = StoredOffset(*stored).mark
    if mark is not None and mark.source == source:
        return question._replace(upstream=mark.upstream, written_ms=mark.written_ms)
    if StoredOffset(*committed).mark is not None:  # the flow in the other direction wrote the source offset
        return question
    text = f"another client has committed target @{stored.offset}"
    return question._replace(known=PositionAnswer.NO_MARK, reason=text)


def compare_from(question: PositionLookup, place: PartitionPosition) -> CompareFrom | Unavailable:
    """Return where to begin the comparison of a position.

    Where retention has removed the next records of a side, both sides are compared from the first record that
    both still have, and the position must be the exact translation.
    """
    found = place.forward(question.upstream)
    if isinstance(found, Unavailable):
        return found
    downstream = question.downstream if question.downstream is not None else found.offset
    begin = max(question.upstream, place.source_start or 0)
    first = found if begin == question.upstream else place.forward(begin)
    if isinstance(first, Exact) and first.skipped:
        back = place.backward(place.start)
        if isinstance(back, Unavailable):
            return back
        begin = back.offset
    if begin == question.upstream:
        return CompareFrom(begin, downstream, downstream)
    is_exact = place.backward(downstream) == place.backward(found.offset)
    first = place.forward(begin)
    if isinstance(first, Unavailable):
        return first
    return CompareFrom(begin, first.offset, downstream, downstream if is_exact else found.offset)


def is_pending(row: PositionEvidence, behind_seconds: float) -> bool:
    """Return whether the copy, or the next round of checkpoints, may still provide the position.

    :param behind_seconds: age of a stored position from which it must not be behind
    """
    answer, _ = judge_position(row)
    is_unstored = row.form is PositionForm.STORED and answer is PositionAnswer.NO_POSITION
    is_old = answer is PositionAnswer.BEHIND and (row.mark_age_seconds or 0.0) > behind_seconds
    return is_unstored or is_old or answer is PositionAnswer.NOT_COPIED


def closed_segments(place: PartitionPosition) -> SegmentMap:
    """Return the offset map of a partition with the end of its last segment."""
    segments = place.segments.copy()
    segments.close(place.copied_end)
    return segments


def has_copy(segments: SegmentMap, offset: int) -> bool:
    """Return whether the map knows the copy of a source record."""
    return segments.copy_of(offset) is not None
