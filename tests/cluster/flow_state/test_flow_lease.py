"""One run per flow, on a real broker: two holders, a dead one, a silent one, a fenced one."""

from __future__ import annotations

from collections.abc import Iterator
import os
import subprocess
import sys
import time
import uuid

import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import Refused
from drkit.flow_state import processes
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.lease.run_lease import FlowLease, LeaseLost, LeaseTaken
from drkit.flow_state.lease.turn import LeaseAvailability
from drkit.flow_state.records import LeaseRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.flow_state.held_elsewhere import TTL, elsewhere
from tests.support.stored import read_on, stored
from tests.support.waiting import eventually


@pytest.fixture
def settings(target: LocalCluster) -> ClusterSettings:
    return ClusterSettings(alias="b", bootstrap_servers=target.bootstrap())


@pytest.fixture
def flow(settings: ClusterSettings) -> FlowSettings:
    found = FlowSettings(source=f"a{uuid.uuid4().hex[:8]}", target="b", buckets=1)
    ensure_state_topic(Cluster.connect(settings), found)
    return found


@pytest.fixture
def state(settings: ClusterSettings, flow: FlowSettings) -> Iterator[StateTopic]:
    with StateTopic(settings, flow.source) as found:
        yield found


def test_a_renewal_that_is_asked_for_comes_at_once_each_time(settings, flow, state):
    """A task that Spark has started again writes only once it has seen one."""
    lease = FlowLease(settings, flow, state, "mine", 3600.0)
    lease.acquire()
    known = eventually(lambda: read_on(state).get(LeaseRecord.KEY), what="the lease record")["renewed_ms"]

    def renewed() -> int | None:
        state.load()
        now: int = stored(state)[LeaseRecord.KEY]["renewed_ms"]
        return now if now > known else None

    for _ in range(2):
        lease.renew_soon()
        known = eventually(renewed, what="the renewal that was asked for")
    lease.release()


def test_a_free_lease_is_taken_renewed_and_given_back(settings, flow, state):
    lease = FlowLease(settings, flow, state, "mine", TTL)
    lease.acquire()
    first = eventually(lambda: read_on(state).get(LeaseRecord.KEY), what="the lease record")
    assert first["run_id"] == "mine"
    assert first["pid"] == os.getpid()

    def renewed() -> bool:
        state.load()
        return bool(stored(state)[LeaseRecord.KEY]["renewed_ms"] > first["renewed_ms"])

    eventually(renewed, what="a renewal")
    lease.check()
    lease.release()
    eventually(lambda: LeaseRecord.KEY not in read_on(state), what="the end of the lease")


def test_a_second_run_is_refused_and_the_holder_named(settings, flow, state):
    lease = FlowLease(settings, flow, state, "first", TTL)
    lease.acquire()
    with StateTopic(settings, flow.source) as other, pytest.raises(Refused) as refused:
        FlowLease(settings, flow, other, "second", TTL).acquire()
    assert refused.value.exit_code == 3
    assert f"process {os.getpid()}" in refused.value.where
    assert "run first" in refused.value.evidence
    lease.check()
    lease.release()


def test_a_holder_on_another_host_that_still_renews_is_left_alone(settings, flow, state, monkeypatch):
    lease = FlowLease(settings, flow, state, "first", TTL)
    lease.acquire()
    # What this machine cannot look at, it must watch.
    monkeypatch.setattr(processes, "_pid_space", lambda: "another machine")
    with StateTopic(settings, flow.source) as other, pytest.raises(Refused, check=coded("lease_held")):
        FlowLease(settings, flow, other, "second", TTL).acquire()
    lease.release()


def test_a_dead_process_of_this_host_is_succeeded_at_once(settings, flow, state):
    code = (
        "import sys, os\n"
        "from drkit.config import ClusterSettings, FlowSettings\n"
        "from drkit.flow_state.lease.run_lease import FlowLease\n"
        "from drkit.flow_state.topic import StateTopic\n"
        "c = ClusterSettings(alias='b', bootstrap_servers=sys.argv[1])\n"
        "f = FlowSettings(source=sys.argv[2], target='b', buckets=1)\n"
        "FlowLease(c, f, StateTopic(c, f.source), 'dead', 600.0).acquire()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, settings.bootstrap_servers, flow.source], check=False, timeout=60
    )
    assert done.returncode == -9
    state.load()
    assert stored(state)[LeaseRecord.KEY]["run_id"] == "dead"

    began = time.monotonic()
    lease = FlowLease(settings, flow, state, "heir", TTL)
    lease.acquire()
    assert time.monotonic() - began < 10  # not the 600 s of its lease
    lease.release()


@pytest.mark.wide
def test_a_silent_holder_elsewhere_is_succeeded_after_its_time(settings, flow, state):
    elsewhere(state)
    began = time.monotonic()
    lease = FlowLease(settings, flow, state, "heir", TTL)
    lease.acquire()
    assert time.monotonic() - began >= TTL
    lease.release()


def test_waiting_for_a_silent_holder_can_be_cancelled(settings, flow, state):
    elsewhere(state)
    with pytest.raises(LeaseLost, check=coded("lease_wait_cancelled")):
        FlowLease(settings, flow, state, "heir", TTL).acquire(lambda: True)


def test_a_fenced_holder_knows_it_and_leaves_the_new_lease_alone(settings, flow, state):
    old = FlowLease(settings, flow, state, "old", TTL)
    old.acquire()
    with StateTopic(settings, flow.source) as other:
        new = FlowLease(settings, flow, other, "new", TTL)

        # As after a long pause, in which the new run could not see the old one renew.
        def took() -> bool:
            new.look()
            try:
                new.take(LeaseAvailability.OVER)
            except LeaseTaken:  # it renewed between the two
                return False
            return True

        eventually(took, what="the new one's lease")

        eventually(lambda: old.lost is not None, what="the old holder's notice")
        with pytest.raises(LeaseTaken) as lost:
            old.check()
        assert lost.value.exit_code == 3
        old.release()
        # A commit is answered before its marker shows the record to readers.
        eventually(lambda: read_on(other)[LeaseRecord.KEY]["run_id"] == "new")
        new.release()


def test_the_same_run_takes_its_lease_back(settings, flow, state):
    elsewhere(state, run_id="mine")
    began = time.monotonic()
    lease = FlowLease(settings, flow, state, "mine", 600.0)
    lease.acquire()
    assert time.monotonic() - began < 10
    lease.release()


def test_of_two_that_want_a_lease_at_once_one_has_it_and_the_other_takes_nothing(settings, flow, state):
    """The second judged before the first wrote: it has fenced the first, and leaves it the lease."""
    first = FlowLease(settings, flow, state, "first", TTL)
    with StateTopic(settings, flow.source) as other:
        second = FlowLease(settings, flow, other, "second", TTL)
        assert (first.look(), second.look()) == (LeaseAvailability.FREE, LeaseAvailability.FREE)
        first.take(LeaseAvailability.FREE)
        with pytest.raises(LeaseTaken) as faster:
            second.take(LeaseAvailability.FREE)
        assert "held by run first" in faster.value.evidence
        before = read_on(other)[LeaseRecord.KEY]["renewed_ms"]
        eventually(
            lambda: read_on(other)[LeaseRecord.KEY]["renewed_ms"] > before, what="a renewal by the first"
        )
        assert stored(other)[LeaseRecord.KEY]["run_id"] == "first"
        first.check()
        first.release()
