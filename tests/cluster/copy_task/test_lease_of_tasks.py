"""A copy task writes while its run has the flow's lease: a real task, frozen, and the lease that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
import itertools
import uuid

import pytest

from drkit.clock import boottime
from drkit.copy_task import worker_links
from drkit.copy_task.core.assignment import TaskAssignment
from drkit.flow_state.lease.run_lease import FlowLease
from drkit.flow_state.processes import boot_id
from drkit.flow_state.records import ControlRecord, LeaseRecord
from drkit.flow_state.topic import StateTopic
from drkit.offset_map.topic import bucket_of
from tests.support.flows.compare import check_copy
from tests.support.flows.flow import Flow
from tests.support.flows.process import CopyProcess
from tests.support.flows.produce import fill, producer
from tests.support.flows.renewed_lease import LEASE_SECONDS, renew, renewing
from tests.support.waiting import eventually

START_SECONDS = 3.0
"""The driver's lease at the start of the epoch."""


@pytest.fixture
def state(flow: Flow) -> Iterator[StateTopic]:
    with StateTopic(flow.target, flow.source.alias) as found:
        yield found


@pytest.fixture
def topic(flow: Flow) -> str:
    name = flow.create_both(f"t{uuid.uuid4().hex[:8]}")
    fill(flow.source, name, 100)
    return name


def end_of(flow: Flow, topic: str) -> int:
    return flow.offsets(flow.target, topic)[0]


def copying(flow: Flow, topic: str) -> tuple[TaskAssignment, CopyProcess]:
    """A task that has copied the first records; on a busy machine one may start when its time is over."""
    for attempt in itertools.count(1):
        until = boottime() + attempt * START_SECONDS
        lease = replace(
            flow.lease(topic, once=False), lease_seconds=LEASE_SECONDS, held_until=until, boot_id=boot_id()
        )
        task = flow.start(lease=lease)
        eventually(lambda: end_of(flow, topic) == 100 or not task.running, what="the first records")  # noqa: B023
        if task.running:
            return lease, task
    raise AssertionError


@pytest.mark.wide
def test_a_task_that_stood_still_until_its_lease_ended_appends_nothing_when_it_wakes(flow: Flow, topic: str):
    lease, task = copying(flow, topic)
    task.freeze()
    fill(flow.source, topic, 100, first=100)
    eventually(lambda: boottime() > lease.held_until, what="the end of its lease")
    task.resume()
    assert task.report()["ended"] == "expired"
    assert end_of(flow, topic) == 100

    flow.copy(topic)
    check_copy(flow, topic)


@pytest.mark.wide
def test_a_task_that_has_nothing_to_append_ends_with_its_lease_too(flow: Flow, topic: str):
    """With closed gates it sees no renewal: the other tasks of its epoch would wait for its end."""
    lease, task = copying(flow, topic)
    report = task.report()
    assert report["ended"] == "expired"
    assert report["seconds"] < lease.epoch_seconds


@pytest.mark.wide
def test_a_task_that_spark_starts_again_late_in_an_epoch_copies_when_it_has_seen_a_renewal(
    flow: Flow, state: StateTopic, topic: str
):
    """It is given the lease of the epoch's begin once more."""
    lease = replace(
        flow.lease(topic),
        lease_seconds=LEASE_SECONDS,
        held_until=boottime() - 20.0,
        held_seconds=5.0,
        boot_id=boot_id(),
    )
    holder = FlowLease(flow.target, flow.settings, state, lease.driver, LEASE_SECONDS)
    holder.acquire()
    assert flow.copy(lease=lease).ended == "once"
    holder.release()
    check_copy(flow, topic)


@pytest.mark.wide
def test_connections_through_which_nothing_may_be_sent_are_not_kept(
    flow: Flow, state: StateTopic, topic: str
):
    held = {"lease_seconds": 600.0, "held_until": boottime() + 540.0, "boot_id": boot_id()}
    with renewing(state, "another"):
        ended = flow.copy(lease=replace(flow.lease(topic, once=False), **held)).ended  # type: ignore[arg-type]
    assert ended == "superseded"
    assert flow.settings.name not in worker_links._links
    flow.copy(topic)
    check_copy(flow, topic)


