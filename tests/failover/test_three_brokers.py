"""Failovers between clusters of three brokers while a broker of the target goes: what must hold, holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drkit.failover.context import Progress, Request
from drkit.failover.machine import StepName
from drkit.local.cluster import LocalCluster, start_together
from tests.conftest import ClusterFactory
from tests.failover import test_primary_lost as lost
from tests.failover import test_switchover as planned
from tests.failover.conftest import WorldFactory
from tests.failover.story import Story, told_story
from tests.failover.test_switchover import Switchover
from tests.failover.world import World

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

BROKERS = 3
WAYS = ("down", "back")
"""A broker that leads partitions dies when drkit's writers are to be fenced, and stays down; or it dies when
the copy is waited for, and is back when groups are moved.
"""
HELD_LOST = (
    lost.test_it_is_done_and_all_groups_moved,
    lost.test_i1_every_acknowledged_record_is_there_or_among_the_lost,
    lost.test_i2_the_stated_loss_is_the_real_loss_record_by_record,
    lost.test_i3_i4_the_target_has_a_beginning_of_each_partition_each_record_once,
    lost.test_i5_i6_groups_stand_between_what_they_had_read_and_what_not,
    lost.test_i5_a_group_that_worked_until_the_end_skips_nothing,
    lost.test_i7_positions_lie_in_the_log_and_are_kept_as_they_were_written,
    lost.test_i8_each_group_polls_all_that_it_had_not_committed,
    lost.test_i11_the_journal_follows_the_table,
    lost.test_the_divergence_is_what_was_lost_record_by_record,
)
HELD_PLANNED = (
    planned.test_it_says_that_nothing_is_lost,
    planned.test_nothing_is_lost_and_nothing_repeated,
    planned.test_the_copy_is_the_old_log_and_new_records_come_behind_it,
    planned.test_no_transaction_is_cut,
    planned.test_old_producers_are_refused,
    planned.test_everybody_followed_and_nothing_was_in_doubt,
    planned.test_a_group_at_work_processes_every_record_once,
    planned.test_groups_at_different_lags_read_on_at_their_next_record,
)


class Trouble:
    """Fails over everything, and kills a broker of the target on the way."""

    def __init__(self, target: LocalCluster, way: str) -> None:
        self._target, self._way = target, way
        self.killed: int | None = None

    def __call__(self, world: World, request: Request) -> dict[str, Any]:
        leaders = world.topic(world.target, world.name("orders")).leaders
        assert len({leader.node for leader in leaders.values()}) == BROKERS, "each leads a partition"

        def tell(progress: Progress) -> None:
            if progress.step is (StepName.FREEZE if self._way == "down" else StepName.DRAIN):
                self._kill(leaders[0].node)
            if progress.step is StepName.COMMIT_OFFSETS and self._way == "back":
                self._target.restart()

        with world.desk(tell=tell) as desk:
            report = desk.begin((), request)
        assert self.killed is not None
        return report

    def _kill(self, node: int) -> None:
        if self.killed is None:
            self.killed = node
            self._target.broker(node).kill()


@pytest.fixture
def pair(cluster_factory: ClusterFactory) -> tuple[LocalCluster, LocalCluster]:
    primary, standby = (cluster_factory(n, start=False, brokers=BROKERS) for n in ("primary", "standby"))
    start_together(primary, standby)
    return primary, standby


@pytest.fixture
def world(pair: tuple[LocalCluster, LocalCluster], world_factory: WorldFactory) -> World:
    world = world_factory(*pair)
    world.failover_fields["rpo_seconds"] = 1000.0  # what is lost here is to be lost, however long it takes
    return world


@pytest.mark.parametrize("way", WAYS)
def test_a_lost_primary(world: World, pair: tuple[LocalCluster, LocalCluster], way: str) -> None:
    primary, standby = pair
    story: Story = told_story(world, primary, Trouble(standby, way))
    for holds in HELD_LOST:
        holds(story)


@pytest.mark.parametrize("way", WAYS)
def test_a_switchover(
    world: World, pair: tuple[LocalCluster, LocalCluster], tmp_path: Path, way: str
) -> None:
    _, standby = pair
    done: Switchover = planned.told(world, tmp_path, Trouble(standby, way))
    for holds in HELD_PLANNED:
        holds(done)
