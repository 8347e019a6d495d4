"""When a lease may be taken, case by case; what follows from it is walked in test_lease_model.py."""

from __future__ import annotations

import pytest

from drkit.flow_state.lease.turn import LeaseAvailability, LeaseRight, LeaseTurn
from drkit.flow_state.records import LeaseRecord, Process

HELD = LeaseRecord("other-run", Process("h", 1, "", None), 1_000, 15_000)


@pytest.mark.parametrize(
    ("alive", "whole", "turn"),
    [
        (None, True, LeaseAvailability.HELD),
        (True, True, LeaseAvailability.HELD),
        (False, True, LeaseAvailability.GONE),
        (False, False, LeaseAvailability.HELD),
    ],
)
def test_the_first_look_knows_only_whether_the_process_is_gone(
    *, alive: bool | None, whole: bool, turn: LeaseAvailability
):
    seen = LeaseTurn("ours").look(HELD, asked=0.0, answered=0.1, alive=alive, whole=whole)
    assert seen is turn


@pytest.mark.parametrize("alive", [None, True])
def test_a_lease_is_over_when_one_record_was_there_for_its_time_between_two_looks(*, alive: bool | None):
    judge = LeaseTurn("ours")
    judge.look(HELD, asked=0.0, answered=10.0, alive=alive)
    assert judge.look(HELD, asked=24.9, answered=99.0, alive=alive) is LeaseAvailability.HELD, (
        "the look took long"
    )
    assert judge.look(HELD, asked=25.0, answered=25.1, alive=alive, whole=False) is LeaseAvailability.HELD
    assert judge.look(HELD, asked=25.0, answered=25.1, alive=alive) is LeaseAvailability.OVER


def test_no_lease_and_ones_own_lease_are_free():
    judge = LeaseTurn("other-run")
    assert judge.look(None, asked=0.0, answered=0.1) is LeaseAvailability.FREE
    assert judge.look(None, asked=0.0, answered=0.1, whole=False) is LeaseAvailability.HELD
    assert judge.look(HELD, asked=0.0, answered=0.1) is LeaseAvailability.THIS_RUN


def test_a_right_ends_at_once_where_another_run_has_the_lease():
    right = LeaseRight(10.0)
    assert not right.holds(0.0)
    right.extend(100.0)
    right.extend(50.0)
    assert right.holds(108.9)
    assert not right.holds(109.1)
    right.end(105.0)
    assert not right.holds(105.0)
