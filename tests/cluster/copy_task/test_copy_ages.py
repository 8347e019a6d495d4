"""Old and young records, brokers that forget producers, and target brokers that stop in the middle."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.circles import in_soak
from tests.support.flows.compare import check_copy
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import DAY_MS, LIVE_MAX_AGE_MS, Flow
from tests.support.flows.produce import Load, aged, fill, fill_transactions, now_ms
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

_HOWS = ("terminate", "kill")
_FORGETFUL = {"producer.id.expiration.check.interval.ms": "500"}


def _mixed(age_ms: int) -> Callable[[int], int]:
    """Blocks of young and old records in turn: the border of the modes is crossed again and again."""
    return lambda i: now_ms() - (age_ms if (i // 400) % 2 else 0)


@pytest.fixture
def restless(
    module_cluster: ModuleClusters, source: LocalCluster, flow_factory: FlowFactory
) -> tuple[Flow, LocalCluster]:
    """A flow to a target of this file that forgets producers quickly."""
    target = module_cluster("forgetful", properties=_FORGETFUL)
    return flow_factory(source, target, bulk_commit_seconds=0.3), target


@pytest.mark.wide
@pytest.mark.parametrize(
    ("timestamp", "hows"),
    [
        (_mixed(2 * DAY_MS), ("kill",)),
        in_soak(aged(3 * 365 * DAY_MS), _HOWS),
        in_soak(_mixed(2 * DAY_MS), _HOWS),
        in_soak(aged(2 * DAY_MS), _HOWS),
        in_soak(_mixed(3 * 365 * DAY_MS), _HOWS),
    ],
    ids=["killed", "3-years", "mixed-2-days", "2-days", "mixed-3-years"],
)
def test_target_restarted_while_old_records_are_copied(
    restless: tuple[Flow, LocalCluster],
    topic_name: str,
    timestamp: Callable[[int], int],
    hows: tuple[str, ...],
) -> None:
    flow, target = restless
    flow.create_both(topic_name, 3, retention_ms="-1")
    fill(flow.source, topic_name, 20_000, timestamp=timestamp, compression_type="lz4")
    for how in hows:
        with Load(flow.source, [topic_name], per_second=2000, timestamp=timestamp):
            task = flow.start(topic_name, once=False, seconds=90)
            flow.grown(topic_name, 5000, committed=False)
            getattr(target.broker(0), how)()
            target.restart()
            flow.grown(topic_name, 1000)
            task.kill()
    flow.copy(topic_name)
    check_copy(flow, topic_name, uncommitted=False)


@pytest.mark.soak
def test_restart_of_the_target_between_tasks_of_live_records(
    restless: tuple[Flow, LocalCluster], topic_name: str
) -> None:
    """At every start the broker expires producers by their records' times: young ones stay."""
    flow, target = restless
    flow.create_both(topic_name, 2)
    for turn in range(2):
        fill(flow.source, topic_name, 3000, first=3000 * turn)
        flow.copy(topic_name)
        (target.broker(0).kill if turn else target.broker(0).terminate)()
        target.restart()
    flow.copy(topic_name)
    check_copy(flow, topic_name)


@pytest.mark.soak
@pytest.mark.parametrize("turns", [2, in_soak(3)])
def test_a_producer_that_the_target_has_forgotten(
    module_cluster: ModuleClusters,
    source: LocalCluster,
    flow_factory: FlowFactory,
    topic_name: str,
    turns: int,
) -> None:
    """The copy paused until the target had forgotten the producer: only the map says where to continue."""
    target = module_cluster("amnesiac", properties={**_FORGETFUL, "producer.id.expiration.ms": "3000"})
    flow = flow_factory(source, target)
    flow.create_both(topic_name, 2)
    for turn in range(turns):
        fill(flow.source, topic_name, 1000, first=1000 * turn)
        fill_transactions(flow.source, [topic_name], 500, seed=turn)
        flow.copy(topic_name, live_max_age_ms=60_000)
        assert flow.producers(topic_name)
        eventually(lambda: not flow.producers(topic_name, 0) and not flow.producers(topic_name, 1))
    check_copy(flow, topic_name)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [0, in_soak(1), in_soak(2)])
def test_epochs_that_end_between_old_and_young(flow: Flow, topic_name: str, seed: int) -> None:
    """Short epochs over blocks of all ages: what was fetched and not sent is fetched again."""
    flow.create_both(topic_name, 2, retention_ms="-1")
    fill(
        flow.source,
        topic_name,
        60_000,
        timestamp=_mixed(2 * DAY_MS),
        compression_type="lz4",
        batch_num_messages=200,
    )
    for turn in range(6):
        flow.copy(topic_name, once=False, seconds=0.15 + 0.07 * turn + 0.02 * seed)
    flow.copy(topic_name)
    check_copy(flow, topic_name, uncommitted=False)


@pytest.mark.wide
def test_records_that_grow_old_while_they_wait(flow: Flow, topic_name: str) -> None:
    """The age at which bulk mode begins is reached between two tasks, and in the middle of one."""
    flow.create_both(topic_name, 2)
    fill(flow.source, topic_name, 5000)
    with Load(flow.source, [topic_name], per_second=3000):
        for _ in range(4):
            flow.copy(topic_name, once=False, seconds=1.0, live_max_age_ms=700)
    flow.copy(topic_name, live_max_age_ms=700)
    check_copy(flow, topic_name, uncommitted=False)


def test_modes_of_old_and_young_records(flow: Flow, topic_name: str) -> None:
    """Old records are in transactions of a bucket, young ones carry the flow's own producer id."""
    flow.create_both(topic_name, retention_ms="-1")
    fill(flow.source, topic_name, 100, timestamp=aged(LIVE_MAX_AGE_MS + 60_000))
    report = flow.copy(topic_name)
    assert [p.state for p in report.partitions] == ["bulk"]
    assert flow.producer.id not in flow.producers(topic_name)
    fill(flow.source, topic_name, 100)
    report = flow.copy(topic_name)
    assert [p.state for p in report.partitions] == ["live"]
    assert flow.producers(topic_name)[flow.producer.id].last_sequence == 99
    check_copy(flow, topic_name, uncommitted=False)
