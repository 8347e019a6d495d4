"""A planned switchover under load: nobody loses or repeats anything, and the old primary takes no more."""

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
    """Every acknowledged record stands once on the new primary, whoever wrote it, and wherever."""
    checks.nothing_is_lost_and_nothing_repeated(done)


def test_the_copy_is_the_old_log_and_new_records_come_behind_it(done: Switchover):
    checks.the_copy_is_the_old_log_and_new_records_come_behind_it(done)


# P33
def test_no_transaction_is_cut(done: Switchover):
    """Each stands whole on one of the clusters; what was open was begun anew on the other side."""
    checks.no_transaction_is_cut(done)


# P34
def test_old_producers_are_refused(done: Switchover):
    checks.old_producers_are_refused(done)


def test_everybody_followed_and_nothing_was_in_doubt(done: Switchover):
    checks.everybody_followed_and_nothing_was_in_doubt(done)


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
