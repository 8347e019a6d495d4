"""Transactions of replays that miss markers: they end as decided, and each record is there once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType
import pytest

from drkit.config import ClusterSettings
from drkit.errors import Failed, Refused
from drkit.flow_state.names import replay_transactional_id
from drkit.kafka.transactions import open_on
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ADMIN, ClusterSpec
from drkit.model import TopicPartition
from drkit.replay.progress import ReplayProgress
from drkit.replay.run import Replayer, ReplayRequest, roll_back_kept
from drkit.replay.tail import export_at
from tests.support.circles import in_wide
from tests.support.errors import coded
from tests.support.failback.locked import DRKIT, allow
from tests.support.flows.produce import producer
from tests.support.replay.left_out import DATA, LOG, Died, LeftOut
from tests.support.replay.world import ReplayWorld, run_of, tail
from tests.support.topic_sync.applied import acls_applied
from tests.support.waiting import eventually

NUMBER, PIECE = 60, 25
"""Records of the tail, and of it in one transaction: one that notes the begin, and three with records."""
BEGIN, SECOND, LAST = 1, 3, 4
_RIGHTS = (
    (ResourceType.TOPIC, "*", AclOperation.ALL),
    (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL),
    (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
)
"""All that a replay needs but ALTER on the cluster."""


@pytest.fixture(scope="module")
def locked() -> Iterator[LocalCluster]:
    """A cluster whose partitions take transactions that their coordinator does not know."""
    known = {"transaction.partition.verification.enable": "false"}
    spec = ClusterSpec("open", sasl=True, authorizer=True, mechanisms=("PLAIN",), properties=known)
    with LocalCluster(spec) as cluster:
        yield cluster


def _client(cluster: LocalCluster, user: str) -> dict[str, str]:
    return dict(cluster.client_properties(user, "PLAIN"))


@pytest.fixture(scope="module")
def world(locked: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplayWorld]:
    world = ReplayWorld(locked, Path(tmp_path_factory.mktemp("exports")), client=_client(locked, ADMIN))
    yield world
    world.close()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No transaction of these tests ends by waiting."""
    for module in ("side", "log"):
        monkeypatch.setattr(f"drkit.replay.{module}.DECIDED_SECONDS", 2.0)


class Left(NamedTuple):
    """A replay that has ended in a transaction, with what it left open."""

    world: ReplayWorld
    copy: str
    """The topic on the new primary."""
    at: TopicPartition
    """On the old primary."""
    lost: Sequence[Any]
    manifest: str
    kept: bool

    @classmethod
    def by(
        cls, world: ReplayWorld, topic: str, patch: pytest.MonkeyPatch, left: LeftOut, *, kept: bool = False
    ) -> Left:
        copy, at, lost = world.promoted(topic), TopicPartition(topic, 0), tail(NUMBER)
        made = cls(world, copy, at, lost, world.export({at: lost}), kept)
        with patch.context() as patched:
            left.during(patched, PIECE)
            made._begins()
        return made

    def _begins(self) -> None:
        try:
            self.world.replay(self.manifest, kept=self.kept)
        except Died:
            assert self.open, "it has left a transaction open"

    @property
    def open(self) -> set[str]:
        """Topics of the replay with an open transaction."""
        opened = self.world.ask(self.world.target, open_on, [self.copy, self.world.log_topic])
        return {each.at.topic for each in opened}

    def is_replayed(self) -> None:
        """The next replay appends each record once, and leaves nothing open."""
        [result] = self.world.replay(self.manifest, kept=self.kept).values()
        assert (result.appended, result.is_done) == (NUMBER, True)
        self.has_each_once()

    def has_each_once(self) -> None:
        assert not self.open
        keys = [(s.key, s.value) for s in self.world.seen(self.copy)]
        assert keys == [(r.key, r.value) for r in self.lost]


def _case(
    number: int, on: set[str], name: str, *, commits: bool = True, wide: bool = True, **more: Any
) -> Any:
    values = number, on, {"commits": commits, **more}
    param = in_wide(*values) if wide else pytest.param(*values)
    return pytest.param(*param.values, marks=param.marks, id=name)


