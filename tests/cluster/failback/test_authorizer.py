"""A round trip between clusters with authorizers: the fence by ACL stays as the guard of the passive side."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
import pytest

from drkit.config import ClusterSettings
from drkit.errors import Failed, Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.old_primary import fence as guard
from drkit.failover.returning.begin import BeginStep
from drkit.flow_state.records import FenceAclsRecord, GuardAclsRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.machine import StepName
from drkit.kafka.access.acls import delete_acls
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import confluent_config
from drkit.local.cluster import LocalCluster
from drkit.repoint import endpoint_of
from drkit.repoint.file import EndpointFile
from drkit.status.pair.model import PairTopic
from drkit.status.paired import PairedCollector
from drkit.topology.acls import Acl
from tests.support.circles import in_soak, in_wide
from tests.support.errors import coded, made
from tests.support.failback.locked import allow
from tests.support.failback.pair import Pair, Side
from tests.support.failback.rounds import Rounds, is_whole
from tests.support.failover.application import CANARY, App, as_app
from tests.support.failover.followers import Writer
from tests.support.failover.truth import values
from tests.support.flows.produce import fill
from tests.support.topic_sync.acl_world import World as Rights
from tests.support.waiting import eventually

DENIED = int(KafkaError.TOPIC_AUTHORIZATION_FAILED)
CLIENT: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
    "sasl_username": "app", "sasl_password": "app-password",
}  # fmt: skip


@pytest.mark.parametrize(
    ("canary", "turns"),
    [in_wide(CANARY, 1), in_soak(CANARY, 2), in_soak({}, 2), in_soak({}, 6)],
    ids=["one turn", "canary", "drkit is fenced, too", "six"],
)
def test_turns_with_a_guard(
    locked: tuple[LocalCluster, LocalCluster],
    rights: Rights,
    tmp_path: Path,
    canary: dict[str, str],
    turns: int,
) -> None:
    pair = _fenced_by_acl(locked, tmp_path, canary)
    first = pair.now
    rights.tag, topic = first.tag, first.name("orders")
    try:
        first.create(first.source, topic, 2, {"retention.ms": "-1"})
        given = {rights.acl(topic, "WRITE"), rights.acl(topic)}
        rights.give(0, *given)
        apps = [as_app(cluster, topic) for cluster in locked]
        eventually(lambda: apps[0].write() == 0, what="writing")
        file = _endpoint(pair, tmp_path)
        for number in range(turns):
            _turned(pair, topic, apps, number, file)
        of_clients = {a for a in rights.has(0) if a.name == topic and a.principal != "User:drkit"}
        assert (of_clients == given) is (turns % 2 == 0), "only where it is active again"
        if turns == 1:
            _comes_home(pair, rights, topic)
    finally:
        pair.close()


def _add_user(cluster: ClusterSettings, name: str) -> None:
    """A user with a password that SCRAM checks."""
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion(name, mechanism, b"secret")
    admin = AdminClient(confluent_config(cluster))  # its answers end with it
    admin.alter_user_scram_credentials([change])[name].result(30)


def _comes_home(pair: Pair, rights: Rights, topic: str) -> None:
    """What was revoked while clients were away is allowed at home again only if a person says so."""
    side, eve = pair.now, rights.acl(topic, "READ", "User:eve")
    wider = rights.acl("", "DESCRIBE", "User:eve", prefixed=True)._replace(name=topic[:-1])
    side.replicate()
    side.copied([topic])
    _add_user(rights.admins[0].settings, "eve")
    rights.give(0, eve)
    with side.desk() as desk:
        seen = desk.rehearse([], RunRequest(planned=True))
        assert [(gate, error.evidence) for gate, error in seen.refusals] == [
            ("failover-acls-only-home", f"1 ACL: {eve}")
        ]
        assert not desk.rehearse([], RunRequest(planned=True, acls_only_home="keep")).refusals
        removing = desk.rehearse([], RunRequest(planned=True, acls_only_home="remove"))
        assert not removing.refusals
        assert "not compared: SCRAM users that only" in " ".join(line.effect.why for line in removing.lines)
        assert f"delete acl {eve}" in [line.effect.what for line in removing.lines]
    side.create(side.target, f"{topic[:-1]}-local", 1, {})
    rights.give(0, wider)
    with side.desk() as desk:
        [(_, error)] = desk.rehearse([], RunRequest(planned=True, acls_only_home="remove")).refusals
    assert error.code == "home_acls_shared"
    assert delete_acls(rights.admins[0].settings, [wider]) == {}
    rights.has(0)
    with side.desk() as desk, pytest.raises(Refused, check=coded("home_acls_wider")):
        desk.begin([], RunRequest(planned=True))
    assert eve in rights.has(0)
    report = pair.switch(acls_only_home="remove")
    [opened] = [s for s in report["steps"] if s["step"] == "OPEN"]
    assert any(str(eve) in note for note in opened["notes"]), opened
    deny = str(rights.acl(topic, "WRITE", deny=True))
    [lifted] = [note for note in opened["notes"] if "the guard of the passive side was lifted" in note]
    assert "whoever has made them" in lifted
    assert deny in lifted, "a person may have made the same one meanwhile"
    assert {a for a in rights.has(0) if a.name == topic and a.principal == "User:eve"} == set()
    assert rights.acl(topic) in rights.has(0)


@pytest.mark.wide
def test_rights_of_the_last_minute_go_with_the_clients(
    locked: tuple[LocalCluster, LocalCluster], rights: Rights, tmp_path: Path
) -> None:
    """One is given and one is taken after the last round of the sync, which is this replicator's only one."""
    pair = _fenced_by_acl(locked, tmp_path, CANARY)
    side, topic = pair.now, pair.now.name("orders")
    rights.tag = side.tag
    taken, given = rights.acl(topic, "READ", "User:eve"), rights.acl(topic, "WRITE", "User:late")
    try:
        side.create(side.source, topic, 2, {"retention.ms": "-1"})
        rights.give(0, rights.acl(topic, "WRITE"), taken)
        fill(side.source, topic, 50)
        side.replicate()
        side.copied([topic])
        assert taken in rights.has(1)
        rights.give(0, given)
        assert delete_acls(rights.admins[0].settings, [taken]) == {}
        report = pair.switch()
        [snapshot] = [step for step in report["steps"] if step["step"] == StepName.SNAPSHOT]
        assert {given, taken} & rights.has(1) == {given}
        assert any(str(given) in n and str(taken) in n for n in snapshot["notes"]), snapshot
    finally:
        pair.close()


