"""A fence by ACL that somebody has lifted, where drkit fences by size now, or may not list ACLs any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from drkit.errors import Refused
from drkit.failover import pending_fences
from drkit.failover.fencing.methods import SIZE
from drkit.failover.pending_fences import DueFences
from drkit.flow_state.pending_fence import owe
from drkit.flow_state.records import FenceAclsRecord, PendingFence
from drkit.flow_state.topic import StateTopic
from drkit.kafka.access.acls import delete_acls
from drkit.local.cluster import LocalCluster
from drkit.status.pair.model import PairAlarm
from drkit.status.paired import PairedCollector
from tests.support.errors import coded
from tests.support.failback.locked import fenced_by_acls, give_cluster_rights, take_cluster_rights
from tests.support.failback.tail import Case, DeadPrimary
from tests.support.failover.application import as_app
from tests.support.topic_sync.acl_world import World as Rights

pytestmark = pytest.mark.wide


@pytest.fixture
def home(locked: tuple[LocalCluster, LocalCluster], rights: Rights, tmp_path: Path) -> Iterator[DeadPrimary]:
    """An old primary that died, came back, and was fenced by ACLs then."""
    pair = fenced_by_acls(locked, rights, tmp_path)
    cases = {name: Case("discard", tail=6) for name in ("orders", "audit")}
    with closing(DeadPrimary(pair, locked[0], cases)) as found:
        rights.give(0, *(rights.acl(t, do) for t in found.topics for do in ("WRITE", "READ")))
        found.die()
        with found.side.desk() as desk:
            assert pending_fences.apply_pending(desk) is not None
        yield found
        give_cluster_rights(rights.admins[0].settings)


def _both_open(home: DeadPrimary) -> bool:
    settings = home.side.settings
    with closing(PairedCollector(settings, settings.flows[0], groups=False)) as collector:
        found = collector.look().pair
    assert found is not None
    return PairAlarm.BOTH_OPEN in found.alarms


def test_by_size_it_is_up_again_once(home: DeadPrimary, rights: Rights) -> None:
    """The ACLs stayed on record: the fence was "taken away" for ever, and both sides counted as open."""
    side, (orders, _) = home.side, home.topics
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        record = state.records.get(FenceAclsRecord)
        assert record is not None
        delete_acls(rights.admins[0].settings, sorted(a for a in record.acls if a.name == orders))
    assert as_app(home.primary, orders).write() == 0
    assert _both_open(home)
    side.failover_fields["fence"] = {**side.failover_fields["fence"], "means": SIZE}
    with side.desk() as desk:
        agreed = pending_fences.due(desk)
        assert pending_fences.apply_pending(desk, agreed) is not None
        shown = {t.topic: t for t in pending_fences.shown(desk).topics}
        assert (shown[orders].fence, shown[orders].takes_writes) == (SIZE, "no")
        assert pending_fences.apply_pending(desk, agreed) is None
    assert as_app(home.primary, orders).write() != 0
    assert not _both_open(home)


def test_what_is_pending_is_done_where_acls_are_hidden(home: DeadPrimary, rights: Rights) -> None:
    side, (_, audit) = home.side, home.topics
    with side.desk() as desk:
        pending_fences.lift(desk, [audit], "a test")
    assert as_app(home.primary, audit).write() == 0
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        owe(state, PendingFence("r2", 9, 1, "it did not answer", (audit,)))
    take_cluster_rights(rights.admins[0].settings)
    with side.desk() as desk:
        agreed = pending_fences.due(desk)
        assert agreed == DueFences(pending=frozenset({audit})), "which ones were lifted is hidden"
        assert pending_fences.apply_pending(desk, agreed) is not None
    assert as_app(home.primary, audit).write() != 0
    with side.desk() as desk, pytest.raises(Refused, check=coded("acls_not_listable")):
        pending_fences.apply_pending(desk, DueFences())