@pytest.mark.wide
def test_leases_from_before_a_task_say_nothing_however_long_the_state_takes_to_read(
    flow: Flow, state: StateTopic, topic: str
):
    """With many partitions the end of the state, where a task begins to read, takes several answers."""

    def much() -> None:
        for _ in range(12):
            state.write("later/kind", b'"' + b"x" * 100_000 + b'"')

    much()
    renew(state, "another")
    state.delete(LeaseRecord)
    much()
    lease = flow.lease(topic, once=False)
    task = flow.start(lease=lease)
    eventually(lambda: end_of(flow, topic) == 100 or not task.running, what="the first records")
    state.put(ControlRecord(lease.run_id, lease.plan, "stop"))
    assert task.report()["ended"] == "stop"


@pytest.mark.wide
@pytest.mark.parametrize("seconds", [-1.0, 0.02])
def test_a_task_whose_lease_ends_before_it_has_begun_ends_and_the_next_one_copies(
    flow: Flow, topic: str, seconds: float
):
    """As where Spark takes long to start a worker; what it waits for would be answered in minutes."""
    late = replace(
        flow.lease(topic, once=False),
        lease_seconds=1.0,
        held_until=boottime() + seconds,
        boot_id=boot_id(),
    )
    assert flow.copy(lease=late).ended == "expired"
    flow.copy(topic)
    check_copy(flow, topic)


@pytest.mark.wide
def test_a_task_writes_on_while_it_sees_renewals_and_ends_when_another_run_has_the_lease(
    flow: Flow, state: StateTopic, topic: str
):
    renew(state)
    with renewing(state):
        lease, task = copying(flow, topic)
        eventually(lambda: boottime() > lease.held_until, what="the end of its lease")
        fill(flow.source, topic, 100, first=100)
        eventually(lambda: end_of(flow, topic) == 200, what="records after the time of the first lease")

    renew(state, "another")
    assert task.report()["ended"] == "superseded"
    fill(flow.source, topic, 100, first=200)
    flow.copy(topic)
    check_copy(flow, topic)


@pytest.mark.wide
def test_a_task_that_cannot_start_ends_with_the_others(flow: Flow, topic: str, state: StateTopic) -> None:
    """A stranger's open transaction hides the end of the map: the task would wait for a minute."""
    bucket = bucket_of(topic, 0, flow.settings.buckets)
    stranger = producer(flow.target, transactional_id=topic)
    stranger.init_transactions(30)
    stranger.begin_transaction()
    stranger.produce(flow.map_topic, b"", b"no key of the map", bucket)
    assert stranger.flush(30) == 0
    lease = flow.lease(topic, once=False)
    process = flow.start(lease=lease)
    state.put(ControlRecord(lease.run_id, lease.plan + 1, "run"))
    assert process.report(40)["ended"] == "plan"
    stranger.abort_transaction(30)
    flow.copy(lease=replace(flow.lease(topic), plan=lease.plan + 1))
    check_copy(flow, topic)


@pytest.mark.wide
def test_an_open_transaction_of_a_stranger_hides_no_command_from_a_task(
    flow: Flow, state: StateTopic, topic: str
):
    """It hid all that followed it until its time was over, renewals of the lease, too."""
    lease = flow.lease(topic, once=False)
    stranger = producer(flow.target, transactional_id=topic)
    stranger.init_transactions(30)
    task = flow.start(lease=lease)
    eventually(lambda: end_of(flow, topic) == 100 or not task.running, what="the first records")
    stranger.begin_transaction()
    stranger.produce(state.name, b"", b"no key of the state", 0)
    assert stranger.flush(30) == 0
    state.put(ControlRecord(lease.run_id, lease.plan, "stop"))
    assert task.report(20)["ended"] == "stop"
    stranger.abort_transaction(30)
