"""The standby was promoted, and ACLs refuse its clients: it is not called active, nor already moved.

A fence by ACL leaves no trace in the topics' settings. Where drkit may not list ACLs, it says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from drkit.counted import utc
from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.flow_state.names import journal_topic, state_topic
from drkit.kafka.access.acls import delete_acls
from drkit.local.cluster import LocalCluster
from drkit.status.model import FlowStatus
from drkit.status.pair.model import PairAlarm, PairStatus
from drkit.status.paired import PairedCollector
from tests.support.errors import coded
from tests.support.failback.locked import DRKIT, fenced_by_acls, give_cluster_rights, take_cluster_rights
from tests.support.failback.pair import Side
from tests.support.failback.tail import Case, DeadPrimary
from tests.support.failover.application import as_app
from tests.support.flows.produce import fill
from tests.support.topic_sync.acl_world import World as Rights
from tests.support.topic_sync.applied import acls_applied
from tests.support.waiting import eventually

pytestmark = pytest.mark.wide


@pytest.fixture
def lost(locked: tuple[LocalCluster, LocalCluster], rights: Rights, tmp_path: Path) -> Iterator[DeadPrimary]:
    pair = fenced_by_acls(locked, rights, tmp_path)
    found = DeadPrimary(pair, locked[0], {"orders": Case("discard", tail=6)})
    rights.give(0, *(rights.acl(t, do) for t in found.topics for do in ("WRITE", "READ")))
    yield found
    give_cluster_rights(rights.admins[1].settings)
    found.rise()
    found.close()


def looked(side: Side) -> FlowStatus:
    with closing(PairedCollector(side.settings, side.settings.flows[0])) as collector:
        return collector.look()


def judged(side: Side) -> PairStatus:
    pair = looked(side).pair
    assert pair is not None
    return pair


def refused_again(side: Side, code: str) -> Refused:
    """Return the refusal of a second failover in the same direction."""
    with side.desk() as desk, pytest.raises(Refused, check=coded(code)) as refused:
        desk.begin([], RunRequest(accept_data_loss="it burnt"))
    return refused.value


def test_acls_that_refuse_clients_are_known(
    lost: DeadPrimary, rights: Rights, locked: tuple[LocalCluster, LocalCluster]
) -> None:
    lost.fall()
    side, [topic], standby = lost.side, lost.topics, rights.admins[1].settings
    app, denied = as_app(locked[1], topic), rights.acl(topic, "WRITE", deny=True)
    eventually(lambda: app.write() == 0, what="a client that writes on the standby")
    pair = judged(side)
    [open_] = pair.topics
    assert (open_.active, open_.alarm) == (side.target.alias, None), open_
    noted = side.state()["source-seen"]["at_ms"]
    assert pair.silent == {side.source.alias: noted}, "a first look, after the source has died"
    assert any(line.endswith(f"noted at {utc(noted)}") for line in pair.unknown), pair.unknown

    rights.give(1, denied)
    eventually(lambda: app.write() != 0, what="a refusal of the standby")
    pair = judged(side)
    [closed] = pair.topics
    assert closed.active == "", (pair, rights.has(1))
    assert side.target.alias in closed.why_of(PairAlarm.BOTH_CLOSED), closed
    assert topic in refused_again(side, "promoted_refuses").evidence

    take_cluster_rights(standby)
    pair = judged(side)
    assert pair.topics[0].active == side.target.alias, pair
    assert any(f"whether {side.target.alias} refuses clients" in line for line in pair.unknown), pair.unknown
    assert "ACLs refuse clients there is unknown" in refused_again(side, "all_promoted").evidence

    give_cluster_rights(standby)
    assert delete_acls(standby, [denied]) == {}
    acls_applied(standby)
    pair = judged(side)
    assert pair.topics[0].active == side.target.alias, pair
    assert not any("refuses clients" in line for line in pair.unknown), pair.unknown
    refused_again(side, "all_promoted")


def test_acls_that_refuse_clients_are_known_while_the_old_primary_answers(
    rights: Rights, locked: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    """The old primary is the guarded side of the copy back: clients can write nowhere."""
    pair = fenced_by_acls(locked, rights, tmp_path)
    side = pair.now
    topic = side.name("orders")
    side.create(side.source, topic, 1, {"retention.ms": "-1"})
    fill(side.source, topic, 20)
    rights.give(0, *(rights.acl(topic, do) for do in ("WRITE", "READ")))
    try:
        side.replicate()
        side.copied([topic])
        assert pair.switch()["state"] == "done"
        assert pair.reprotect("")["state"] == "done"
        [open_] = judged(side).topics
        assert (open_.active, open_.alarm) == (side.target.alias, None), open_
        app, denied = as_app(locked[1], topic), rights.acl(topic, "WRITE", deny=True)
        rights.give(1, denied)
        eventually(lambda: app.write() != 0, what="a refusal of the new primary")
        for flow in (side, side.opposite):
            [closed] = judged(flow).topics
            assert (closed.active, closed.alarm) == ("", PairAlarm.BOTH_CLOSED), closed
        assert delete_acls(rights.admins[1].settings, [denied]) == {}
        acls_applied(rights.admins[1].settings)
        _hidden_is_not_missing(side, rights)
    finally:
        pair.close()


def _hidden_is_not_missing(side: Side, rights: Rights) -> None:
    """A hidden topic is unknown, and a fault: neither a flow that never ran nor the end of a run."""
    back, unknown = side.opposite, "pair_unknown"
    own, opposite = state_topic(side.source.alias), state_topic(back.source.alias)
    journal = journal_topic(side.source.alias)
    for number, name, code in ((0, opposite, unknown), (1, journal, unknown), (1, own, "not_authorized")):
        hidden = [rights.acl(name, do, DRKIT, deny=True) for do in ("DESCRIBE", "READ")]
        rights.give(number, *hidden)
        status = looked(side)
        pair, codes = status.pair, {fault.code for fault in status.faults if name in fault.text}
        assert code in codes, status.faults
        assert pair is not None
        assert any(name in line for line in pair.unknown), pair.unknown
        assert not any(topic.alarms for topic in pair.topics), pair.topics
        assert not any("does not answer" in line for line in pair.unknown), pair.unknown
        assert delete_acls(rights.admins[number].settings, hidden) == {}
        acls_applied(rights.admins[number].settings)
    assert not judged(side).unknown
