"""What holds for every pair, whatever the facts are. No clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from drkit.flow_state.records import IncompleteRecord, UnreplayedRecord
from drkit.flow_state.unreplayed import Unreplayed
from drkit.journal.machine import RETURN
from drkit.pair.view import FenceSeen
from drkit.status.pair.facts import DirectionFacts, TopicLag
from drkit.status.pair.judge import deltas_of, judge
from drkit.status.pair.model import EXPOSED, PairAlarm, PairState, PairTopic
from tests.support.status.pair_facts import COPIED, RPO, RUN, TOPIC, promoted, returned

LEFT = Unreplayed(TOPIC, "r1-5a", UnreplayedRecord("r1", 1, 2, "/saved/manifest.json", "5a", "replay"))
facts = st.builds(
    DirectionFacts,
    st.just("p"), st.just("s"), configured=st.booleans(), unread=st.sampled_from(["", "no answer"]),
    silent=st.booleans(), running=st.booleans(),
    copies=st.sampled_from([{}, {TOPIC: TOPIC}, {TOPIC: TOPIC, "audit": "audit"}]),
    promoted=st.one_of(st.just({}), st.builds(
        promoted, st.sampled_from(["a1", "a2"]), st.integers(0, 9), planned=st.booleans())),
    returns=st.one_of(st.just({}), st.builds(returned, st.sampled_from(["a1", "a2", "b1", "b2"]))),
    fences=st.one_of(st.just({}), st.builds(lambda f: {TOPIC: f}, st.sampled_from(list(FenceSeen)))),
    lags=st.sampled_from(
        [None, {}, {TOPIC: COPIED}, {TOPIC: TopicLag(None, None)}, {TOPIC: TopicLag(1, 99.0)},
         {TOPIC: TopicLag(1, 99.0, "", 7, (0.0, 99.0))}, {TOPIC: COPIED._replace(missing=5)}]),
    compacted_alone=st.sampled_from([(), (TOPIC,)]),
    not_noted=st.sampled_from([frozenset(), frozenset({TOPIC})]),
    incomplete=st.sampled_from([{}, {TOPIC: IncompleteRecord("r1", 1, {0: 5})}]),
    unreplayed=st.sampled_from([{}, {TOPIC: (LEFT,)}]),
    run=st.sampled_from([None, RUN, RUN._replace(table=RETURN.name)]),
)  # fmt: skip


def opposite(found: DirectionFacts) -> DirectionFacts:
    named = {t: replace(r, run_id=r.run_id.replace("a", "b")) for t, r in found.promoted.items()}
    return replace(found, source="s", target="p", promoted=named)


@given(facts, facts.map(opposite))
def test_from_both_flows_of_a_pair_the_same_is_seen(first: DirectionFacts, second: DirectionFacts):
    if (role := first.promoted.get(TOPIC)) and (other := second.promoted.get(TOPIC)):
        second = replace(second, promoted={TOPIC: replace(other, at_ms=role.at_ms + 1)})
    one, two = judge(first, second, RPO), judge(second, first, RPO)
    assert one.clusters == two.clusters
    if first.run and second.run:
        return  # two runs at once: each side names its own
    assert {t.topic: _said(t) for t in one.topics} == {t.copy: _said(t) for t in two.topics}


def _said(topic: PairTopic) -> tuple[Any, ...]:
    way = "both" if "<->" in topic.direction else topic.direction
    return topic.state, way, topic.active, topic.since_ms, topic.alarms


@given(facts, facts.map(opposite))
def test_protected_is_said_only_of_a_running_copy_in_step(first: DirectionFacts, second: DirectionFacts):
    for topic in judge(first, second, RPO).topics:
        if topic.state is not PairState.PROTECTED:
            continue
        ways = [f for f in (first, second) if f.name == topic.direction or "<->" in topic.direction]
        assert ways
        for flow in ways:
            assert flow.running
            assert not flow.silent
            assert not flow.unread
            assert topic.topic in flow.copies
            assert topic.topic not in flow.not_noted
            assert not flow.lacks_history(topic.topic)
            lag = (flow.lags or {}).get(topic.topic)
            assert lag is None or (lag.seconds is not None and lag.seconds <= RPO)
        if topic.since_ms is not None:
            [way] = ways
            other = second if way is first else first
            assert way.returns[topic.topic].promoted_by == other.promoted[topic.topic].run_id


@given(facts, facts.map(opposite))
def test_closed_is_said_only_without_a_run(first: DirectionFacts, second: DirectionFacts):
    for topic in judge(first, second, RPO).topics:
        if topic.why_of(PairAlarm.BOTH_CLOSED):
            assert (first.run, second.run, first.unread, second.unread) == (None, None, "", "")


@given(facts, facts.map(opposite))
def test_a_delta_is_that_of_the_newest_promotion(first: DirectionFacts, second: DirectionFacts):
    pair = judge(first, second, RPO)
    mine, other = deltas_of(pair, first, is_first=True), deltas_of(pair, second, is_first=False)
    open_ended = {t for t in pair.topics if t.state in EXPOSED and t.since_ms is not None}
    assert {d.topic for d in (*mine.values(), *other.values())} == open_ended
    for flow, found in ((first, mine), (second, other)):
        for delta in found.values():
            assert delta.topic.active == flow.target
            assert delta.topic.since_ms == delta.role.at_ms