@pytest.mark.wide
def test_an_aborted_return_gives_the_fence_back(
    locked: tuple[LocalCluster, LocalCluster], rights: Rights, tmp_path: Path
) -> None:
    """It dies once the guard is made, or while it is: the fence is on record again."""
    pair = _fenced_by_acl(locked, tmp_path, CANARY)
    side, back, topic = pair.now, pair.other, pair.now.name("orders")
    rights.tag = side.tag
    try:
        side.create(side.source, topic, 2, {"retention.ms": "-1"})
        rights.give(0, rights.acl(topic, "WRITE"), rights.acl(topic))
        app = as_app(locked[0], topic)
        fill(side.source, topic, 50)
        side.replicate()
        side.copied([topic])
        assert pair.switch()["state"] == "done"
        fence = frozenset(a for a in _fence(side) if a.principal != "User:drkit")
        for where, name in ((BeginStep, "_may_copy"), (guard, "delete_acls")):
            with side.desk() as desk, pytest.MonkeyPatch.context() as patch:
                patch.setattr(where, name, _dies)
                with pytest.raises(Failed, match="it dies here"):
                    desk.begin_return(RunRequest())
            assert _guard(back)
            with side.desk() as desk:
                assert desk.abort("for the test")["state"] == "aborted"
            assert (_fence(side) >= fence, _guard(back)) == (True, frozenset())
            assert app.write() == DENIED
            [found] = _topics(side)
            assert not found.alarms, found
        assert pair.reprotect(cut="")["state"] == "done"
        assert (app.write(), bool(_guard(pair.now)), _fence(side)) == (DENIED, True, frozenset())
    finally:
        pair.close()


