"""Which fence agents count."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drkit.detect.agents import AgentNote, Agents, Hold, why_stale
from drkit.detect.votes import MOST_AGENTS
from drkit.flow_state.codec.fields import Malformed

TTL = 10.0


def note(agent: str = "dc1", hold: Hold = Hold.LEASED, number: int = 1, **more: Any) -> AgentNote:
    return AgentNote(agent, more.pop("run", "r"), number, hold, 0, **more)


def agents(*heard: tuple[AgentNote, float]) -> Agents:
    found = Agents(TTL)
    for each, at in heard:
        found.take(each, at)
    return found


def test_its_newest_request_is_answered_while_it_is_heard():
    found = agents((note(number=7), 100.0), (note(number=6), 100.1), (note("dc2", number=3), 80.0))
    assert found.renewals(101.0) == {"dc1": 7}
    assert found.renewals(111.0) == {}


def test_after_a_restart_its_numbers_are_others():
    found = agents((note(number=900), 100.0), (note(number=5, run="another"), 101.0))
    assert found.renewals(101.0) == {"dc1": 5}


@pytest.mark.parametrize(("heard_at", "counts"), [(95.0, True), (91.0, True), (89.0, False)])
def test_armed_is_who_held_a_lease_when_the_primary_was_lost(heard_at: float, *, counts: bool):
    assert bool(agents((note(), heard_at)).armed(lost_at=100.0)) == counts


@pytest.mark.parametrize("hold", [Hold.UNARMED, Hold.LOST])
def test_without_a_lease_no_agent_is_armed(hold: Hold):
    assert agents((note(hold=hold), 100.0)).armed(100.0) == ()


def test_one_that_was_stopped_promises_nothing():
    assert agents((note(), 99.0), (note(hold=Hold.UNARMED, number=2), 99.5)).armed(100.0) == ()


def test_one_that_lost_its_lease_was_armed():
    assert agents((note(), 99.0), (note(hold=Hold.LOST, number=2), 110.0)).armed(100.0) == ("dc1",)


def test_fenced_is_said_now_and_not_long_before():
    told = note(hold=Hold.LOST, fenced=True, evidence=("h:1: nothing listens",))
    assert agents((told, 112.0)).fenced(100.0) == ("dc1",)
    assert agents((told, 112.0)).armed(100.0) == ("dc1",)
    assert agents((told, 50.0)).fenced(100.0) == ()


def test_a_note_reads_back():
    before = note(fenced=True, evidence=("x",))
    assert AgentNote.of(json.loads(json.dumps(before.to_json()))) == before
    for raw in ({**before.to_json(), "hold": "perhaps"}, {}):
        with pytest.raises(Malformed):
            AgentNote.of(raw)


def test_names_of_ever_new_agents_take_no_answer_from_one_that_was_there():
    crowd = [(note(f"a{n}"), 100.5) for n in range(2 * MOST_AGENTS)]
    renewed = agents((note("zz", number=7), 100.0), *crowd, (note("zz", number=8), 101.0)).renewals(101.0)
    assert renewed["zz"] == 8
    assert len(renewed) == MOST_AGENTS


def test_a_note_of_a_past_failover_that_is_written_again_proves_nothing():
    """It has a valid MAC: an agent wrote it, some other day."""
    wall = 1_700_000_000_000
    past = AgentNote("dc1", "r", 7, Hold.LOST, wall - 3_600_000, fenced=True, evidence=("proven",))
    found = Agents(TTL)
    found.take(past, 100.0, why_stale(past, wall, TTL, 2.0))
    assert (found.fenced(100.0), found.armed(100.0)) == ((), ())
    leased = AgentNote("dc1", "r0", 7, Hold.LEASED, wall - 3_600_000)
    found.take(leased, 100.0, why_stale(leased, wall, TTL, 2.0))
    assert found.armed(100.0) == ()
    assert found.renewals(100.0) == {"dc1": 7}, "an agent whose clock is wrong is no reason to fence"


@pytest.mark.parametrize(("late", "counts"), [(0, True), (11, True), (13, False), (-1, True), (-3, False)])
def test_its_own_time_says_when_a_note_was_written(late: int, *, counts: bool):
    said = note(hold=Hold.LOST, fenced=True)
    assert (why_stale(said, late * 1000, TTL, 2.0) == "") == counts