KEPT = [pytest.param(False, id="replay"), pytest.param(True, id="kept", marks=pytest.mark.wide)]
DEATHS = [
    _case(SECOND, {DATA}, "committed on the destination alone", wide=False),
    _case(SECOND, {DATA}, "aborted on the destination alone", commits=False, wide=False),
    _case(SECOND, {LOG}, "committed on the log alone", wide=False),
    _case(SECOND, {LOG}, "aborted on the log alone", commits=False),
    _case(SECOND, {DATA, LOG}, "committed on both"),
    _case(SECOND, {DATA, LOG}, "aborted on both", commits=False),
    _case(BEGIN, {LOG}, "the begin is committed"),
    _case(BEGIN, {LOG}, "the begin is aborted", commits=False),
    _case(LAST, {LOG}, "the end is committed on the log alone"),
]


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize(("number", "on", "how"), DEATHS)
def test_the_next_replay_ends_it(
    world: ReplayWorld, topic_name: str, monkeypatch: pytest.MonkeyPatch,
    number: int, on: set[str], how: dict[str, bool], *, kept: bool,
) -> None:  # fmt: skip
    left = Left.by(world, topic_name, monkeypatch, LeftOut(world, number, on, **how), kept=kept)
    left.is_replayed()


@pytest.mark.parametrize(
    ("number", "on", "how"),
    [
        _case(SECOND, {DATA}, "committed on the destination alone", wide=False),
        _case(SECOND, {DATA}, "aborted on the destination alone", commits=False),
        _case(SECOND, {LOG}, "committed on the log alone", wide=False),
        _case(SECOND, {LOG}, "aborted on the log alone", commits=False),
        _case(LAST, {LOG}, "the end is committed on the log alone"),
    ],
)
def test_the_next_replay_ends_one_of_the_first_release(
    world: ReplayWorld, topic_name: str, monkeypatch: pytest.MonkeyPatch,
    number: int, on: set[str], how: dict[str, bool],
) -> None:  # fmt: skip
    """Its progress notes no offset of the new primary, but its records name theirs on the old one."""
    encode = ReplayProgress.encode
    with monkeypatch.context() as patched:
        patched.setattr(ReplayProgress, "encode", lambda self: encode(replace(self, copied_to=None)))
        left = Left.by(world, topic_name, monkeypatch, LeftOut(world, number, on, **how))
    left.is_replayed()


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize(
    ("number", "on"),
    [(SECOND, {DATA}), in_wide(SECOND, {LOG}), in_wide(BEGIN, {LOG}), in_wide(LAST, {DATA, LOG})],
    ids=["the destination", "the log", "the log at its begin", "both at its end"],
)
def test_the_replay_that_runs_ends_it(
    world: ReplayWorld, topic_name: str, monkeypatch: pytest.MonkeyPatch,
    number: int, on: set[str], *, kept: bool,
) -> None:  # fmt: skip
    """Its next transaction would decide about it: an abort would take committed records back."""
    left = Left.by(world, topic_name, monkeypatch, LeftOut(world, number, on, survives=True), kept=kept)
    left.has_each_once()
    left.is_replayed()


