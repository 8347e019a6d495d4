"""Whose vote counts, and what a majority is."""

from __future__ import annotations

from dataclasses import replace
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.detect.seen import Sight
from drkit.detect.votes import Heard, Says, Vote, VoteRules, quorum, tally, why_not
from drkit.flow_state.codec.fields import Malformed

WALL = 1_700_000_000_000
RULES = VoteRules(ttl=5.0, clock_margin=2.0, observers=3)
OWN = Vote("own", "r0", 1, WALL, Sight.GONE, abstained_seconds=30.0)


def heard(name: str, sight: Sight = Sight.GONE, *, age: float = 0.5, live: bool = True, late_ms: int = 50,
          **more: Any) -> Heard:  # fmt: skip
    vote = Vote(name, more.pop("run", "r1"), more.pop("sequence", 1), WALL, sight, **more)
    return Heard(vote, 100.0 - age, WALL + late_ms, live)


def count(*votes: Heard, own: Vote = OWN, rules: VoteRules = RULES) -> Any:
    return tally(own, votes, 100.0, rules)


def test_a_majority_of_three():
    found = count(heard("b"), heard("c", Sight.BLIND))
    assert (found.gone, found.unsure, found.quorum, found.is_decided) == (("b", "own"), ("c",), 2, True)


def test_alone_of_three_is_no_quorum():
    assert not count().is_decided
    assert not count(heard("b", Sight.FADING), heard("c", Sight.WRONG)).is_decided


@pytest.mark.parametrize("sight", [Sight.CLEAR, Sight.PARTIAL, Sight.FEW, Sight.REFUSING])
def test_who_gets_any_answer_sees_it_alive(sight: Sight):
    assert count(heard("b"), heard("c", sight)).alive == ("c",)


def test_alone_where_no_other_is_configured():
    assert count(rules=RULES._replace(observers=1)).is_decided


def test_who_only_looks_on_changes_nothing():
    """Its own view counts only where too few observers are heard."""
    one, three = RULES._replace(observers=1), RULES
    watcher = heard("w", abstained_seconds=9.0)
    for rules, votes, gone in (
        (one, [watcher], ("w",)),
        (one, [], ("own",)),
        (three, [heard("b"), heard("c", Sight.CLEAR), watcher], ("b", "w")),
        (three, [watcher], ("own", "w")),
    ):
        found = tally(OWN, votes, 100.0, rules, votes=False)
        assert found.gone == gone
        assert found.abstained_seconds is not None
        assert found.quorum == quorum(rules.observers)
    assert tally(OWN, [watcher], 100.0, one, votes=False).abstained_seconds == 9.0


def test_more_observers_than_are_configured_are_said():
    said = count(heard("b"), rules=RULES._replace(observers=1)).in_words()
    assert said[:2] == (
        "2 of 2 observers say gone, 3 are needed",
        "watch.observers = 1, but 2 vote: correct it, or stop the others",
    )
    assert "watch.observers" not in "".join(count(heard("b")).in_words())


def test_two_observers_cannot_decide():
    assert not count(heard("b"), rules=RULES._replace(observers=2)).is_decided
    # Nor when only one was configured and a second turns up.
    assert not count(heard("b"), rules=RULES._replace(observers=1)).is_decided


@pytest.mark.parametrize(
    ("vote", "why"),
    [
        (heard("b", age=6.0), "6.0 s ago"),
        (heard("b", live=False), "before we listened"),
        (heard("b", late_ms=60_000), "60.0 s on its way"),
        (heard("b", late_ms=-3_000), "3.0 s ahead"),
    ],
)
def test_stale_votes_do_not_count(vote: Heard, why: str):
    found = count(vote)
    assert found.gone == ("own",)
    assert why in found.ignored[0]
    assert not found.is_decided


def test_clocks_may_differ_within_the_margin():
    assert not why_not(heard("b", late_ms=-1_900), 100.0, RULES)
    assert not why_not(heard("b", late_ms=6_900), 100.0, RULES)


def test_an_observer_votes_once():
    assert not count(heard("own"), heard("own")).is_decided
    before = heard("b", Sight.CLEAR, age=2.0, run="an earlier process", sequence=99)
    assert count(before, heard("b")).gone == ("b", "own")
    assert count(heard("b"), before).gone == ("b", "own")


def test_a_slower_topic_brings_nothing_back():
    newer, late = heard("b", sequence=7, age=1.0), heard("b", Sight.CLEAR, sequence=6, age=0.1)
    assert count(newer, late).gone == count(late, newer).gone == ("b", "own")


def test_who_renewed_a_lease_last():
    found = count(heard("b", abstained_seconds=12.0), heard("c", Sight.BLIND, abstained_seconds=1.0))
    assert found.abstained_seconds == 12.0


def test_a_vote_reads_back():
    vote = replace(OWN, evidence=("x", "y"), phi=9.5, quiet_seconds=None, renews={"dc1": 7}, alive_ms=WALL)
    assert Vote.of(json.loads(json.dumps(vote.to_json()))) == vote


@pytest.mark.parametrize("raw", [{}, {"observer": "x"}, {**OWN.to_json(), "sight": "perhaps"},
                                 {**OWN.to_json(), "renews": 7}])  # fmt: skip
def test_what_is_no_vote_is_refused(raw: dict[str, Any]):
    with pytest.raises(Malformed):
        Vote.of(raw)


@given(st.integers(1, 50))
def test_two_quorums_share_an_observer(observers: int):
    assert observers == 2 or quorum(observers) <= observers
    assert 2 * quorum(observers) > observers


SIGHTS = st.sampled_from(sorted(Sight))
VOTES = st.lists(
    st.builds(
        heard, st.sampled_from("abcdefgh"), SIGHTS, age=st.floats(0, 10), live=st.booleans(),
        late_ms=st.integers(-5000, 10_000),
    ),
    max_size=8,
)  # fmt: skip


def test_where_two_are_configured_a_third_that_votes_decides_nothing():
    found = count(heard("b"), heard("c"), rules=RULES._replace(observers=2))
    assert (len(found.gone), found.is_decided) == (3, False)
    assert "watch.observers = 2, but 3 vote" in " ".join(found.in_words())


@given(VOTES, st.integers(1, 9))
def test_never_decided_without_a_fresh_majority(votes: list[Heard], observers: int):
    found = count(*votes, rules=RULES._replace(observers=observers))
    fresh = {h.vote.observer for h in votes if not why_not(h, 100.0, RULES)}
    assert set(found.gone) <= fresh | {"own"}
    if found.is_decided:
        assert observers != 2
        assert 2 * len(found.gone) > observers


@given(VOTES, st.integers(1, 9))
def test_a_vote_more_against_it_never_unsays_the_decision(votes: list[Heard], observers: int):
    rules = RULES._replace(observers=observers)
    before = count(*votes, rules=rules)
    missing = [n for n in "abcdefgh" if n not in {h.vote.observer for h in votes}]
    if before.is_decided and missing and observers >= 3:
        after = count(*votes, heard(missing[0]), rules=rules)
        assert after.is_decided or len(after.gone) > observers
    assert all(before.gone.count(n) == 1 for n in before.gone)
    assert set(before.alive).isdisjoint(before.gone)
    assert Says.GONE is OWN.says
