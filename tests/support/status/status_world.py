"""Two clusters and a flow that `drkit replicate` runs, for tests of what is said of it."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
import signal
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConsumerPartition

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.ports import PortReservation
from drkit.local.spec import ClusterSpec
from drkit.status.groups import GroupStatus
from drkit.status.look import StatusCollector
from drkit.status.model import FlowStatus
from tests.support.cli.forked import Forked
from tests.support.flows.process import tree
from tests.support.kafka.commits import commit

PLAIN, TRANSACTIONAL, GROUP = "orders", "payments", "shipping"


class World:
    """Two clusters and a flow, run by `drkit replicate` in a process group of its own."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target = LocalCluster(ClusterSpec("source")), LocalCluster(ClusterSpec("target"))
        start_together(self.source, self.target)
        self.a = ClusterSettings(alias="a", bootstrap_servers=self.source.bootstrap())
        self.b = ClusterSettings(alias="b", bootstrap_servers=self.target.bootstrap())
        # The heartbeats travel although no topic is called like that in the flow.
        flow = FlowSettings(source="a", target="b", topics=(PLAIN, TRANSACTIONAL), buckets=2, tasks=1)
        self.settings = Settings(clusters={"a": self.a, "b": self.b}, flows=(flow,))
        self.flow, self.folder = flow, folder
        self.port = PortReservation().reserve()
        self.config = folder / "drkit.toml"
        self.config.write_text(
            f'[clusters.a]\nbootstrap_servers = "{self.a.bootstrap_servers}"\n'
            f'[clusters.b]\nbootstrap_servers = "{self.b.bootstrap_servers}"\n'
            f'[[flows]]\nsource = "a"\ntarget = "b"\ntopics = ["{PLAIN}", "{TRANSACTIONAL}"]\n'
            "buckets = 2\ntasks = 1\n"
        )
        self._process: Forked | None = None

    def replicate(self) -> None:
        self._process = Forked(
            "replicate", "--config", str(self.config), "--metrics-port", str(self.port),
            said=self.folder / "said",
        )  # fmt: skip

    def signal(self, number: int) -> None:
        """To the process and everything below it: Spark's workers are in groups of their own."""
        for pid in tree(self._process.pid) if self._process is not None else ():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def commit(self, offset: int) -> None:
        """As an application does that has read the first partition so far."""
        servers = {"bootstrap.servers": self.a.bootstrap_servers, "group.id": GROUP}
        member = Consumer(servers)
        commit(member, ConsumerPartition(PLAIN, 0, offset))
        member.close()

    def group(self, offset: int) -> GroupStatus | None:
        """The group, once it is ready at an offset of the source, with nothing to read again."""
        seen = self.look().groups
        assert seen is not None
        found = next((g for g in seen.groups if g.group == GROUP), None)
        if found is None or not found.ready or found.repeats:
            return None
        return found if found.partitions[0].committed == offset else None

    def look(self, **more: Any) -> FlowStatus:
        collector = StatusCollector(self.settings, self.flow, **more)
        try:
            return collector.look()
        finally:
            collector.close()

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def healthy(self) -> FlowStatus | None:
        assert self._process is None or self._process.poll() is None, (self.folder / "said").read_text()
        found = self.look()
        return None if found.faults else found

    def close(self) -> None:
        self.kill()
        self.source.stop()
        self.target.stop()
