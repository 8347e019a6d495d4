"""The fence agent's lease, under every delay of messages: it ends in time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.detect.agents import Hold, Lease, answers_needed
from drkit.detect.votes import quorum


@pytest.mark.parametrize(("observers", "needed"), [(3, 2), (4, 2), (5, 3), (7, 4)])
def test_the_observers_that_do_not_answer_are_no_quorum(observers: int, needed: int):
    assert answers_needed(observers) == needed
    assert observers - needed < quorum(observers)
    assert observers - (needed - 1) >= quorum(observers)


def test_before_the_first_lease_nothing_is_fenced():
    lease = Lease(3, 10.0)
    lease.ask(0.0)
    assert lease.hold(1000.0) is Hold.UNARMED
    assert lease.left(0.0) is None


def test_it_counts_from_the_request_not_from_the_answer():
    lease = Lease(3, 10.0)
    first = lease.ask(0.0)
    for name in "ab":
        lease.heard(name, first)  # whenever that arrives
    assert lease.hold(9.9) is Hold.LEASED
    assert lease.hold(10.0) is Hold.LOST


def test_one_of_three_does_not_keep_it():
    lease = Lease(3, 10.0)
    number = lease.ask(0.0)
    lease.heard("a", number)
    lease.heard("b", number)
    for second in range(1, 20):
        lease.heard("a", lease.ask(float(second)))
    assert lease.hold(11.0) is Hold.LOST
    assert lease.answered(11.0) == ("a",)


def test_old_and_foreign_answers_renew_nothing():
    lease = Lease(3, 10.0)
    numbers = [lease.ask(float(t)) for t in range(5)]
    for name in "ab":
        lease.heard(name, numbers[4])
        lease.heard(name, numbers[0])
        lease.heard(name, 4711)
    assert lease.left(4.0) == 10.0


def test_a_lease_of_an_earlier_process_continues():
    lease = Lease(3, 10.0, armed_at=100.0)
    assert lease.hold(105.0) is Hold.LEASED
    assert lease.hold(110.0) is Hold.LOST


TTL, STEP = 10.0, 1.0


@given(
    st.integers(3, 7),
    st.data(),
    st.lists(st.tuples(st.integers(0, 6), st.floats(0.0, 30.0)), min_size=30, max_size=30),
)
def test_when_a_quorum_stops_answering_it_is_lost_within_its_time(
    observers: int, data: st.DataObject, answers: list[tuple[int, float]]
):
    """With any delay of answers: no lease is valid `ttl` after a quorum's last answer was sent."""
    stops = [data.draw(st.floats(0.0, 30.0)) for _ in range(observers)]
    lease, arrivals = Lease(observers, TTL), []
    for second, (late, delay) in enumerate(answers):
        number = lease.ask(float(second))
        for observer in range(observers):
            answer = (second + delay + late * observer, f"o{observer}", number)
            arrivals += [answer] if second <= stops[observer] else []
    decided = sorted(stops)[quorum(observers) - 1]  # from here on a quorum answers nothing any more
    arrivals.sort()
    for at, name, number in arrivals:
        lease.heard(name, number)
        moment = max(at, decided + TTL + 1e-6)
        assert lease.hold(moment) is not Hold.LEASED
