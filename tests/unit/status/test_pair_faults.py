"""What the pair adds to the faults of a flow, and takes from them. No clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drkit.pair.view import FenceSeen, Refusing
from drkit.status.faults import faults_of, with_pair, without_passive
from drkit.status.model import Findings, PartitionStatus
from drkit.status.pair.facts import DirectionFacts, TopicLag
from drkit.status.pair.judge import judge
from drkit.status.pair.model import DeltaBound, PairState, PairStatus
from tests.support.status.pair_facts import (
    COPIED,
    OVER,
    RPO,
    TOPIC,
    back,
    codes,
    direction,
    returned,
    status,
)


def test_alarms_are_the_first_faults_and_protection_the_last():
    first = replace(OVER, fences={TOPIC: FenceSeen.PENDING})
    found = with_pair(status("promoted", "fence_owed"), judge(first, back(), RPO))
    assert codes(found) == ["both_open", "fence_owed", "unprotected"]
    assert "since 1970-01-01T00:00:01Z, 1 topic (orders), active on s" in found.faults[-1].text
    assert found.as_dict()["pair"]["alarms"] == ["both_open"]


def test_a_flow_that_the_opposite_one_relieves_has_no_fault():
    second = back(running=True, returns=returned(), copies={TOPIC: TOPIC}, lags={TOPIC: COPIED})
    still = status("promoted", "not_running", "heartbeat_stale", "source_unreachable")
    assert codes(with_pair(still, judge(OVER, second, RPO))) == ["source_unreachable"]
    waiting = with_pair(still, judge(OVER, back(), RPO))
    assert codes(waiting) == ["not_running", "heartbeat_stale", "source_unreachable", "unprotected"]


QUARANTINE, ALONE = "orders.divergent.31", "made-since"


def found_on_old_primary(*topics: str) -> Findings:
    """What the promoted flow finds on its source: topics that it has no copy of."""
    lags = [PartitionStatus(t, t, 0, 0, 131, None, 131, 131, 99.0) for t in (TOPIC, *topics)]
    more: dict[str, Any] = {"promoted": (TOPIC,), "taken_over": True, "left_out": topics}
    return Findings(5000, 5000, source_seen_ms=5000, beats_expected=False, partitions=lags, **more)


def way_back(*topics: str, **facts: Any) -> DirectionFacts:
    names = (TOPIC, *topics)
    usual = {"running": True, "returns": returned(), "lags": dict.fromkeys(names, COPIED)}
    return back(copies={n: n for n in names}, **usual | facts)


def judged(found: Findings, second: DirectionFacts) -> tuple[list[str], list[str]]:
    """The codes of the promoted flow's faults, and the topics of which it has a lag."""
    pair = judge(OVER, second, RPO)
    own = without_passive(found, pair, "s")
    at_risk = [p for p in own.partitions if p.topic not in own.promoted]
    faults = faults_of(own, at_risk, rpo_seconds=RPO, interval_seconds=1.0)
    seen = with_pair(status("promoted", *(f.code for f in faults)), pair)
    return codes(seen), [p.topic for p in own.partitions]


def test_a_topic_that_the_flow_back_has_made_is_no_fault_of_the_promoted_flow():
    """The quarantine topic of a return was never promoted."""
    assert judged(found_on_old_primary(QUARANTINE), way_back(QUARANTINE)) == ([], [])


def test_a_promoted_topic_has_no_lag_in_the_old_direction():
    """The old primary was emptied, and copied again: its offsets are not those of the copies any more."""
    assert judged(found_on_old_primary(), way_back())[1] == []
    assert judged(found_on_old_primary(), back())[1] == []


def test_a_topic_that_no_flow_copies_stays_a_fault_of_a_promoted_flow():
    faults, lags = judged(found_on_old_primary(QUARANTINE, ALONE), way_back(QUARANTINE))
    assert (faults, lags) == (["rpo_exceeded", "topics_left_out"], [ALONE])


@pytest.mark.parametrize("lags", [{TOPIC: COPIED, QUARANTINE: TopicLag(9, 99.0)}, None])
def test_a_topic_that_the_flow_back_does_not_keep_in_step_is_not_protected(lags: dict[str, TopicLag] | None):
    second = way_back(QUARANTINE, lags=lags, running=lags is not None)
    faults, _ = judged(found_on_old_primary(QUARANTINE), second)
    assert {"not_running", "topics_left_out"} <= set(faults)


def test_a_flow_that_never_failed_over_keeps_its_own_faults_only():
    stopped = judge(direction(running=False), back(configured=False), RPO)
    assert stopped.state is PairState.UNPROTECTED
    assert codes(with_pair(status("stopped", "not_running"), stopped)) == ["not_running"]


@pytest.mark.parametrize(
    "hidden",
    [{"runs_unknown": "not authorized"}, {"refusing": Refusing(unknown="x")}, {"unread": "younger"}],
)
def test_what_cannot_be_read_although_both_clusters_answer_is_a_fault(hidden: dict[str, Any]):
    found = with_pair(status("replicating"), judge(replace(direction(), **hidden), back(), RPO))
    assert (found.health, codes(found)) == ("fault", ["pair_unknown"])
    away = replace(direction(), silent=True)
    assert codes(with_pair(status("replicating"), judge(away, back(unread="p does not answer"), RPO))) == []


@pytest.mark.parametrize("used", [0.49, 0.5, 1.0])
def test_half_of_the_time_is_a_fault(used: float):
    [topic] = judge(OVER, back(), RPO).topics
    due = replace(topic, delta=DeltaBound(10_000, "retention.ms", used))
    found = with_pair(status("promoted"), PairStatus(("p", "s"), (due,)))
    assert ("delta_ends" in codes(found)) is (used >= 0.5)
    ends = "may not be whole since" if used == 1 else "whole until"
    assert f"delta {ends} 1970-01-01T00:00:10Z (orders: retention.ms" in found.faults[0].text
