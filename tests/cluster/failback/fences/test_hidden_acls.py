"""drkit's right to list the ACLs of the old primary is missing for a moment: nothing is guessed in a return.

A fence by size would refuse drkit, too: a return could not copy through it, and would need a statement that
nobody has to give where the cluster has an authorizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation
import pytest

from drkit.errors import DrkitError, Refused
from drkit.failover import pending_fences
from drkit.failover.core.context import StepProgress
from drkit.failover.core.request import RunRequest
from drkit.failover.fencing.methods import ACL, SIZE
from drkit.failover.pending_fences import AppliedFences
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.locked import (
    CLUSTER,
    DRKIT,
    allow,
    fenced_by_acls,
    give_cluster_rights,
    take_cluster_rights,
)
from tests.support.failback.pair import CUT
from tests.support.failback.tail import Case, DeadPrimary
from tests.support.failover.application import CANARY, as_app
from tests.support.failover.truth import values
from tests.support.topic_sync.acl_world import World as Rights
from tests.support.waiting import eventually

pytestmark = pytest.mark.wide
DENIED = int(KafkaError.TOPIC_AUTHORIZATION_FAILED)
_NO_ALTER = (
    AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.CREATE, AclOperation.IDEMPOTENT_WRITE,
)  # fmt: skip
Homes = Callable[..., DeadPrimary]


@pytest.fixture
def homes(locked: tuple[LocalCluster, LocalCluster], rights: Rights, tmp_path: Path) -> Iterator[Homes]:
    made: list[DeadPrimary] = []

    def make(case: Case | None = None) -> DeadPrimary:
        pair = fenced_by_acls(locked, rights, tmp_path)
        found = DeadPrimary(pair, locked[0], {"orders": case or Case("discard", tail=6)})
        made.append(found)
        rights.give(0, *(rights.acl(t, do) for t in found.topics for do in ("WRITE", "READ")))
        return found

    yield make
    give_cluster_rights(rights.admins[0].settings)
    for home in made:
        home.close()


def _size(home: DeadPrimary, rights: Rights) -> str | None:
    found = topic_configs(Cluster.connect(rights.admins[0].settings), home.topics)[home.topics[0]][SIZE]
    return found.value if found.is_set_on_topic else None


def _kinds(home: DeadPrimary) -> list[str]:
    with home.side.desk() as desk:
        return [row.fence for row in pending_fences.shown(desk).topics]


def _home_by_acl(home: DeadPrimary, rights: Rights, folder: Path) -> None:
    """It comes home, and clients are kept off by an ACL, of which nobody has to say anything."""
    home.come_home(home.request(folder / "saved", clients_cut=""))
    [topic] = home.topics
    assert _size(home, rights) is None
    assert rights.acl(topic, "WRITE", deny=True) in rights.has(0)
    assert as_app(home.primary, topic).write() == DENIED
    home.copied_back()
    home.nothing_is_lost()


def test_a_return_does_not_guess_and_goes_on_when_the_right_is_back(
    homes: Homes, rights: Rights, tmp_path: Path
) -> None:
    home = homes()
    home.die()
    take_cluster_rights(rights.admins[0].settings)
    for said in ("", CUT):  # a statement about other means does not make it known which fence there is
        request = home.request(tmp_path / "saved", clients_cut=said)
        with home.side.desk() as desk, pytest.raises(Refused, check=coded("acls_not_listable")) as refused:
            desk.begin_return(request)
        assert "DESCRIBE and ALTER on the cluster" in refused.value.hint
        assert f"--flow '{home.side.settings.flows[0].name}'" in refused.value.hint
        assert _size(home, rights) is None
    give_cluster_rights(rights.admins[0].settings)
    _home_by_acl(home, rights, tmp_path)


def _fenced_while_hidden(home: DeadPrimary, rights: Rights) -> AppliedFences:
    """The old primary comes back while drkit may not list its ACLs, and what is pending is fenced."""
    home.die()
    take_cluster_rights(rights.admins[0].settings)
    with home.side.desk() as desk:
        done = pending_fences.apply_pending(desk)
    assert done is not None
    return done


def test_a_size_of_an_earlier_moment_goes_where_an_acl_is_proven(
    homes: Homes, rights: Rights, tmp_path: Path
) -> None:
    """What is owed is fenced by size at once, and says why; the return replaces it."""
    home = homes()
    side, paid = home.side, _fenced_while_hidden(home, rights)
    assert paid.evidence["how"] == SIZE
    assert any(f"may not list the ACLs of {side.source.alias}" in note for note in paid.notes), paid.notes
    assert as_app(home.primary, home.topics[0]).write() != 0, "fenced all the same"
    with side.desk() as desk, pytest.raises(Refused, check=coded("acls_not_listable")):
        desk.rehearse_return(home.request(tmp_path / "saved", clients_cut=""))

    give_cluster_rights(rights.admins[0].settings)
    with side.desk() as desk:
        planned = desk.rehearse_return(home.request(tmp_path / "saved", clients_cut=""))
    lines = [line.effect.what for line in planned.lines]
    assert "fence 1 topic by acl" in lines
    assert not [line for line in lines if line.startswith("lift the fence")]
    assert _kinds(home) == [SIZE], "a plan changes nothing"
    _home_by_acl(home, rights, tmp_path)


def test_a_size_stays_while_no_acl_is_proven_and_both_are_shown(
    homes: Homes, rights: Rights, tmp_path: Path
) -> None:
    """A canary that passes every ACL proves none: the refusal says that there is an authorizer."""
    home = homes()
    side = home.side
    _fenced_while_hidden(home, rights)
    give_cluster_rights(rights.admins[0].settings)
    admin = dict(zip(("sasl.username", "sasl.password"), ("admin", "admin-password"), strict=True))
    side.failover_fields["fence"] = {"means": ACL, "canary": admin, "seconds": 0.5}
    with side.desk() as desk, pytest.raises(Refused, check=coded("late_fence_refuses_drkit")) as refused:
        desk.begin_return(home.request(tmp_path / "saved", clients_cut=""))
    assert "it has an authorizer" in refused.value.evidence
    assert "drkit reprotect" in refused.value.hint
    assert _size(home, rights) == "0"
    assert _kinds(home) == [f"{ACL}, {SIZE}"]

    side.failover_fields["fence"] = {"canary": CANARY}
    with side.desk() as desk:
        report = desk.resume(home.request(tmp_path / "saved", clients_cut=""))
    assert report["state"] == "done", report
    assert _size(home, rights) is None
    assert as_app(home.primary, home.topics[0]).write() == DENIED


@pytest.mark.parametrize(
    ("canary", "left", "lacks", "again"),
    [
        (CANARY, (), "DESCRIBE", "acls_not_listable"),
        ({}, _NO_ALTER, "ALTER", "fence_failed"),
    ],
    ids=["to list", "to change: drkit is fenced, too"],
)
def test_the_right_is_looked_at_before_anything_is_emptied(
    homes: Homes, rights: Rights, tmp_path: Path,
    canary: dict[str, str], left: Sequence[AclOperation], lacks: str, again: str,
) -> None:  # fmt: skip
    """Taken away after the export; the run goes on when it is back."""
    home = homes(Case("replay", "rebuild", tail=6))
    home.side.failover_fields["fence"] |= {"canary": canary}
    home.die()
    side, [topic], admin = home.side, home.topics, rights.admins[0].settings

    def take(progress: StepProgress) -> None:
        if progress.step is StepName.DECIDE:
            take_cluster_rights(admin)
            for operation in left:
                allow(admin, DRKIT, [(*CLUSTER, operation)])

    request, before = home.request(tmp_path / "saved", clients_cut=""), side.records(side.source, topic)
    with side.desk(tell=take) as desk, pytest.raises(Refused, check=coded("guard_not_authorized")) as refused:
        desk.begin_return(request)
    assert refused.value.evidence == f"drkit's principal has no {lacks} on the cluster"
    assert "drkit reprotect --resume" in refused.value.hint
    after = side.records(side.source, topic)
    assert {p: values(r) for p, r in after.items()} == {p: values(r) for p, r in before.items()}
    with side.desk() as desk, pytest.raises(DrkitError, check=coded(again)):
        desk.resume(request)
    give_cluster_rights(admin)
    with side.desk() as desk:
        assert desk.resume(request)["state"] == "done"
    home.turned()
    home.copied_back()
    home.nothing_is_lost()
    assert as_app(home.primary, topic).write() == DENIED


def test_a_failover_at_night_fences_by_size_and_a_switchover_waits(
    homes: Homes, rights: Rights, locked: tuple[LocalCluster, LocalCluster]
) -> None:
    home = homes(Case())
    side, [topic] = home.side, home.topics
    side.create(side.source, topic, 1, {"retention.ms": "-1"})
    app = as_app(locked[0], topic)
    eventually(lambda: app.write() == 0, what="writing")
    side.replicate()
    side.copied([topic])
    take_cluster_rights(rights.admins[0].settings)
    with side.desk() as desk, pytest.raises(Refused, check=coded("acls_not_listable")) as refused:
        desk.begin([], RunRequest(planned=True))
    assert "drkit failover --resume" in refused.value.hint
    assert app.write() == 0, "it serves on"
    with side.desk() as desk:
        desk.abort("for the test")
        report = desk.begin([], RunRequest(accept_data_loss="a test", despite_signs_of_life="a test"))
    assert report["state"] == "done"
    assert (report["fence"]["how"], report["fence"]["proven"]) == (SIZE, True)
    [notes] = [s["notes"] for s in report["steps"] if s["step"] == "FENCE"]
    assert any(f"may not list the ACLs of {side.source.alias}" in note for note in notes), notes
    assert app.write() != 0


def test_a_fence_by_acl_that_was_chosen_is_refused_or_owed_and_never_a_size(
    homes: Homes, rights: Rights, locked: tuple[LocalCluster, LocalCluster]
) -> None:
    """The refusal says what to grant, or how to continue; what is owed is fenced by ACL later."""
    home = homes(Case())
    side, [topic] = home.side, home.topics
    side.failover_fields["fence"] |= {"means": ACL}
    side.create(side.source, topic, 1, {"retention.ms": "-1"})
    app = as_app(locked[0], topic)
    eventually(lambda: app.write() == 0, what="writing")
    side.replicate()
    side.copied([topic])
    take_cluster_rights(rights.admins[0].settings)
    request = RunRequest(despite_signs_of_life="a test")
    with side.desk() as desk, pytest.raises(Refused, check=coded("acls_not_listable")) as refused:
        desk.begin([], request)
    assert "DESCRIBE on the cluster" in refused.value.evidence
    assert "DESCRIBE and ALTER on the cluster, then: drkit failover --resume" in refused.value.hint
    assert "--accept-data-loss" in refused.value.hint
    assert app.write() == 0, "it serves on"
    with side.desk() as desk:
        assert desk.resume(request._replace(accept_data_loss="a test"))["state"] == "done"
    assert _size(home, rights) is None
    with side.desk() as desk:
        for work in (pending_fences.planned, pending_fences.apply_pending):
            with pytest.raises(Refused, check=coded("acls_not_listable")) as refused:
                work(desk)
            assert "then: drkit fence pay" in refused.value.hint
    assert _kinds(home) == ["owed"]
    give_cluster_rights(rights.admins[0].settings)
    with side.desk() as desk:
        assert pending_fences.apply_pending(desk) is not None
    assert _kinds(home) == [ACL]
    assert app.write() == DENIED
