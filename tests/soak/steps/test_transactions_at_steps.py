"""Transactions that are open on the primary when a step of a failover begins, and some begun on the target.

Their clients commit, abort, end or begin again at that moment; one has no coordinator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
import pytest

from drkit.config import ClusterSettings
from drkit.failover.loss.divergence import divergence
from drkit.failover.pending_fences import apply_pending
from drkit.journal.lost import violations
from drkit.journal.machine import ORDER, RunState, StepName
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.each import try_each
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.open_transaction import Story
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.orchestrator_parent import AFTER
from tests.support.failover.truth import check_loss, check_position, values
from tests.support.failover.world import World
from tests.support.flows.compare import Seen
from tests.support.flows.produce import producer
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

pytestmark = [pytest.mark.soak, pytest.mark.timeout(2400)]
ENDS: Final = ("hangs", "commits", "aborts", "dies", "restarts")
"""One partition for each; the first has a transaction that no coordinator knows."""
EACH: Final = 3
HANG: Final = {"transaction.partition.verification.enable": "false"}
ACL: Final = {
    "authorizer": True,
    "properties": {**HANG, "allow.everyone.if.no.acl.found": "true", "super.users": "User:none"},
}
AT: Final = tuple(f"{step} " for step in ORDER)
OPENED: Final = ORDER[ORDER.index(StepName.OPEN) + 1 :]
SECONDS: Final = 20


class Clients:
    """Transactional clients, one for each end, and what their cluster has confirmed."""

    def __init__(self, name: str, topics: Sequence[str]) -> None:
        self._name, self._topics, self._number = name, topics, 0
        self._open: dict[str, tuple[Producer, list[bytes]]] = {}
        self.committed: list[list[bytes]] = []
        self.aborted: list[bytes] = []
        self.unknown: list[list[bytes]] = []

    def begin(self, cluster: ClusterSettings, *ends: str) -> None:
        """Begin a transaction in each topic, and write an acknowledged record of others after it."""
        for end in ends:
            out = _client(cluster, f"{self._topics[0]}-{end}")
            with suppress(KafkaException):  # it is fenced
                out.init_transactions(SECONDS)
                out.begin_transaction()
                self._open[end] = out, self._written(out, end)
            self.write(cluster, end)

    def write(self, cluster: ClusterSettings, *ends: str) -> None:
        """Write records without transactions."""
        for end in ends:
            self.committed += [[v] for v in self._written(producer(cluster, message_timeout_ms=3000), end)]

    def _written(self, out: Producer, end: str) -> list[bytes]:
        heard: list[bytes] = []
        for topic in self._topics:
            for _ in range(EACH):
                self._number += 1
                value = f"{self._name} {end} {self._number}".encode()
                out.produce(
                    topic, value, partition=ENDS.index(end),
                    on_delivery=lambda error, m: heard.append(m.value() or b"") if error is None else None,
                )  # fmt: skip
        out.flush(SECONDS)
        return heard

    def end(self, cluster: ClusterSettings) -> None:
        """End each of them in its own way."""
        for end, (out, written) in self._open.items():
            try:
                if end == "commits":
                    out.commit_transaction(SECONDS)
                    self.committed.append(written)
                    continue
                if end == "aborts":
                    out.abort_transaction(SECONDS)
                if end == "restarts":
                    _client(cluster, f"{self._topics[0]}-{end}").init_transactions(SECONDS)
            except KafkaException as error:
                if error.args[0].retriable():
                    self.unknown.append(written)
                    continue
            self.aborted += written
        self._open.clear()


def _client(cluster: ClusterSettings, name: str) -> Producer:
    return producer(cluster, transactional_id=name, message_timeout_ms=10_000, transaction_timeout_ms=600_000)


def _allow_all(world: World) -> None:
    """Let everyone use the topics by an ACL: without one, drkit fences none by ACL."""
    allowed = AclBinding(
        ResourceType.TOPIC, world.tag, ResourcePatternType.PREFIXED, "User:ANONYMOUS", "*",
        AclOperation.ALL, AclPermissionType.ALLOW,
    )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": world.source.bootstrap_servers})
    for answer in admin.create_acls([allowed]).values():
        answer.result(SECONDS)


class Case:
    """A failover of two topics whose orchestrator waits at an entry of its journal."""

    def __init__(self, world: World, primary: LocalCluster, orchestrators: Orchestrators, name: str) -> None:
        self.world, self._primary, self._orchestrators = world, primary, orchestrators
        self.topics = [world.name(f"{name}-orders"), world.name(f"{name}-ledger")]
        self.group = world.name(f"{name}-shop")
        for topic in self.topics:
            world.create(world.source, topic, len(ENDS), {"retention.ms": "-1"})
        self.old, self.new = Clients("old", self.topics), Clients("new", self.topics)
        self.old.write(world.source, *ENDS)
        self.upstream = {TopicPartition(t, p): EACH for t in self.topics for p in range(len(ENDS))}
        world.commit(world.source, self.group, self.upstream)

    def failed_over(self, entry: str, request: dict[str, Any], *, dies: bool) -> dict[str, Any]:
        """Fail over, and let the clients act at the entry; at once: the primary dies then."""
        world, plain, freeze = self.world, self.world.plain(), Kill(entry, AFTER)
        self.old.begin(world.source, *ENDS[1:])
        Story(world, self._primary, self.topics[0]).hang(0)
        self.old.write(world.source, "hangs")
        run = self._orchestrators.start(plain, "begin", groups=[self.group], request=request, freeze=freeze)
        eventually(lambda: run.is_stopped() or run.has_ended(), what=entry)
        assert run.is_stopped(), run.outcome()
        if entry.split(maxsplit=1)[0] in OPENED:
            self.new.begin(world.target, *ENDS[1:])
        if dies:
            self._primary.kill()
        else:
            self.old.end(world.source)
            self.old.begin(world.source, *ENDS[1:])
        run.wake()
        ended = run.outcome()
        if ended.error is not None:
            assert "drkit failover --resume" in ended.error["hint"], ended.error
            ended = self._orchestrators.run(plain, "resume")
        assert ended.error is None, ended.error
        assert ended.report is not None
        return ended.report

    def settled(self) -> tuple[dict[str, dict[int, list[Seen]]], dict[str, dict[int, list[Seen]]]]:
        """End what is open, apply a pending fence; what readers of committed records see on both sides."""
        world = self.world
        self._primary.restart()
        self.old.end(world.source)
        self.new.end(world.target)
        self.new.begin(world.target, *ENDS[1:])
        self.new.end(world.target)
        _client(world.target, f"{self.topics[0]}-dies").init_transactions(SECONDS)
        with world.desk() as desk:
            apply_pending(desk)
        late = Clients("late", self.topics)
        late.write(world.source, *ENDS)
        assert not late.committed, "the old primary takes writes"
        theirs, ours = (
            {topic: self._decided(side, topic) for topic in self.topics}
            for side in (world.source, world.target)
        )
        return theirs, ours

    def _decided(self, side: ClusterSettings, topic: str) -> dict[int, list[Seen]]:
        """Return all records of a topic, once no transaction is open in it."""
        ends = self.world.offsets(side, topic, committed=False)
        eventually(lambda: self.world.offsets(side, topic) == ends, 30, f"open on {side.alias} {topic}")
        return self.world.records(side, topic)


def check(case: Case, report: dict[str, Any], *, planned: bool) -> None:
    world, run, loss = case.world, case.world.run_log(), report["loss"]
    committed = case.world.committed(case.world.target, case.group)
    theirs, ours = case.settled()
    assert run.state is RunState.DONE
    assert not violations(run)
    lost = 0
    for topic in case.topics:
        for p, records in theirs[topic].items():
            assert max(Counter(values(ours[topic][p])).values()) == 1, f"{topic}-{p}: repeated"
            copied = [x for x in values(ours[topic][p]) if not x.startswith(b"new")]
            assert copied == values(records)[: len(copied)], f"{topic}-{p}"
        lost += check_loss(loss["partitions"], theirs[topic], ours[topic], [], topic)
    for at, upstream in case.upstream.items():
        t, p = at
        check_position(at, upstream, committed[at].offset, theirs[t][p], ours[t][p])
    there = {v for side in (theirs, ours) for t in case.topics for p in side[t].values() for v in values(p)}
    moved = {v for t in case.topics for p in ours[t].values() for v in values(p)}
    assert not there & {*case.old.aborted, *case.new.aborted}, "an aborted record is visible"
    for written in case.old.committed:
        assert set(written) <= there, "a committed record is on neither side"
    for written in case.new.committed:
        assert set(written) <= moved, "a committed record of the new primary is lost"
    for written in (*case.old.unknown, *case.new.unknown):
        assert not set(written) & there or set(written) <= there, "a transaction was cut"
    if planned:
        assert (loss["exact"], loss["records"], lost) == (True, 0, 0), loss
    if loss["exact"]:
        assert loss["records"] >= lost
    with world.desk() as desk:
        found = divergence(desk.context_outside_run(), topics=case.topics)
    assert found.is_known
    assert found.to_json()["records"] == lost


KINDS: Final[dict[str, tuple[dict[str, Any], dict[str, Any], bool]]] = {
    "size": ({"planned": True}, {"properties": HANG}, False),
    "acl": ({"planned": True}, ACL, False),
    "alive": ({"accept_data_loss": "for the test"}, {"properties": HANG}, False),
    "dies": ({"accept_data_loss": "for the test"}, ACL, True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_transactions_open_when_a_step_begins(
    world_factory: WorldFactory,
    module_cluster: ModuleClusters,
    target: LocalCluster,
    orchestrators: Orchestrators,
    kind: str,
) -> None:
    request, spec, dies = KINDS[kind]
    primary = module_cluster("open" if "authorizer" in spec else "plain", **spec)
    world = world_factory(primary, target)
    means = "acl" if "authorizer" in spec else "max.message.bytes"
    world.failover_fields |= {"fence": {"transaction_wait_seconds": 1.0, "means": means}}
    if means == "acl":
        _allow_all(world)
    steps = [f"{s} intent" for s in (*AT, "FENCE record", f"FENCE {means}")]
    cases = [Case(world, primary, orchestrators, f"n{number}") for number in range(len(steps))]
    world.replicate()
    world.copied([t for case in cases for t in case.topics], {case.group: None for case in cases})

    def scene(step: str, case: Case) -> None:
        try:
            check(case, case.failed_over(step, request, dies=dies), planned="planned" in request)
        finally:
            primary.restart()

    try_each({f"{kind} {s}": partial(scene, s, case) for s, case in zip(steps, cases, strict=True)})
