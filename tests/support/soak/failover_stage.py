"""One pair of clusters for many random failovers, each with topics, groups and clients of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
import signal
import threading
import time
from typing import Any

from drkit.failover import pending_fences
from drkit.failover.core.request import RunRequest
from drkit.failover.report import report_of
from drkit.journal.entries import RunLog
from drkit.journal.machine import RunState
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from drkit.repoint import endpoint_of
from drkit.repoint.file import EndpointFile
from tests.soak.java_clients import Java
from tests.support.failover.client_logs import ClientLog
from tests.support.failover.orchestrator import Orchestrators, Outcome
from tests.support.failover.python_clients import Follower, Restarted, Transformer, Writer
from tests.support.failover.truth import Load
from tests.support.flows.compare import Seen
from tests.support.flows.produce import now_ms
from tests.support.soak.failover_case import Case
from tests.support.soak.linked_world import Linked
from tests.support.waiting import eventually

PARTITIONS = 2
_AT_WORK = 20
"""Records that each client has handled before the failover begins, and on the new primary after it."""
_STARTS = 8
"""Starts of orchestrators in one failover, at most."""
Records = dict[str, dict[int, list[Seen]]]


@dataclass
class Done:
    """What happened in one failover."""

    case: Case
    report: dict[str, Any]
    run: RunLog
    clients: list[ClientLog]
    stubborn: Load
    topics: tuple[str, str]
    """What is written, and what the transactional application makes of it."""
    theirs: Records
    ours: Records
    ids: tuple[str, str]
    """The clusters' ids: primary, standby."""
    lost_at_ms: int
    """When the primary was lost, or the failover began."""
    outcomes: list[Outcome]


