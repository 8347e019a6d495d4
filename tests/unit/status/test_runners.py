"""What the status says of those that wait for a flow's lease."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drkit.flow_state.processes import this_process
from drkit.flow_state.records import LeaseRecord, Process, StandbyRecord
from drkit.status.runners import runner_of, standbys_of
from tests.support.stored import flow_state

NOW = 1_000_000
AWAY = Process("another-host", 7, "elsewhere", 1)
DEAD = replace(this_process(), born=1)


@pytest.mark.parametrize(
    ("process", "age_ms", "said", "shown"),
    [
        (AWAY, 4_000, "", ""),
        (AWAY, 4_000, "Spark is starting", "Spark is starting"),
        (AWAY, 16_000, "", "gone"),
        (this_process(), 16_000, "", "no note from it for 16 s"),
        (DEAD, 1_000, "", "gone"),
    ],
    ids=["ready", "not ready", "silent elsewhere", "suspended here", "killed here"],
)
def test_one_is_ready_when_it_says_so_and_lives(process: Process, age_ms: int, said: str, shown: str):
    record = StandbyRecord(process, NOW - 60_000, NOW - age_ms, 15_000, not said, said)
    (found,) = standbys_of(flow_state({"standby/r1": record.to_json()}), NOW)
    assert (found.ready, found.reason) == (not shown, shown)
    assert (found.host, found.process, found.run_id) == (process.host, process.pid, "r1")


def test_the_holder_is_no_standby():
    """It deletes what it said while it waited a moment after it took the lease."""
    lease = LeaseRecord("r1", AWAY, NOW, 15_000, 4711)
    waits = StandbyRecord(AWAY, NOW, NOW, 15_000, ready=True, reason="")
    state = flow_state(
        {"lease": lease.to_json(), "standby/r1": waits.to_json(), "standby/r2": waits.to_json()}
    )
    assert [s.run_id for s in standbys_of(state, NOW)] == ["r2"]
    runner = runner_of(state, NOW)
    assert runner is not None
    assert runner.run_id == "r1"
