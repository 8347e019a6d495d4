"""What a task may do with a settled partition: the table, row by row."""

from __future__ import annotations

import pytest

from drkit.offsets import History, SegmentMap
from drkit.offsets.resolution import Resolution
from drkit.offsets.takeup import FROZEN_EPOCH, Fence, Frozen, Go, LeaderMemory, Move, TurnTo, next_move

LEASE, OLD_ID = History(77, 0), History(66, 3)
UNKNOWN = LeaderMemory(None)


def found(history: History | None = LEASE, *, unappended: bool = False, lost: bool = False) -> Resolution:
    out = Resolution(SegmentMap(), history, 10, 10, 10, 10, 0)
    out.unappended, out.truncated_from = unappended, 20 if lost else None
    return out


def kind(move: Move) -> tuple[str, int]:
    match move:
        case Go(history) | TurnTo(history):
            return type(move).__name__, history.epoch
        case Fence(_, epoch, _) | Frozen(epoch):
            return type(move).__name__, epoch


@pytest.mark.parametrize("contested", [False, True])
@pytest.mark.parametrize("deviates", [False, True])
@pytest.mark.parametrize("unappended", [False, True])
def test_a_contested_history_ends_before_something_else_is_appended(
    *, contested: bool, deviates: bool, unappended: bool
) -> None:
    settled = found(unappended=unappended)
    why = "a gap" if deviates else ""
    move = next_move(settled, LEASE, LeaderMemory(0), LeaderMemory(0), contested=contested, deviation=why)
    assert kind(move) == (("Fence", 1) if deviates and (contested or unappended) else ("Go", 0))


@pytest.mark.parametrize(
    ("settled", "leader", "wanted"),
    [
        (found(), LeaderMemory(FROZEN_EPOCH), ("Frozen", FROZEN_EPOCH)),
        (found(None), LeaderMemory(FROZEN_EPOCH, untouched=True), ("Frozen", FROZEN_EPOCH)),
        (found(), LeaderMemory(1, untouched=True), ("TurnTo", 1)),
        (found(), LeaderMemory(1), ("Fence", 2)),
        (found(History(77, 4)), LeaderMemory(2), ("Fence", 5)),
        (found(History(77, 4)), UNKNOWN, ("Go", 4)),
        (found(lost=True), LeaderMemory(0), ("Fence", 1)),
        (found(History(77, FROZEN_EPOCH - 1), lost=True), UNKNOWN, ("Frozen", FROZEN_EPOCH - 1)),
        (found(None), UNKNOWN, ("Go", 0)),
        (found(None), LeaderMemory(0, untouched=True), ("Go", 0)),
        (found(None), LeaderMemory(0), ("Fence", 1)),
    ],
    ids=[
        "frozen by a failover", "frozen before anything was copied", "a fence without its turn",
        "a fence that others have written behind", "the fence was lost", "the producer is forgotten",
        "records were lost", "no epoch is left", "never copied",
        "never copied, and fenced", "another topic of this name was copied",
    ],
)  # fmt: skip
def test_what_the_leader_remembers(
    settled: Resolution, leader: LeaderMemory, wanted: tuple[str, int]
) -> None:
    assert kind(next_move(settled, LEASE, leader, leader, contested=False, deviation="")) == wanted


@pytest.mark.parametrize(
    ("old", "contested", "wanted"),
    [
        (LeaderMemory(FROZEN_EPOCH, untouched=True), True, ("TurnTo", 0)),
        (LeaderMemory(3), False, ("TurnTo", 0)),
        (LeaderMemory(3), True, ("Fence", 4)),
        (LeaderMemory(4, untouched=True), True, ("TurnTo", 0)),
    ],
    ids=["frozen, and taken back", "nothing on its way", "something may be", "fenced now"],
)
def test_another_producer_id(old: LeaderMemory, *, contested: bool, wanted: tuple[str, int]) -> None:
    """After a failover that was rolled back the flow has a new producer id; the old one stays fenced."""
    move = next_move(found(OLD_ID), LEASE, old, UNKNOWN, contested=contested, deviation="")
    assert kind(move) == wanted
    frozen = next_move(
        found(OLD_ID), LEASE, old, LeaderMemory(FROZEN_EPOCH), contested=contested, deviation=""
    )
    assert kind(frozen) == ("Frozen", FROZEN_EPOCH)
