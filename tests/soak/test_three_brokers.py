"""Failovers between clusters of three brokers: one broker dies or freezes in a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaError
import pytest

from drkit.failover.core.context import StepProgress
from drkit.failover.core.request import RunRequest
from drkit.journal.machine import ORDER, StepName
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.support.failover import lost_primary as lost
from tests.support.failover import switchover as planned
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.story import Story, told_story
from tests.support.failover.switchover import Switchover
from tests.support.failover.truth import values
from tests.support.failover.world import World
from tests.support.local.controller import active_controller

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

BROKERS = 3
STEPS = ORDER[1:]
"""LOCK has no moment of its own between its begin and its end."""
HELD_LOST = (
    lost.it_is_done_and_all_groups_moved,
    lost.i1_every_acknowledged_record_is_there_or_among_the_lost,
    lost.i2_the_stated_loss_is_the_real_loss_record_by_record,
    lost.i3_i4_the_target_has_a_beginning_of_each_partition_each_record_once,
    lost.i5_i6_groups_are_between_what_they_had_read_and_what_not,
    lost.i5_a_group_that_worked_until_the_end_skips_nothing,
    lost.i7_positions_lie_in_the_log_and_are_kept_as_they_were_written,
    lost.i8_each_group_polls_all_that_it_had_not_committed,
    lost.i11_the_journal_follows_the_table,
    lost.the_divergence_is_what_was_lost_record_by_record,
)


def old_producers_are_refused_or_wait_for_the_dead_broker(done: Switchover) -> None:
    """What waits times out: nothing of it is acknowledged, and nothing of it is there."""
    assert done.late is not None
    assert done.late.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert done.stubborn.refused
    codes = {e.code() for e in done.stubborn.refused}
    assert codes <= {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._MSG_TIMED_OUT}


def nothing_is_lost_and_only_what_was_in_doubt_repeated(done: Switchover) -> None:
    """What a dead broker did not acknowledge may be there; one without idempotence may have repeated it."""
    assert not [t for w in (*done.writers, done.transactor, done.reader) for t in w.trouble]
    acked = Counter(r.value for r in done.stubborn.acked[done.topic])
    for writer in done.writers:
        acked.update(writer.acked)
    acked.update(done.transactor.committed)
    there = Counter(v for records in done.ours.values() for v in values(records))
    assert not acked - there, "lost"
    more = {v for v in there - acked if not v.startswith(b"plain")}
    old = Counter(v for records in done.theirs.values() for v in values(records))
    # A client repeats what timed out in flight under a new epoch: that is in the old log, too.
    repeated = sorted(v for v in more if not v.startswith(done.topic.encode()) or there[v] > max(1, old[v]))
    assert not repeated, f"repeated: {repeated}"


def the_copy_is_the_old_log_and_the_order_of_idempotent_producers_is_kept(done: Switchover) -> None:
    for p, records in done.theirs.items():
        assert values(done.ours[p])[: len(records)] == values(records)
        mine = [int(v.split()[1]) for v in values(done.ours[p]) if v.startswith(b"idempotent")]
        assert mine == sorted(mine), p


HELD_WITHOUT_A_BROKER_OF_THE_PRIMARY = (
    planned.it_says_that_nothing_is_lost,
    nothing_is_lost_and_only_what_was_in_doubt_repeated,
    the_copy_is_the_old_log_and_the_order_of_idempotent_producers_is_kept,
    planned.no_transaction_is_cut,
    old_producers_are_refused_or_wait_for_the_dead_broker,
    planned.groups_at_different_lags_read_on_at_their_next_record,
)
HELD_PLANNED = (
    planned.it_says_that_nothing_is_lost,
    planned.nothing_is_lost_and_nothing_repeated,
    planned.the_copy_is_the_old_log_and_new_records_come_after_it,
    planned.no_transaction_is_cut,
    planned.groups_at_different_lags_read_on_at_their_next_record,
    planned.old_producers_are_refused,
    planned.all_clients_followed_and_nothing_was_in_doubt,
    planned.a_group_at_work_processes_every_record_once,
)


End = Callable[[LocalCluster, int], None]


def kill(cluster: LocalCluster, leader: int) -> None:
    """Kill the broker that leads the first partition."""
    cluster.broker(leader).kill()


def freeze(cluster: LocalCluster, leader: int) -> None:
    """Freeze the broker that leads the first partition."""
    cluster.broker(leader).freeze()


def freeze_controller(cluster: LocalCluster, _leader: int) -> None:
    """Freeze the active controller: the other brokers forward requests to it for 30 s."""
    active_controller(cluster).freeze()


ENDS = pytest.mark.parametrize(
    "end", [kill, freeze, freeze_controller], ids=["dies", "freezes", "controller-freezes"]
)


class Pair(NamedTuple):
    """Two clusters."""

    primary: LocalCluster
    standby: LocalCluster


class Trouble:
    """Fails over everything; on the way a broker that leads partitions dies or freezes, and nothing is held.

    :param goes: the step in which it does
    :param returns: the step in which it is back; None: it stays away
    """

    def __init__(
        self,
        cluster: LocalCluster,
        goes: StepName,
        returns: StepName | None = None,
        end: End = kill,
    ) -> None:
        self._cluster, self._goes, self._returns, self._end = cluster, goes, returns, end
        self._ended = False

    def __call__(self, world: World, request: RunRequest) -> dict[str, Any]:
        on = world.source if world.source.bootstrap_servers == self._cluster.bootstrap() else world.target
        leaders = world.topic(on, world.name("orders")).leaders
        assert len({leader.node for leader in leaders.values()}) == BROKERS, "each leads a partition"

        def tell(progress: StepProgress) -> None:
            if progress.step is self._goes and not self._ended:
                self._ended = True
                self._end(self._cluster, leaders[0].node)
            if progress.step is self._returns:
                self._cluster.restart()

        with world.desk(tell=tell) as desk:
            report = desk.begin((), request)
        assert self._ended
        return report


@pytest.fixture(scope="module")
def clusters() -> Iterator[Pair]:
    pair = Pair(*(LocalCluster(ClusterSpec(name, brokers=BROKERS)) for name in ("primary", "standby")))
    try:
        start_together(*pair)
        yield pair
    finally:
        for cluster in pair:
            cluster.stop()


@pytest.fixture
def pair(clusters: Pair) -> Iterator[Pair]:
    yield clusters
    for cluster in clusters:
        cluster.resume()
        cluster.restart()


@pytest.fixture
def world(pair: Pair, world_factory: WorldFactory) -> World:
    world = world_factory(*pair)
    world.failover_fields["rpo_seconds"] = 1000.0  # what is lost here is to be lost, however long it takes
    return world


@ENDS
@pytest.mark.parametrize("goes", STEPS)
def test_a_lost_primary_and_a_broker_of_the_standby(
    world: World, pair: Pair, goes: StepName, end: End
) -> None:
    story: Story = told_story(world, pair.primary, Trouble(pair.standby, goes, end=end))
    for holds in HELD_LOST:
        holds(story)


@ENDS
@pytest.mark.parametrize("goes", STEPS)
def test_a_switchover_and_a_broker_of_the_standby(
    world: World, pair: Pair, tmp_path: Path, goes: StepName, end: End
) -> None:
    done: Switchover = planned.told(world, tmp_path, Trouble(pair.standby, goes, end=end))
    for holds in HELD_PLANNED:
        holds(done)


@ENDS
@pytest.mark.parametrize("goes", STEPS)
def test_a_switchover_and_a_broker_of_the_primary(
    world: World, pair: Pair, tmp_path: Path, goes: StepName, end: End
) -> None:
    """What its producers wait for just then is in doubt, as without a failover."""
    done: Switchover = planned.told(world, tmp_path, Trouble(pair.primary, goes, end=end))
    for holds in HELD_WITHOUT_A_BROKER_OF_THE_PRIMARY:
        holds(done)


@pytest.mark.parametrize("kind", ["lost", "planned"])
def test_a_broker_that_is_back_when_groups_are_moved(
    world: World, pair: Pair, tmp_path: Path, kind: str
) -> None:
    trouble = Trouble(pair.standby, StepName.DRAIN, StepName.COMMIT_OFFSETS)
    if kind == "lost":
        story: Story = told_story(world, pair.primary, trouble)
        for holds in HELD_LOST:
            holds(story)
    else:
        done: Switchover = planned.told(world, tmp_path, trouble)
        for held in HELD_PLANNED:
            held(done)
