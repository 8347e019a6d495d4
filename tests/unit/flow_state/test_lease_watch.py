"""Whether a replicator of another machine lives: by renewals that are seen, not by its clock."""

from __future__ import annotations

import pytest

from drkit.flow_state.lease.watch import LeaseWatch, replicator_of
from drkit.flow_state.records import LeaseRecord, Process
from drkit.flow_state.state import FlowState
from tests.support.stored import flow_state

NOW = 1_000_000_000


def lease(renewed_ms: int, host: str = "elsewhere") -> FlowState:
    record = LeaseRecord("run", Process(host, 1, "other boot", 5), renewed_ms, 15_000)
    return flow_state({LeaseRecord.key(): record.to_json()})


@pytest.mark.parametrize("off_ms", [-3_600_000, 0, 3_600_000], ids=["an hour slow", "right", "an hour fast"])
def test_one_that_renews_lives_whatever_its_clock_says(off_ms: int):
    watch = LeaseWatch()
    for second in range(0, 60, 5):
        state = lease(NOW + second * 1000 + off_ms)
        found = watch.look(state, NOW + second * 1000, float(second))
        assert found is not None
        assert found.alive
    by_clock = replicator_of(state, NOW + 55_000)
    assert by_clock is not None
    assert by_clock.alive is (off_ms >= 0), "the clock alone is wrong"


@pytest.mark.parametrize(("off_ms", "until"), [(-3_600_000, 6), (3_600_000, 15)], ids=["old", "fresh"])
def test_one_that_is_gone_is_known_after_a_while(off_ms: int, until: int):
    watch, state = LeaseWatch(), lease(NOW + off_ms)
    alive = [s for s in range(40) if (f := watch.look(state, NOW + s * 1000, float(s))) and f.alive]
    assert alive == list(range(until))
    assert watch.look(flow_state({}), NOW, 1.0) is None
