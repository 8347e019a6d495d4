"""What the pair adds to the faults of a flow, and takes from them. No clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drkit.status.faults import with_pair
from drkit.status.pair.facts import FenceSeen
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


def test_a_flow_that_never_failed_over_keeps_its_own_faults_only():
    stopped = judge(direction(running=False), back(configured=False), RPO)
    assert stopped.state is PairState.UNPROTECTED
    assert codes(with_pair(status("stopped", "not_running"), stopped)) == ["not_running"]


@pytest.mark.parametrize("used", [0.49, 0.5, 1.0])
def test_half_of_the_time_is_a_fault(used: float):
    [topic] = judge(OVER, back(), RPO).topics
    due = replace(topic, delta=DeltaBound(10_000, "retention.ms", used))
    found = with_pair(status("promoted"), PairStatus(("p", "s"), (due,)))
    assert ("delta_ends" in codes(found)) is (used >= 0.5)
    ends = "may not be whole since" if used == 1 else "whole until"
    assert f"delta {ends} 1970-01-01T00:00:10Z (orders: retention.ms" in found.faults[0].text
