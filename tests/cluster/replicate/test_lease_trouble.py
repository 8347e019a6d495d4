"""A lease whose record cannot be seen, or cannot be given back, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
import threading
from typing import cast
import uuid

from confluent_kafka import KafkaException
import pytest

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import Failed
from drkit.flow_state import processes
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.lease.run_lease import FlowLease, LeaseLost
from drkit.flow_state.lease.turn import LeaseAvailability
from drkit.flow_state.names import sole_transactional_id
from drkit.flow_state.records import LeaseRecord, StandbyRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from drkit.replicate.epochs import EpochLoop, Epochs
from drkit.replicate.standby import Standby
from drkit.spark.session import SharedSpark
from tests.support.errors import coded
from tests.support.flow_state.held_elsewhere import TTL, elsewhere
from tests.support.flows.produce import producer, put
from tests.support.spark.job_world import World
from tests.support.stored import read_on
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


@contextmanager
def hiding(settings: ClusterSettings, state: StateTopic, name: str) -> Iterator[None]:
    """What is written to the state meanwhile is hidden behind an open transaction."""
    out = producer(settings, transactional_id=name)
    out.init_transactions(30)
    out.begin_transaction()
    put(out, state.name, b"{}", b"later/kind")
    out.flush(30)
    yield
    with suppress(KafkaException):  # it may have been fenced
        out.abort_transaction(30)


def test_a_run_takes_its_lease_back_from_a_renewal_of_its_own_that_is_still_open(settings, flow, state):
    """As after a commit that was not answered: the process of that record lives, and is this one."""
    state.put(LeaseRecord("mine", processes.this_process(), wall_ms(), 600_000))
    with hiding(settings, state, sole_transactional_id(flow.source, flow.target, "lease")):
        lease = FlowLease(settings, flow, state, "mine", TTL)
        lease.acquire()
        lease.check()
        lease.release()


def test_who_waits_for_a_lease_that_cannot_be_seen_says_why(settings, flow, state):
    elsewhere(state)
    with hiding(settings, state, uuid.uuid4().hex):
        with pytest.raises(LeaseLost, check=coded("lease_unknown")) as lost:
            FlowLease(settings, flow, state, "heir", 0.5).acquire()
        assert "hanging transactions" in lost.value.hint


@pytest.mark.wide
def test_a_standby_that_cannot_see_who_holds_the_lease_is_not_ready(source, target, tmp_path):
    world = World(source, target, SharedSpark(tmp_path))
    job = world.job(lease_seconds=3.0)
    ensure_state_topic(world.target, job.flow)
    with StateTopic(world.clusters[1], job.flow.source) as state:
        elsewhere(state)
        lease = FlowLease(world.clusters[1], job.flow, state, "heir")
        waits = threading.Thread(
            target=Standby(job.flow, world.clusters, world.workshop, state, lease).wait, args=(world.stop,)
        )

        def said() -> str:
            found = state.get(StandbyRecord, "heir")
            return found.reason if found is not None else ""

        with hiding(world.clusters[1], state, uuid.uuid4().hex):
            waits.start()
            eventually(lambda: "open transaction" in said(), what="its reason")
        eventually(lambda: "open transaction" not in said(), what="the end of its reason")
        world.stop.set()
        waits.join()


def test_who_could_not_look_again_after_fencing_the_holder_gives_nothing_back(settings, flow, state):
    elsewhere(state)
    with StateTopic(settings, flow.source) as closed:
        lease = FlowLease(settings, flow, closed, "heir", TTL)
        assert lease.look() is LeaseAvailability.HELD
    with pytest.raises(Failed, check=coded("own_topic_unreadable")):
        lease.take(LeaseAvailability.OVER)
    lease.release()
    assert read_on(state)[LeaseRecord.KEY]["run_id"] == "theirs"


def test_a_lease_that_is_left_is_neither_renewed_nor_given_back(settings, flow, state):
    lease = FlowLease(settings, flow, state, "mine", TTL)
    lease.acquire()
    lease.leave()
    renewer = f"lease {flow.name}"
    eventually(lambda: renewer not in {t.name for t in threading.enumerate()}, what="the end of renewals")
    assert read_on(state)[LeaseRecord.KEY]["run_id"] == "mine"


def test_the_state_says_that_it_was_closed_and_does_not_end_the_thread_that_asks(settings, flow):
    with StateTopic(settings, flow.source) as closed:
        closed.load()
    with pytest.raises(Failed, check=coded("own_topic_unreadable")) as unreadable:
        closed.load()
    assert unreadable.value.evidence == "it was closed"


def test_a_flow_whose_tasks_do_not_end_renews_its_lease_no_longer(source, target, tmp_path, monkeypatch):
    """Renewed without an end it would keep every other run from a flow that this one no longer copies."""
    world = World(source, target, SharedSpark(tmp_path))
    job = world.job()
    job.cut = EpochLoop(world.workshop, cast("Epochs", None), world.clusters, job.flow, lambda _reports: None)
    monkeypatch.setattr(EpochLoop, "has_tasks", True)
    world.stop.set()
    job.run(world.stop)
    renewer = f"lease {job.flow.name}"
    eventually(lambda: renewer not in {t.name for t in threading.enumerate()}, what="the end of renewals")
    with StateTopic(world.clusters[1], job.flow.source) as state:
        assert read_on(state)[LeaseRecord.KEY]["run_id"] == job.run_id
