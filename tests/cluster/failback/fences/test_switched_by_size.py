"""A switchover fenced by size where an authorizer is: its return fences by ACL once one can be proven."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from confluent_kafka import KafkaError
import pytest

from drkit.errors import Refused
from drkit.failover import pending_fences
from drkit.failover.core.request import RunRequest
from drkit.failover.fencing.methods import SIZE
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.locked import give_cluster_rights, take_cluster_rights
from tests.support.failback.pair import CUT, Pair
from tests.support.failover.application import CANARY, as_app
from tests.support.flows.produce import fill
from tests.support.topic_sync.acl_world import World as Rights
from tests.support.waiting import eventually

pytestmark = pytest.mark.wide
DENIED = int(KafkaError.TOPIC_AUTHORIZATION_FAILED)
SUPER = {"sasl.username": "admin", "sasl.password": "admin-password"}


@pytest.fixture
def switched(
    locked: tuple[LocalCluster, LocalCluster], rights: Rights, tmp_path: Path
) -> Iterator[tuple[Pair, str]]:
    """A pair after a switchover whose canary passes every ACL, so that the fence is one by size."""
    with closing(Pair(*locked, tmp_path / "journal", user="drkit")) as pair:
        side, topic = pair.now, pair.now.name("orders")
        rights.tag = side.tag
        side.failover_fields["fence"] = {"canary": SUPER}
        side.create(side.source, topic, 2, {"retention.ms": "-1"})
        rights.give(0, rights.acl(topic, "WRITE"), rights.acl(topic))
        app = as_app(locked[0], topic)
        eventually(lambda: app.write() == 0, what="writing")
        fill(side.source, topic, 50)
        side.replicate()
        side.copied([topic])
        assert pair.switch()["state"] == "done"
        assert _size(rights, topic) == "0"
        yield pair, topic


def _size(rights: Rights, topic: str) -> str | None:
    found = topic_configs(Cluster.connect(rights.admins[0].settings), [topic])[topic][SIZE]
    return found.value if found.is_set_on_topic else None


def test_an_acl_replaces_it_where_nobody_has_said_how_clients_are_cut_off(
    switched: tuple[Pair, str], rights: Rights, locked: tuple[LocalCluster, LocalCluster]
) -> None:
    (pair, topic), admin = switched, rights.admins[0].settings
    side = pair.now
    with side.desk() as desk:
        assert [row.fence for row in pending_fences.shown(desk).topics] == [SIZE]
        with pytest.raises(Refused, check=coded("late_fence_refuses_drkit")) as refused:
            desk.begin_return(RunRequest())
    assert "canary in [failover.fence]" in refused.value.hint

    side.failover_fields["fence"] = {"canary": CANARY}
    take_cluster_rights(admin)
    with side.desk() as desk, pytest.raises(Refused, check=coded("acls_not_listable")) as refused:
        desk.begin_return(RunRequest())
    assert "DESCRIBE and ALTER on the cluster" in refused.value.hint
    give_cluster_rights(admin)

    with side.desk() as desk:
        lines = [line.effect.what for line in desk.rehearse_return(RunRequest()).lines]
    assert "fence 1 topic by acl" in lines
    assert not [line for line in lines if line.startswith("lift the fence")]
    assert _size(rights, topic) == "0", "a plan changes nothing"
    report = pair.reprotect(cut="")
    assert report["state"] == "done"
    [notes] = [step["notes"] for step in report["steps"] if step["step"] == "CONTACT"]
    assert any(f"an ACL fences {topic} now" in note for note in notes), notes
    assert _size(rights, topic) is None
    assert rights.acl(topic, "WRITE", deny=True) in rights.has(0)
    assert as_app(locked[0], topic).write() == DENIED
    fill(pair.now.source, topic, 30, first=1000)
    pair.now.replicate()
    pair.now.copied([topic])
    assert pair.now.exact([topic]) > 0


def test_it_stays_where_somebody_has_said_how_clients_are_cut_off(
    switched: tuple[Pair, str], rights: Rights
) -> None:
    pair, topic = switched
    pair.now.failover_fields["fence"] = {"canary": CANARY}
    assert pair.reprotect(cut=CUT)["state"] == "done"
    assert _size(rights, topic) is None
    assert rights.acl(topic, "WRITE", deny=True) not in rights.has(0)
