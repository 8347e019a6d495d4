"""What is said of a pair of clusters, from the facts of both directions. No clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drkit.flow_state.records import OppositePromotionRecord
from drkit.journal.machine import RETURN
from drkit.pair.view import FenceSeen, Refusing
from drkit.status.pair.facts import DirectionFacts, LeftOutTopic, TopicLag
from drkit.status.pair.journal import RunUnderWay
from drkit.status.pair.judge import judge
from drkit.status.pair.model import PairAlarm, PairState, PairStatus, PairTopic
from drkit.status.pair.text import pair_lines
from tests.support.status.pair_facts import (
    COPIED,
    NOT_KNOWN,
    OVER,
    RPO,
    RUN,
    STANDS,
    TOPIC,
    back,
    direction,
    only,
    promoted,
    returned,
)


def test_a_flow_without_an_opposite_protects_until_it_is_promoted():
    alone = back(configured=False)
    before = only(direction(), alone)
    assert (before.state, before.direction, before.records) == (PairState.PROTECTED, "p->s", 0)
    after = only(OVER, alone)
    assert (after.state, after.since_ms, after.active) == (PairState.UNPROTECTED, 1000, "s")
    assert after.why == "no flow s->p is configured"


NOT_BEGUN = (
    "its return has not begun: drkit reprotect --flow 'p->s' begins it, or says what it waits for;"
    " drkit replicate --flow 's->p' copies it then"
)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (back(), NOT_BEGUN),
        (back(returns=returned("f0")), NOT_BEGUN),
        (back(unread="p does not answer"), "p does not answer"),
        (back(running=True), "s->p leaves it out until drkit reprotect --flow 'p->s'"),
        (
            back(running=True, left_out={TOPIC: LeftOutTopic(2000, "group web has members")}),
            "s->p leaves it out until drkit reprotect --flow 'p->s': group web has members",
        ),
        (
            back(running=True, left_out={TOPIC: LeftOutTopic(500, "of before")}),
            "s->p leaves it out until drkit reprotect --flow 'p->s'",
        ),
        (
            back(running=True, returns=returned("f0")),
            "s->p leaves it out until drkit reprotect --flow 'p->s'",
        ),
        (back(running=True, returns=returned()), "s->p has no copy of it"),
        (
            back(running=True, returns=returned(), copies={TOPIC: TOPIC}, lags={TOPIC: TopicLag(9, 31.0)}),
            "s->p is not in step: more than 30 s behind",
        ),
        (
            back(running=True, returns=returned(), copies={TOPIC: TOPIC}, lags=NOT_KNOWN),
            "the lag of s->p is unknown: x",
        ),
    ],
)  # fmt: skip
def test_why_a_promoted_topic_is_not_protected(second: DirectionFacts, why: str):
    found = only(OVER, second)
    assert (found.state, found.why) == (PairState.UNPROTECTED, why)


@pytest.mark.parametrize("running", [True, False])
def test_a_return_that_needs_a_word_about_clients_says_so(*, running: bool):
    """A replicator that runs waits for it, and a flow whose topics are all promoted holds no lease."""
    by_size = replace(OVER, by_size=frozenset({TOPIC}))
    assert only(by_size, back(running=running)).why == (
        "its return has not begun, and does not begin by itself: the fence by size would be lifted;"
        " state how clients are kept away from p: drkit reprotect --flow 'p->s' --clients-cut \"HOW\""
    )
    [role] = promoted().values()
    told = replace(by_size, promoted={TOPIC: replace(role, clients_cut="listener closed")})
    assert only(told, back()).why == NOT_BEGUN
    left_out = only(by_size, back(running=running, selects=lambda _: False)).why
    assert left_out == "topics or topics_exclude of s->p leave it out"


def test_the_opposite_flow_protects_after_a_turn():
    second = back(running=True, returns=returned(), copies={TOPIC: TOPIC}, lags={TOPIC: TopicLag(3, 0.2)})
    found = only(OVER, second)
    assert (found.state, found.direction, found.records) == (PairState.PROTECTED, "s->p", 3)
    assert (found.active, found.alarm) == ("s", None)
    [line] = pair_lines(judge(OVER, second, RPO))
    assert line == ("PROTECTED", "s->p: 1 topic, lag 3 records")


@pytest.mark.parametrize("running", [True, False])
def test_a_flow_that_somebody_else_has_stopped_protects_nothing(*, running: bool):
    """The lag may be small, or the replicator away: the reason is the same."""
    way_back = back(
        running=running, copies={TOPIC: TOPIC}, returns=returned(), lags={TOPIC: COPIED},
        written={TOPIC: "orders-1 at offset 70"},
    )  # fmt: skip
    found = only(OVER, way_back)
    assert found.state is PairState.UNPROTECTED
    assert found.why == "s->p has stopped before a record of another producer on p: orders-1 at offset 70"
    forth = direction(written={TOPIC: "orders-1 at offset 70"})
    assert only(forth, back()).state is PairState.UNPROTECTED


def test_the_newest_promotion_is_told_by_the_turn_and_not_by_clocks():
    first = direction(promoted=promoted("f1", at_ms=9_000_000), running=False)
    second = back(
        running=False, copies={TOPIC: TOPIC}, promoted=promoted("r1", at_ms=1), returns=returned("f1"),
        **STANDS,
    )  # fmt: skip
    found = only(first, second)
    assert (found.active, found.direction) == ("p", "p->s")
    turned = replace(first, running=True, returns=returned("r1"), promoted={})
    assert only(turned, second).state is PairState.PROTECTED


def test_parts_of_a_flow_may_be_protected_in_different_directions():
    names = ("audit", "orders")
    first = direction(
        copies={n: n for n in names}, lags=dict.fromkeys(names, COPIED), promoted=promoted(), **STANDS
    )
    second = back(running=True, copies={TOPIC: TOPIC}, returns=returned(), lags={TOPIC: TopicLag(5, 0.1)})
    found = judge(first, second, RPO)
    assert found.state is PairState.PROTECTED
    assert [(p.direction, p.records) for p in found.parts] == [("p->s", 0), ("s->p", 5)]


def test_prefixed_copies_are_topics_of_their_own():
    first = direction(copies={"orders": "p.orders"})
    copies = {"orders": "s.orders", "p.orders": "s.p.orders"}
    second = back(running=True, copies=copies, lags=dict.fromkeys(copies, COPIED))
    found = judge(first, second, RPO)
    assert [(t.topic, t.copy, t.direction) for t in found.topics] == [
        ("orders", "p.orders", "p->s"), ("s.orders", "orders", "s->p"), ("s.p.orders", "p.orders", "s->p"),
    ]  # fmt: skip


@pytest.mark.parametrize("running", [True, False])
def test_a_pair_is_not_protected_while_a_topic_of_its_plan_has_no_copy(*, running: bool):
    new = TopicLag(None, None, "not copied", copy="bills")
    lags = {TOPIC: COPIED._replace(copy=TOPIC), "bills": new}
    pair = judge(direction(lags=lags, running=running), back(), RPO)
    assert pair.state is PairState.UNPROTECTED
    topics = {t.topic: (t.copy, t.state, t.why) for t in pair.topics}
    assert ("bills" in topics) is running, "a flow that does not run copies no other topic"
    if running:
        assert topics["bills"] == ("bills", PairState.UNPROTECTED, "p->s has no copy of it")
        assert topics[TOPIC][1] is PairState.PROTECTED
    made_by_the_way_back = back(running=True, copies={TOPIC: TOPIC, "bills": "bills"})
    assert judge(direction(lags=lags), made_by_the_way_back, RPO).state is PairState.PROTECTED


def test_two_active_sides_protect_each_other():
    found = only(direction(), back(running=True, copies={TOPIC: TOPIC}))
    assert (found.state, found.direction, found.active) == (PairState.PROTECTED, "p<->s", "")


@pytest.mark.parametrize(
    "change", [{"lags": {TOPIC: COPIED._replace(missing=700)}}, {"compacted_alone": (TOPIC,)}]
)
def test_a_copy_that_has_lost_its_beginning_protects_nothing(change: dict[str, Any]):
    found = only(direction(**change), back())
    assert (found.state, found.lacks_history) == (PairState.UNPROTECTED, True)
    assert found.why == "s has removed records that p may keep"
    returning = only(OVER, replace(way_home(), **change))
    assert returning.state is PairState.UNPROTECTED
    assert returning.why == "p has removed records that s may keep"


def way_home() -> DirectionFacts:
    return back(running=True, returns=returned(), copies={TOPIC: TOPIC}, lags={TOPIC: COPIED})


def test_what_does_not_answer_is_unknown():
    found = only(direction(silent=True), back(unread="p does not answer"))
    assert found.state is PairState.UNKNOWN
    assert found.why == "whether p was promoted is unknown: p does not answer"
    nothing = judge(DirectionFacts("p", "s", unread="x"), back(unread="y"), RPO)
    assert (nothing.state, nothing.unknown) == (PairState.UNKNOWN, ("p->s: x", "s->p: y"))
    assert pair_lines(nothing) == [("UNKNOWN", "p->s: x"), ("UNKNOWN", "s->p: y")]


def test_what_is_known_of_a_silent_cluster_has_its_time():
    first = direction(silent=True, source_noted_ms=(3000,))
    pair = judge(first, back(unread="p does not answer"), RPO)
    assert pair.silent == {"p": 3000}
    assert pair.unknown == ("p does not answer: what is known of it was noted at 1970-01-01T00:00:03Z",)
    assert pair.as_dict()["silent"] == [{"cluster": "p", "known_ms": 3000}]
    later = {TOPIC: OppositePromotionRecord(2, "f2", 7000)}
    assert judge(replace(first, opposite=later), back(unread="x"), RPO).silent == {"p": 7000}
    never = judge(direction(silent=True), back(unread="x", silent=True), RPO)
    assert never.silent == {"p": None, "s": None}
    assert never.unknown == tuple(f"{each} does not answer: it has never been noted" for each in "ps")


def test_in_a_first_round_the_record_of_fences_names_the_lost_side():
    first = DirectionFacts("p", "s", unread="s does not answer", recorded=promoted())
    found = only(first, back(silent=True))
    assert (found.state, found.active) == (PairState.UNKNOWN, "s")
    assert "drkit failover --flow 's->p' --all --accept-data-loss" in found.why
    unnamed = only(first, back(silent=True, configured=False))
    assert (unnamed.active, "drkit failover" in unnamed.why) == ("s", False), "no such flow can be typed"


def test_a_side_that_refuses_its_clients_is_not_active():
    refusing = Refusing(frozenset({TOPIC}))
    found = only(replace(OVER, silent=True, refusing=refusing), back(unread="p does not answer"))
    assert found.active == ""
    assert found.why_of(PairAlarm.BOTH_CLOSED)
    hidden = replace(OVER, silent=True, refusing=Refusing(unknown="not authorized"))
    pair = judge(hidden, back(unread="p does not answer"), RPO)
    assert pair.topics[0].active == "s"
    assert "whether s refuses clients: not authorized" in pair.unknown


@pytest.mark.parametrize(
    ("first", "second", "state", "way"),
    [
        (direction(run=RUN), back(), PairState.FAILING_OVER, "p->s"),
        (replace(OVER, run=RUN), back(), PairState.FAILING_OVER, "p->s"),
        (OVER, back(run=RUN), PairState.FAILING_BACK, "s->p"),
        (replace(OVER, run=RUN._replace(table=RETURN.name)), back(), PairState.FAILING_BACK, "s->p"),
        (
            OVER,
            back(run=RUN, returns=returned(), promoted=promoted("f9"), copies={TOPIC: TOPIC}),
            PairState.FAILING_BACK,
            "s->p",
        ),
        (replace(OVER, run=RUN._replace(topics=frozenset({"other"}))), back(), PairState.UNPROTECTED, "s->p"),
    ],
)
def test_a_run_under_way(first: DirectionFacts, second: DirectionFacts, state: PairState, way: str):
    found = only(first, second)
    assert (found.state, found.direction) == (state, way)
    if state is not PairState.UNPROTECTED:
        assert found.why == "run f9 at DRAIN"


RESUME = "drkit {0} --flow 'p->s' --resume; to roll it back: drkit {0} --flow 'p->s' --abort"


@pytest.mark.parametrize(
    ("run", "next_"),
    [
        (RUN._replace(table=RETURN.name), RESUME.format("reprotect")),
        (RUN, RESUME.format("failover")),
        (RUN._replace(has_opened=True), "drkit failover --flow 'p->s' --resume"),
        (RUN._replace(table="of a later drkit"), ""),
    ],
)
def test_a_run_that_is_held_names_what_leads_on(run: RunUnderWay, next_: str):
    """It said FAILING BACK, held, and no command."""
    held = "run f9 at DRAIN, held: a decision is missing"
    why = only(replace(OVER, run=run._replace(held="a decision is missing")), back()).why
    assert why == held + (f"; when that is cleared: {next_}" if next_ else "")
    aborting = run._replace(held="p refuses", aborting=True)
    why = only(replace(OVER, run=aborting), back()).why
    command = next_.partition(" --resume")[0]
    said = "run f9 at rolling back, last DRAIN, held: p refuses"
    assert why == said + (f"; when that is cleared: {command} --abort" if next_ else "")


FENCES_AGAIN = (
    "drkit divergence --flow 'p->s' counts what only it has, drkit fence pay --flow 'p->s' fences it again"
)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"fences": {TOPIC: FenceSeen.PENDING}}, "p answers, and is not fenced since the failover"),
        ({"fences": {TOPIC: FenceSeen.PENDING}, "silent": True}, ""),
        (
            {"fences": {TOPIC: FenceSeen.GONE}},
            f"p does not have the fence that is on record; {FENCES_AGAIN}",
        ),
        (
            {"fences": {}, "fenced_by": {"f1": "stopped"}},
            "p answers, and its fence (stopped) is not on record any more",
        ),
        (
            {"fences": {}, "fenced_by": {"f1": "debt"}},
            "p answers, and the fence that its failover left pending is not on record any more",
        ),
        ({"fences": {}, "fenced_by": {"f1": "stopped"}, "silent": True}, ""),
        ({"fences": {}, "fenced_by": {"f1": "elsewhere"}}, ""),
        ({}, ""),
    ],
)
def test_both_open(change: dict[str, Any], why: str):
    found = only(replace(OVER, **change), back())
    assert found.why_of(PairAlarm.BOTH_OPEN) == why
    assert (found.alarm is PairAlarm.BOTH_OPEN) is bool(why)
    assert found.state is PairState.UNPROTECTED, "an alarm does not hide the protection"


def test_a_side_that_is_copied_to_again_needs_no_fence():
    second = back(running=True, returns=returned(), copies={TOPIC: TOPIC}, lags={TOPIC: COPIED})
    lifted = replace(OVER, fences={TOPIC: FenceSeen.GONE})
    assert only(lifted, second).alarm is None
    begun = replace(lifted, run=RUN._replace(table=RETURN.name))
    assert only(begun, back()).alarm is None, "the return lifts the fence before it writes its record"


def test_a_new_primary_that_refuses_clients_is_both_closed_while_the_old_one_answers():
    refused = replace(OVER, refusing=Refusing(frozenset({TOPIC})))
    way_back = back(running=True, returns=returned(), copies={TOPIC: TOPIC}, lags={TOPIC: COPIED})
    found = only(refused, way_back)
    assert (found.active, found.alarms) == (
        "", ((PairAlarm.BOTH_CLOSED, "s refuses every client, and p is not the primary"),)
    )  # fmt: skip
    assert only(refused, replace(way_back, run=RUN)).alarm is None, "the run back has fenced it"


def test_a_fence_off_record_says_nothing_where_the_flow_back_is_unknown():
    fenced = replace(OVER, fences={}, fenced_by={"f1": "acl"})
    assert only(fenced, back()).alarm is PairAlarm.BOTH_OPEN
    assert only(fenced, back(unread="drkit may not read its state")).alarm is None


def test_both_closed():
    fenced = direction(**STANDS)
    [closed] = only(fenced, back()).alarms
    assert closed == (PairAlarm.BOTH_CLOSED, "the fence of p->s stands on p, and s is not promoted")
    assert only(replace(fenced, run=RUN), back()).alarm is None
    assert only(replace(fenced, runs_unknown="no right"), back()).alarm is None
    assert only(direction(fences={TOPIC: FenceSeen.GONE}), back()).alarm is None
    way_back = back(running=True, returns=returned(), copies={TOPIC: TOPIC}, lags={TOPIC: COPIED}, **STANDS)
    assert only(OVER, way_back).alarm is PairAlarm.BOTH_CLOSED


def test_what_returned_and_what_never_moved_is_one_line_of_protected_topics():
    """Both are copied by the same flow, and the sentence has no time: the same line was there twice."""
    topics = [
        PairTopic(t, t, PairState.PROTECTED, "s->p", since_ms=since, records=1)
        for t, since in (("a", 1000), ("b", None), ("c", 2000))
    ]
    said = pair_lines(PairStatus(("p", "s"), tuple(topics)))
    assert [f"{line.word} {line.text}" for line in said] == ["PROTECTED s->p: 3 topics, lag 3 records"]
    bare = [replace(t, state=PairState.UNPROTECTED) for t in topics]
    assert len(pair_lines(PairStatus(("p", "s"), tuple(bare)))) == 2, "of these the time is said"


def test_the_reason_of_a_pair_is_that_of_its_worst_topics_or_what_is_unknown():
    states = (PairState.PROTECTED, PairState.UNPROTECTED)
    topics = [PairTopic(state, state, state, why=f"why {state}") for state in states]
    assert PairStatus(("p", "s"), tuple(topics)).reason == "unprotected: why unprotected"
    assert PairStatus(("p", "s"), why="nothing was copied yet").reason == "nothing was copied yet"
    silent = PairStatus(("p", "s"), silent={"s": None})
    assert silent.reason == "s does not answer: it has never been noted"
    assert PairStatus(("p", "s")).reason == "it has no topics"