def _fenced_by_acl(locked: tuple[LocalCluster, LocalCluster], folder: Path, canary: dict[str, str]) -> Pair:
    """A pair whose fences are ACLs, in both directions."""
    pair = Pair(*locked, folder / "journal", user="drkit")
    for side in (pair.now, pair.other):
        side.failover_fields["fence"] = {"means": "acl", "canary": canary}
    return pair


def _dies(*_given: object) -> None:
    raise made(Failed, "it dies here", where="", evidence="", hint="")


def _topics(side: Side) -> tuple[PairTopic, ...]:
    """What ``drkit status`` says of the pair."""
    with closing(PairedCollector(side.settings, side.settings.flows[0], groups=False)) as collector:
        pair = collector.look().pair
    assert pair is not None
    return pair.topics


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_six_switchovers_under_load(
    locked: tuple[LocalCluster, LocalCluster], rights: Rights, tmp_path: Path
) -> None:
    """As without an authorizer, but without `--clients-cut`: the ACLs are the guard."""
    pair = _fenced_by_acl(locked, tmp_path, CANARY)
    rights.tag = pair.now.tag
    everywhere = [(ResourceType.GROUP, AclOperation.READ), (ResourceType.TRANSACTIONAL_ID, AclOperation.ALL)]
    for number in (0, 1):
        allow(rights.admins[number].settings, "User:app", [(kind, "*", do) for kind, do in everywhere])

    def give(topics: list[str]) -> None:
        rights.give(0, *(acl for t in topics for acl in (rights.acl(t, "WRITE"), rights.acl(t))))

    try:
        is_whole(Rounds(pair, tmp_path, groups=34, cut="", give=give, **CLIENT).run(6), 6)
    finally:
        pair.close()


def _endpoint(pair: Pair, folder: Path) -> Path:
    """The endpoint file, which leads to the first primary, and which switchovers write."""
    file, first = folder / "endpoint.json", pair.now.source
    EndpointFile(file).tell(endpoint_of(first, term=0, cluster_id=Cluster.connect(first).cluster_id))
    for side in (pair.now, pair.other):
        side.failover_fields["repoint"] = [{"kind": "file", "path": str(file)}]
    return file


def _turned(pair: Pair, topic: str, apps: list[App], number: int, file: Path) -> None:
    side, here, there = pair.now, number % 2, (number + 1) % 2
    fill(side.source, topic, 50, first=1000 * number)
    side.replicate()
    side.copied([topic])
    assert side.exact([topic]) > 0
    assert apps[there].write() == DENIED
    with Writer(f"follows{number}", topic, file, **CLIENT) as writer:
        eventually(lambda: len(writer.acked) > 20, what="records before the switchover")
        assert pair.switch()["state"] == "done"
        before = len(writer.acked)
        eventually(lambda: len(writer.acked) > before + 20, what="records after it")
    assert (writer.trouble, writer.failed) == ([], []), "a fence by ACL holds its records, and fails none"
    mine = [
        v
        for r in side.records(side.target, topic).values()
        for v in values(r)
        if v.startswith(writer.name.encode())
    ]
    assert sorted(mine) == sorted(writer.acked)
    assert apps[here].write() == DENIED
    eventually(lambda: apps[there].write() == 0, what="writing on the new primary")
    assert pair.reprotect(cut="")["state"] == "done"
    assert apps[here].write() == DENIED, "the passive side keeps its guard"
    assert _guard(pair.now), "it is on record where the next switchover lifts it"
    assert not _fence(side)


def _guard(side: Side) -> frozenset[Acl]:
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        found = state.get(GuardAclsRecord)
    return found.acls if found is not None else frozenset()


def _fence(side: Side) -> frozenset[Acl]:
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        found = state.get(FenceAclsRecord)
    return found.acls if found is not None else frozenset()
