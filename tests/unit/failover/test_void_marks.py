"""Marks that are no commits, as a failover of a silent source reads them; and groups that get no position."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from drkit.config import FlowSettings
from drkit.failover.checks.survey import never_placed, positions_of
from drkit.failover.core.request import RunRequest
from drkit.failover.groups.offsets import FROM_SOURCE, checkpointed, committed_in
from drkit.failover.returning.demote import mark_of
from drkit.flow_state.copied_topics import known_of
from drkit.model import TopicPartition
from drkit.offsets.crossing import Crossing
from drkit.offsets.group_guard import OffsetMark, StoredOffset
from drkit.offsets.mm2_records import CheckpointSeen
from drkit.offsets.segments import SegmentMap, Unavailable
from drkit.offsets.translation import Exact, PartitionPosition
from tests.support.stored import flow_state

FLOW = FlowSettings(source="a", target="b", naming="prefix")
IDS = {"source_id": str(UUID(int=1)), "target_id": str(UUID(int=2))}
KNOWN = known_of(flow_state({"topic/t": {"target": "a.t", **IDS}}))
AT, COPY = TopicPartition("t", 0), TopicPartition("a.t", 0)
VOID = StoredOffset(7, OffsetMark("a", None, 7, 1000).text())


def test_a_mark_has_what_the_group_committed_or_nothing() -> None:
    """An emptied partition gets no invented position, such as 0 or the cut."""
    nowhere = Unavailable("a return has kept a tail there")

    def mark(place: Exact | Unavailable | None, *there: int, voided: bool) -> object:
        stored = StoredOffset(there[0]) if there else None
        result = mark_of(OffsetMark("a", None, 7, 1000), place, stored, voided=voided)
        return result and result.upstream if result != VOID.mark else "void"

    assert mark(Exact(5), 9, voided=True) == mark(Exact(5), voided=False) == 5
    assert mark(nowhere, 9, voided=True) == 9
    for place in (nowhere, None):
        assert mark(place, voided=True) == "void"
        assert mark(place, voided=False) is None, "its own"
    assert checkpointed({}, KNOWN, {"g": {AT: VOID}}) == {}


def test_a_void_mark_is_no_position() -> None:
    marks = {"void": {AT: VOID}, "moved": {AT: StoredOffset(5)}}
    assert checkpointed({}, KNOWN, marks) == {"moved": {AT: StoredOffset(5)}}


@pytest.mark.parametrize(("at_ms", "counts"), [(999, False), (1000, True), (1001, True)])
def test_a_checkpoint_from_before_a_void_mark_is_of_an_earlier_log(at_ms: int, *, counts: bool) -> None:
    checkpoints = {"g": {COPY: CheckpointSeen(3, 4, at_ms)}}
    positions = checkpointed(checkpoints, KNOWN, {"g": {AT: VOID}})
    assert positions == ({"g": {AT: StoredOffset(3)}} if counts else {})
    other = checkpointed(checkpoints, KNOWN, {"g": {AT: StoredOffset(5)}})
    assert other == {"g": {AT: StoredOffset(3)}}


def test_a_group_gets_no_position_only_if_the_copy_will_never_have_it() -> None:
    segments = SegmentMap.of([(0, 0, 0)])
    place = PartitionPosition(segments, 10, 0, 10, 10, 0, 20, crossings=(Crossing(4, 8, 4, 8),))

    def why(offset: int) -> str:
        return never_placed({"g": {AT: StoredOffset(offset)}}, {AT: place}).get("g", "")

    assert [o for o in (0, 3, 8, 9, 10, 11, 20) if why(o)] == []
    assert why(6).startswith("t-0: source offset 6 has no counterpart")
    assert why(21) == "t-0: source offset 21 is past the end of the source, 20"
    assert never_placed({"g": {AT: StoredOffset(1)}}, {}) == {"g": "t-0: the target has no such partition"}
    gone = never_placed({"g": {AT: StoredOffset(1)}}, {AT: Unavailable("recreated")})
    assert gone == {"g": "t-0: recreated"}


@pytest.mark.parametrize("answers", [True, False])
def test_while_the_source_answers_no_checkpoint_is_read(*, answers: bool) -> None:
    """Any client that may write there can forge one."""
    asked = list[object]()

    def run(ask: object, *_: object) -> dict[str, object]:
        asked.append(ask)
        return {}

    context: Any = SimpleNamespace(
        flow=FLOW, known=KNOWN, run=run, target=None, target_settings=None, request=RunRequest()
    )
    source: Any = object() if answers else None
    if answers:
        assert positions_of(context, source) == ({}, FROM_SOURCE)
        assert asked == [committed_in]
    else:
        with pytest.raises(AttributeError, match="kept"):  # what has the checkpoints
            positions_of(context, source)
