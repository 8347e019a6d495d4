"""A pair whose applications follow an endpoint file, and the plan of a switchover drill of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
import threading
from typing import Any
import uuid

from drkit.config import Settings
from drkit.config.tables.drills import DrillLimits, DrillObjectives
from drkit.drill.history import DrillHistory
from drkit.drill.plan import DrillPlan, new_drill_id
from drkit.drill.report import DrillReport, check_report
from drkit.drill.run_drill import run_drill
from drkit.drill.steps import DrillOptions
from drkit.failover.watches import watch_pairs
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.repoint import endpoint_of
from drkit.repoint.file import EndpointFile
from tests.support.failback.pair import CUT, Pair, Side
from tests.support.failover.followers import Reader, Writer
from tests.support.waiting import eventually


class DrilledPair:
    """A pair that replicates in both directions, with a writer, a group at work and an idle one."""

    def __init__(self, source: LocalCluster, target: LocalCluster, folder: Path, **flow: Any) -> None:
        self.pair = Pair(source, target, folder / "journal", **flow)
        self.there: Side = self.pair.now
        self.back: Side = self.pair.other
        self.topic, self.endpoint = self.there.name("orders"), folder / "endpoint.json"
        self.group, self.idle = self.there.name("live"), self.there.name("idle")
        for side in (self.there, self.back):
            side.failover_fields["repoint"] = [{"kind": "file", "path": str(self.endpoint)}]

    @property
    def settings(self) -> Settings:
        return self.there.settings

    def plan(self, **more: Any) -> DrillPlan:
        """Return a plan that passes where all is well."""
        fields: dict[str, Any] = {
            "id": new_drill_id(uuid.uuid4().hex),
            "name": "quarterly",
            "kind": "switchover",
            "flow": self.settings.flows[0].name,
            "limits": DrillLimits(seconds=90),
            "objectives": DrillObjectives(rto_seconds=60),
            "clients_cut": CUT,
        }
        return DrillPlan(**(fields | more))

    def prepare(self, *, replicate: bool = True) -> None:
        """Create the topic and the idle group, and start both replicators.

        :param replicate: False: the test starts its own, which begins returns itself
        """
        there = self.there
        there.create(there.source, self.topic, 2, {"retention.ms": "-1"})
        there.commit(there.source, self.idle, {TopicPartition(self.topic, 0): 0})
        cluster_id = Cluster.connect(there.source).cluster_id
        EndpointFile(self.endpoint).tell(endpoint_of(there.source, term=0, cluster_id=cluster_id))
        self._begins_returns = replicate
        if replicate:
            there.replicate()
            self.back.replicate()

    @contextmanager
    def at_work(self) -> Iterator[tuple[Writer, Reader]]:
        """Let a producer and a group work until the end; returns begin as ``drkit replicate`` does it."""
        writer, reader = (
            Writer("plain", self.topic, self.endpoint),
            Reader(self.group, self.topic, self.endpoint),
        )
        with writer, reader:
            eventually(lambda: reader.committed and len(writer.acked) > 50, what="clients at work")
            self.there.copied([], {self.group: None, self.idle: None})
            self.there.protected([self.topic])
            ended = threading.Event()
            if self._begins_returns:
                watch_pairs(self.settings, self.settings.flows, ended)
            try:
                yield writer, reader
            finally:
                ended.set()
            writer.finish()
            eventually(lambda: set(writer.acked) <= set(reader.processed), 60, "all records are read")
        assert not writer.failed
        assert not [*writer.trouble, *reader.trouble]

    def begun(self, step: str) -> None:
        """Stop a replicator before a return, and start it after that: without Spark it lists topics once."""
        if side := {"PROTECT": self.there, "HOLD": self.back}.get(step):
            side.stop_replicating()
        if side := {"HOLD": self.back, "SETTLE": self.there}.get(step):
            side.replicate()

    def run(
        self,
        plan: DrillPlan,
        begun: Callable[[str], None] = lambda _: None,
        stop: threading.Event | None = None,
    ) -> DrillReport:
        """Run a drill; its report can be judged again.

        :param begun: called with the name of each step
        :param stop: as a signal sets it
        """

        def on_step(step: str) -> None:
            self.begun(step)
            begun(step)

        history = DrillHistory.of(self.settings)
        with history.lock():
            options = DrillOptions(begun=on_step, stop=stop or threading.Event())
            report = run_drill(self.settings, plan, history, options)
        assert check_report(report) == []
        return report