class Stage:
    """A pair of running clusters; the primary has links for the replicator and the operator."""

    def __init__(
        self,
        primary: LocalCluster,
        standby: LocalCluster,
        folder: Path,
        orchestrators: Orchestrators,
        java: Java,
    ) -> None:
        self.primary, self.standby, self.folder = primary, standby, folder
        self._orchestrators, self._java = orchestrators, java
        self.world: Linked | None = None
        self._number, self._whole = 0, False

    def failed_over(self, case: Case) -> Done:
        """All clients at work, the failover, all clients at work again."""
        self._number += 1
        if self._whole:
            self.close_world()
        world = self.world = self.world or Linked(
            self.primary, self.standby, self.folder / f"w{self._number}"
        )
        tag = world.name(f"{self._number}")
        topics = f"{tag}-in", f"{tag}-out"
        for topic in topics:
            world.create(world.source, topic, PARTITIONS, {"retention.ms": "-1"})
        ids = tuple(Cluster.connect(c).cluster_id for c in (world.source, world.target))
        endpoint = self.folder / f"{tag}.json"
        EndpointFile(endpoint).tell(endpoint_of(world.source, term=0, cluster_id=ids[0]))
        clients = self._clients(case, tag, topics, endpoint)
        groups = [c.group for c in clients if c.group]
        way = {"kind": "file", "path": str(endpoint), "groups": groups, "topics": list(topics)}
        world.failover_fields |= {"repoint": [way], "fence": {"transaction_wait_seconds": 0.5}}
        # The transactional application's own output is fenced, so its group never reads to the fenced end.
        world.failover_fields["drain_seconds"] = 1.5
        world.replicate()
        with ExitStack() as stack, Load(world.source, topics[:1], per_second=50) as stubborn:
            for client in clients:
                stack.enter_context(client)
            _all(clients, _at_work, 180)
            eventually(lambda: all(map(self._known, groups)), 180, "the groups' checkpoints")
            with self._trouble(case) as lost_at_ms:
                outcomes = self._until_done(case, groups, topics)
                self._settle(clients, ids[1])
            self._to_the_end(clients, stubborn, topics, ids[1])
        self._after(case)
        run = world.last_run()
        assert run is not None
        return Done(
            case, report_of(run, "flow"), run, clients, stubborn, topics,
            {t: world.records(world.source, t) for t in topics},
            {t: world.records(world.target, t) for t in topics}, (ids[0], ids[1]), lost_at_ms, outcomes,
        )  # fmt: skip

    # -- who is at work -----------------------------------------------------------------------------

    def _clients(self, case: Case, tag: str, topics: tuple[str, str], endpoint: Path) -> list[ClientLog]:
        both = list(topics)
        found: list[ClientLog] = [
            Transformer("python transactions", f"{tag}-tx", topics[0], topics[1], endpoint),
            Writer("python producer", f"w{self._number}", topics[0], endpoint, enable_idempotence=True),
        ]
        found += [
            self._reader(kind, f"{tag}-{kind.replace(' ', '-')}", both, endpoint) for kind in case.readers
        ]
        if case.java_producer:
            found.append(self._java.producer(f"j{self._number}", topics[0], endpoint, "java producer"))
        return found

    def _reader(self, kind: str, group: str, topics: list[str], endpoint: Path) -> ClientLog:
        language, _, more = kind.partition(" ")
        config = {
            "static": {"group_instance_id": f"{group}-1"},
            "consumer protocol": {"group_protocol": "consumer"},
            "cooperative": {
                "partition_assignment_strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
            },
        }.get(more, {})
        committed = {"isolation_level": "read_committed"}
        if language == "java":
            return self._java.consumer(group, group, topics, endpoint, kind, **config, **committed)
        made = Follower if language == "python" else Restarted
        return made(kind, group, topics, endpoint, **config, **committed)

    def _known(self, group: str) -> bool:
        world = self.world
        assert world is not None
        there = world.committed(world.target, group)
        return world.committed(world.source, group).keys() <= there.keys()

    # -- the failover -------------------------------------------------------------------------------

    @contextmanager
    def _trouble(self, case: Case) -> Iterator[int]:
        """The primary is lost, or not; afterwards everything works again."""
        world, primary = self.world, self.primary
        assert world is not None
        if case.lag_seconds:
            world.signal(signal.SIGSTOP)
            threading.Event().wait(case.lag_seconds)
        links = {"both links cut": ("PROBE", "REPLICATION"), "operator's link cut": ("PROBE",)}.get(
            case.kind, ()
        )
        {"killed": primary.kill, "frozen": primary.freeze}.get(case.kind, lambda: None)()
        for role in links:
            primary.link(role).cut()
        lost_at_ms = now_ms()
        if case.lag_seconds:
            world.signal(signal.SIGCONT)
        try:
            yield lost_at_ms
        finally:
            {"killed": primary.restart, "frozen": primary.resume}.get(case.kind, lambda: None)()
            for role in links:
                primary.link(role).restore()

    def _until_done(self, case: Case, groups: list[str], topics: tuple[str, str]) -> list[Outcome]:
        """Orchestrators, one after another, until one has done it."""
        world = self.world
        assert world is not None
        scopes: dict[str, dict[str, Any]] = {
            "all": {"groups": []},
            "group": {"groups": groups},
            "topic": {"groups": [], "topics": list(topics)},
        }
        request = {name: value for name, value in _request(case)._asdict().items() if value}
        before, outcomes = world.last_run(), list[Outcome]()
        for number in range(_STARTS):
            last = world.last_run() if number else before
            begun = last is not None and (before is None or last.run_id != before.run_id)
            if begun and last is not None and last.state is RunState.DONE:
                break
            kill = case.kills[number] if number < len(case.kills) else None
            elsewhere = number < len(case.elsewhere) and case.elsewhere[number]
            more = {"request": request, "kill": kill, "elsewhere": elsewhere}
            if begun:
                outcomes.append(self._orchestrators.run(world.plain(), "resume", **more))
            else:
                outcomes.append(self._orchestrators.run(world.plain(), "begin", **scopes[case.scope], **more))
            if outcomes[-1].report is not None:
                return outcomes
            if not outcomes[-1].killed:
                # What is held is resumed once its reason is gone; a reason that remains ends the loop.
                threading.Event().wait(1.0)
        run = world.last_run()
        assert run is not None, [o.error for o in outcomes]
        assert run.state is RunState.DONE, (run.state, run.held, [o.error for o in outcomes])
        return outcomes

    def _settle(self, clients: list[ClientLog], standby: str) -> None:
        """All clients work on the new primary, while the old one is as it was left."""
        before = {id(c): len(c.acked) for c in clients}

        def there(client: ClientLog) -> bool:
            if client.group:
                return len(client.values_of(standby)) >= _AT_WORK
            return len(client.acked) >= before[id(client)] + _AT_WORK

        _all(clients, there, 180)

    def _to_the_end(
        self, clients: list[ClientLog], load: Load, topics: tuple[str, str], standby: str
    ) -> None:
        """No more is written, and each group reads to the end."""
        world = self.world
        assert world is not None
        load.__exit__()
        for wanted, ends_with in ((_writes, ()), (_transforms, topics[:1]), (_reads, topics)):
            ends = {
                (standby, t, p): r[-1].offset
                for t in ends_with
                for p, r in world.records(world.target, t).items()
                if r
            }
            some = [c for c in clients if wanted(c)]
            _all(some, partial(_read_to, ends), 180)
            with ThreadPoolExecutor(len(clients)) as pool:
                list(pool.map(lambda c: c.finish(), some))

    def _after(self, case: Case) -> None:
        """The primary answers again, is fenced, and the flow is ready for the next failover."""
        world = self.world
        assert world is not None
        eventually(lambda: world.offsets(world.source, world.name(f"{self._number}-in")), what="the primary")
        with world.desk() as desk:
            if pending_fences.shown(desk).pending_fence is not None:
                pending_fences.apply_pending(desk)
        world.stop_replicating()
        self._whole = case.scope == "all"

    def close_world(self) -> None:
        """The next failover has a flow of its own."""
        self._whole = False
        if self.world is not None:
            self.world.close()
            self.world = None


def _all(clients: list[ClientLog], works: Callable[[ClientLog], bool], seconds: float) -> None:
    """Wait until it is true of each client; names those of which it is not."""
    deadline = time.monotonic() + seconds
    while late := [c for c in clients if not works(c)]:
        assert time.monotonic() < deadline, "; ".join(
            f"{c.kind} {c.group}: {len(c.got)} read, {len(c.acked)} acknowledged, {c.committed},"
            f" {dict(c.errors)}, {getattr(c, 'trouble', '')}"
            for c in late
        )
        threading.Event().wait(0.05)


def _read_to(ends: Mapping[tuple[str, str, int], int], client: ClientLog) -> bool:
    return all(client.committed.get(at, 0) > end for at, end in ends.items())


def _at_work(client: ClientLog) -> bool:
    return len(client.got if client.group else client.acked) >= _AT_WORK


def _transforms(client: ClientLog) -> bool:
    return isinstance(client, Transformer)


def _writes(client: ClientLog) -> bool:
    return not client.group


def _reads(client: ClientLog) -> bool:
    return bool(client.group) and not _transforms(client)


def _request(case: Case) -> RunRequest:
    if case.kind == "planned":
        return RunRequest(planned=True)
    despite = "for the test" if "cut" in case.kind else ""
    return RunRequest(accept_data_loss="for the test", despite_signs_of_life=despite)