def test_a_replay_that_is_done_ends_it(
    world: ReplayWorld, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Left.by(world, topic_name, monkeypatch, LeftOut(world, LAST, {DATA}))
    assert world.plan(left.manifest).is_done
    assert left.open == {left.copy}, "a dry run leaves it open"
    left.is_replayed()


def test_a_dry_run_of_another_export_names_it_at_once(
    world: ReplayWorld, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Left.by(world, topic_name, monkeypatch, LeftOut(world, SECOND, {DATA}))
    with pytest.raises(Refused, check=coded("replay_open_transaction")) as refused:
        world.plan(world.export({left.at: left.lost}))
    own = replay_transactional_id(world.flow.source, world.flow.target, TopicPartition(left.copy, 0))
    assert refused.value.evidence.endswith(f"its coordinator has ended {own}")
    assert "a replay without --dry-run ends it" in refused.value.hint
    left.is_replayed()


def test_another_export_of_the_same_records(
    world: ReplayWorld, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is compared with what is there, so before it the plan ends what the first one has left open."""
    left = Left.by(world, topic_name, monkeypatch, LeftOut(world, SECOND, {DATA}))
    [result] = world.replay(world.export({left.at: left.lost})).values()
    assert (result.appended, result.already) == (NUMBER - 2 * PIECE, 2 * PIECE)
    left.has_each_once()


def test_a_replay_into_another_partition(
    world: ReplayWorld, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them read the log: it may hide the progress of any."""
    left = Left.by(world, topic_name, monkeypatch, LeftOut(world, SECOND, {LOG}))
    other = f"{topic_name}-other"
    world.promoted(other)
    [result] = world.replay(world.export({TopicPartition(other, 0): tail(3)})).values()
    assert result.appended == 3
    assert not left.open
    left.is_replayed()


def test_a_return_that_is_rolled_back(
    world: ReplayWorld, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Left.by(world, topic_name, monkeypatch, LeftOut(world, SECOND, {DATA}), kept=True)
    at = TopicPartition(left.copy, 0)
    [noted] = roll_back_kept(world.target, world.flow, run_of(left.manifest), [at])
    assert noted.appended == 2 * PIECE
    assert not left.open
    [result] = world.replay(left.manifest).values()
    assert (result.appended, result.already) == (NUMBER - 2 * PIECE, 2 * PIECE)
    left.has_each_once()


def _of_client(world: ReplayWorld, topic: str) -> Producer:
    client = producer(world.target, transactional_id=f"client-{topic}")
    client.init_transactions(30)
    client.begin_transaction()
    client.produce(topic, b"of a client", b"key", partition=0)
    assert client.flush(30) == 0
    return client


def test_one_of_a_client_is_not_ended(
    world: ReplayWorld, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hides which outcome drkit's own has on the log."""
    copy, at, lost = world.promoted(topic_name), TopicPartition(topic_name, 0), tail(NUMBER)
    manifest = world.export({at: lost})
    with monkeypatch.context() as patched:
        LeftOut(world, SECOND, {LOG}).during(patched, PIECE)
        with world.replayer(manifest) as replayer, world.state() as state:
            state.load()
            plan = replayer.plan(state.records)
            client = _of_client(world, copy)
            with pytest.raises(Died):
                replayer.run(plan)
    with pytest.raises(Refused, check=coded("replay_open_transaction")) as refused:
        world.replay(manifest)
    assert "never one of a transactional id drkit." in refused.value.hint
    client.commit_transaction(30)
    [result] = world.replay(manifest).values()
    assert result.appended == NUMBER
    seen = [(s.key, s.value) for s in world.seen(copy)]
    assert seen == [(b"key", b"of a client"), *((r.key, r.value) for r in lost)]


def test_a_plan_does_not_end_a_replay_that_runs(world: ReplayWorld, topic_name: str) -> None:
    copy, at, lost = world.promoted(topic_name), TopicPartition(topic_name, 0), tail(NUMBER)
    manifest = world.export({at: lost})
    first = world.process(manifest, freeze=11, piece=PIECE)
    eventually(lambda: first.halted, what="a replay that is halted in a transaction")
    with world.replayer(manifest) as replayer, world.state() as state:
        state.load()
        assert not replayer.plan(state.records).is_done
    first.resume()
    assert "error" not in first.outcome()
    assert [(s.key, s.value) for s in world.seen(copy)] == [(r.key, r.value) for r in lost]


def test_the_missing_right_is_named(
    world: ReplayWorld, locked: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Left.by(world, topic_name, monkeypatch, LeftOut(world, SECOND, {DATA}))
    allow(world.target, DRKIT, [*_RIGHTS])
    acls_applied(world.target)
    drkit = ClusterSettings(
        alias=world.target.alias, bootstrap_servers=locked.bootstrap(), client=_client(locked, "drkit")
    )
    request = ReplayRequest(export_at(left.manifest))
    with Replayer(drkit, world.flow, request) as replayer, world.state() as state:
        state.load()
        with pytest.raises(Failed, check=coded("transaction_left_open")) as failed:
            replayer.plan(state.records)
    assert "grant ALTER on the target cluster" in failed.value.hint
    left.is_replayed()
