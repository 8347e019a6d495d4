"""A promotion that only the old primary has on record: its target came back older, or empty. Pure."""

from __future__ import annotations

from uuid import UUID

import pytest

from drkit.flow_state.codec.record import StateRecord
from drkit.flow_state.records import GenerationRecord, ReturnRecord, Role, RoleRecord
from drkit.flow_state.source_fence.entries import FenceLog, FenceMark, FenceRecord
from drkit.flow_state.state import FlowState
from drkit.pair.view import Observation, lost_promotions, observation_of, pair_view

COPIED = GenerationRecord("t", UUID(int=1), UUID(int=2))
ROLE = RoleRecord(Role.PROMOTED, 3, "r3", 5)


def state(*records: StateRecord) -> FlowState:
    found = FlowState()
    for record in records:
        found.take(record.key("t").encode(), record.encode())
    return found


def log(mark: FenceMark = FenceMark.OPENED, topics: str = "t") -> FenceLog:
    found = FenceLog()
    found.records["r3"] = FenceRecord("r3", 3, 5, mark, frozenset(topics))
    return found


@pytest.mark.parametrize("mark", [FenceMark.OPENED, FenceMark.OPENING])
@pytest.mark.parametrize("records", [[], [COPIED], [COPIED, ReturnRecord("r1", "r2", 4, None, 2)]])
def test_the_active_side_is_never_the_one_that_the_newest_promotion_has_left(
    records: list[StateRecord], mark: FenceMark
) -> None:
    older = state(*records)
    lost = lost_promotions(log(mark), older, ["r1", "r2"])
    [view] = pair_view(observation_of(("p", "s"), older, lost=lost), Observation("s", "p"))
    assert view.active == "s"
    assert view.unknown == ("p->s: s has lost its promotion by run r3, which p has on record",)


@pytest.mark.parametrize(
    ("records", "runs", "recorded"),
    [
        ([COPIED, ROLE], [], log()),
        ([COPIED, ReturnRecord("r3", "r4", 6, None, 4)], [], log()),
        ([COPIED], ["r3"], log(FenceMark.OPENING)),
        ([COPIED], [], log(FenceMark.RAISED)),
        ([COPIED], [], log(FenceMark.ABORTED)),
        ([COPIED], [], log(topics="")),
        ([COPIED], [], None),
    ],
    ids=["in the state", "answered", "in the journal", "not opened", "aborted", "lifted", "not read"],
)
def test_what_the_target_knows_is_not_lost(
    records: list[StateRecord], runs: list[str], recorded: FenceLog | None
) -> None:
    assert not lost_promotions(recorded, state(*records), runs)
