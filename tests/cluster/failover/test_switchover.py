"""A planned switchover under load: nothing is lost or repeated, and the old primary refuses new records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.failover import switchover as checks
from tests.support.failover.switchover import (
    Switchover,
    told,
)
from tests.support.failover.truth import values
from tests.support.failover.world import World


@pytest.fixture(scope="module")
def done(
    source: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Switchover]:
    folder = tmp_path_factory.mktemp("switchover")
    world = World(source, target, folder)
    try:
        yield told(world, folder)
    finally:
        world.close()


def test_it_says_that_nothing_is_lost(done: Switchover):
    checks.it_says_that_nothing_is_lost(done)


# P33
def test_nothing_is_lost_and_nothing_repeated(done: Switchover):
    """Every acknowledged record is on the new primary once, from every producer and both clusters."""
    checks.nothing_is_lost_and_nothing_repeated(done)


def test_the_copy_is_the_old_log_and_new_records_come_after_it(done: Switchover):
    checks.the_copy_is_the_old_log_and_new_records_come_after_it(done)


# P33
def test_no_transaction_is_cut(done: Switchover):
    """Each is complete on one of the clusters; an open one was begun again on the other side."""
    checks.no_transaction_is_cut(done)


# P34
def test_old_producers_are_refused(done: Switchover):
    checks.old_producers_are_refused(done)


def test_all_clients_followed_and_nothing_was_in_doubt(done: Switchover):
    checks.all_clients_followed_and_nothing_was_in_doubt(done)


# P33
def test_a_group_at_work_processes_every_record_once(done: Switchover):
    checks.a_group_at_work_processes_every_record_once(done)


def test_each_kind_of_member_is_given_every_record_once(done: Switchover):
    for member in done.members:
        assert not member.trouble, member.kind
        given = Counter(g.value for g in member.got)
        assert given == Counter(v for r in done.ours.values() for v in values(r)), member.kind


def test_groups_at_different_lags_read_on_at_their_next_record(done: Switchover):
    checks.groups_at_different_lags_read_on_at_their_next_record(done)
