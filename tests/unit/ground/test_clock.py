"""A clock that jumps: by an hour, in either direction, between any two questions."""

from __future__ import annotations

from drkit.clock import steady
from drkit.config import ClusterSettings, FlowSettings
from drkit.failover.core.context import Context
from drkit.offsets.mm2_records import Heartbeat
from drkit.status.heartbeat_tail import HeartbeatTail
from drkit.wire import Record

HOUR_MS = 3_600_000


class Clocks:
    """A machine whose wall clock can be set; `seconds` passes independently."""

    def __init__(self) -> None:
        self.seconds, self.wrong_ms = 0.0, 0

    def wall(self) -> int:
        return 1_700_000_000_000 + round(self.seconds * 1000) + self.wrong_ms

    def boot(self) -> float:
        return self.seconds


def test_what_a_failover_subtracts_does_not_jump():
    clocks = Clocks()
    wall = steady(clocks.wall, clocks.boot)
    began = wall()
    assert began == clocks.wall()
    for wrong in (-HOUR_MS, HOUR_MS, 0):
        clocks.wrong_ms = wrong
        before = wall()
        clocks.seconds += 60.0
        assert wall() - before == 60_000
    assert wall() - began == 180_000
    made = Context.__dataclass_fields__["wall"].default_factory
    assert made is steady, "the wall clock of a failover"


def test_a_clock_that_was_set_back_makes_no_heartbeat_fresh():
    """It would be of this moment for an hour, although none comes any more."""
    clocks = Clocks()
    flow = FlowSettings(source="a", target="b", topics=("t",))
    tail = HeartbeatTail(ClusterSettings(alias="b", bootstrap_servers="b:1"), flow, clocks.wall)
    beat = Heartbeat("a", "b", clocks.wall())
    tail._take(Record(0, 0, beat.key, beat.value))
    clocks.seconds += 60.0
    found = tail.newest()
    assert found is not None
    assert found.age_seconds == 60.0
    clocks.wrong_ms = -HOUR_MS
    assert tail.newest() is None
    clocks.wrong_ms = HOUR_MS
    found = tail.newest()
    assert found is not None
    assert found.age_seconds == 3660.0


def test_an_old_heartbeat_of_another_writer_looks_like_a_slow_copy():
    """Only drkit may write there: heartbeats carry no MAC."""
    clocks = Clocks()
    flow = FlowSettings(source="a", target="b", topics=("t",))
    tail = HeartbeatTail(ClusterSettings(alias="b", bootstrap_servers="b:1"), flow, clocks.wall)
    tail._caught_up = True
    for age_ms, delay in ((0, 0.0), (HOUR_MS, 3600.0)):
        beat = Heartbeat("a", "b", clocks.wall() - age_ms)
        tail._take(Record(0, 0, beat.key, beat.value))
        found = tail.newest()
        assert found is not None
        assert (found.age_seconds, found.delay_seconds) == (0.0, delay)
