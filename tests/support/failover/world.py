"""Two clusters, a replicator, groups at different offsets, and the truth to compare a failover with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
import json
from pathlib import Path
import signal
import tempfile
from typing import Any
import uuid

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConsumerPartition

from drkit.config import ClusterSettings, Settings
from drkit.failover.service import FailoverService
from drkit.flow_state.records import SourceSeenRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import RunLog
from drkit.journal.machine import StepName
from drkit.journal.topic import JournalTopic
from drkit.kafka.groups.requests import Committed, Groups
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ADMIN
from drkit.model import TopicPartition
from drkit.status.look import StatusCollector
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector
from tests.support.flows.clusters import Clusters
from tests.support.flows.compare import Seen, read
from tests.support.flows.produce import fill
from tests.support.stored import stored
from tests.support.waiting import eventually
from tests.support.warm import WarmProcess

_ROOT = Path(__file__).parents[3]
_END_SECONDS = 20.0


class World(Clusters):
    """A flow between two clusters, with names of its own."""

    def __init__(
        self,
        source: LocalCluster,
        target: LocalCluster,
        folder: Path,
        *,
        tag: str = "",
        sides: str = "ab",
        user: str = ADMIN,
        **flow: Any,
    ) -> None:
        tag = tag or uuid.uuid4().hex[:8]
        self.folder, self.brokers = folder, (source, target)
        replicas = min(3, len(target.brokers))
        super().__init__(
            _reached(f"{sides[0]}{tag}", source, user),
            _reached(f"{sides[1]}{tag}", target, user),
            replicas,
        )
        self.flow_fields = {
            "source": self.source.alias, "target": self.target.alias, "topics": [f"{tag}-.*"],
            "groups": [f"{tag}-.*"], "buckets": 2, "heartbeats_interval_seconds": 0.5, **flow,
        }  # fmt: skip
        self.tag = tag
        self.failover_fields: dict[str, Any] = {"verify_seconds": 0.2, "drain_seconds": 20.0}
        self.control_fields: dict[str, Any] = {}
        self._replicator: WarmProcess | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the world

    @property
    def settings(self) -> Settings:
        """The current configuration."""
        return Settings.model_validate(self.plain())

    def plain(self) -> dict[str, Any]:
        """The configuration as plain data."""
        servers = {
            c.alias: {"bootstrap_servers": c.bootstrap_servers, "client": dict(c.client)}
            for c in (self.source, self.target)
        }
        failover = {"journal_folder": str(self.folder), **self.failover_fields}
        found: dict[str, Any] = {"clusters": servers, "flows": [self.flow_fields], "failover": failover}
        return found | ({"control": self.control_fields} if self.control_fields else {})

    def name(self, what: str) -> str:
        """A topic's or group's name in the flow."""
        return f"{self.tag}-{what}"

    def desk(self, **more: Any) -> FailoverService:
        """A service that runs failovers with the current configuration."""
        settings = self.settings
        return FailoverService(settings, settings.flows[0], **more)

    # -- the replicator -----------------------------------------------------------------------------

    def replicate(self) -> None:
        """Start a replicator."""
        plain = json.dumps(self.plain()).encode()
        self._replicator = WarmProcess("drkit.replicate.solo", stdin=plain, out=self._log.fileno())

    def stop_replicating(self) -> None:
        """SIGKILL the replicator."""
        if self._replicator is not None:
            self._replicator.kill()
            self._replicator.wait()
            self._replicator = None

    def end_replicating(self) -> int:
        """Send SIGTERM to the replicator; return its exit code."""
        assert self._replicator is not None
        self._replicator.send_signal(signal.SIGTERM)
        code, self._replicator = self._replicator.wait(_END_SECONDS), None
        return code

    def said(self) -> str:
        """What the replicator printed."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-3000:]

    def state(self) -> dict[str, Any]:
        """The flow's state on the target."""
        with StateTopic(self.target, self.source.alias) as found:
            found.load()
            return stored(found)

    def copy_orders(self) -> tuple[str, str]:
        """Copy a topic of 20 records and a group that has read five of them; returns their names."""
        topic, group = self.name("orders"), self.name("shop")
        self.create(self.source, topic, 1, {"retention.ms": "-1"})
        fill(self.source, topic, 20)
        self.commit(self.source, group, {TopicPartition(topic, 0): 5})
        self.replicate()
        self.copied([topic], {group: None})
        return topic, group

    def protected(self, topics: Sequence[str]) -> None:
        """Wait until `drkit status` says so of every topic: from then on a failover trusts the copies."""
        settings = self.settings
        with closing(PairedCollector(settings, settings.flows[0], groups=False)) as collector:

            def are() -> bool:
                pair = collector.look().pair
                states = {t.topic: t.state for t in pair.topics} if pair is not None else {}
                return {states.get(topic) for topic in topics} == {PairState.PROTECTED}

            eventually(are, 90, f"PROTECTED for {topics}: {self.said()}")

    def copied(self, topics: Sequence[str], groups: Mapping[str, Any] | None = None) -> None:
        """Wait until everything is copied and noted, and every group's position is on the target."""

        settings = self.settings
        collector = StatusCollector(settings, settings.flows[0])

        def done() -> bool:
            if self._replicator is not None:
                assert self._replicator.poll() is None, self.said()
            status = collector.look()
            left = {t.topic: t.records for t in status.topics}
            if any(left.get(topic) != 0 for topic in topics):
                return False
            noted = self.state().get(SourceSeenRecord.KEY, {}).get("topics", {})
            ends = {t: {str(p): e for p, e in self.offsets(self.source, t).items()} for t in topics}
            seen = {t: {p: span[1] for p, span in noted.get(t, {}).items()} for t in topics}
            return ends == seen and all(self._synced(g) for g in groups or ())

        try:
            eventually(done, 90, f"copy of {topics}: {self.said()}")
        finally:
            collector.close()

    def _synced(self, group: str) -> bool:
        theirs, ours = self.committed(self.source, group), self.committed(self.target, group)
        return len(theirs) == len(ours)

    # -- groups -------------------------------------------------------------------------------------

    def commit(self, cluster: ClusterSettings, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit from outside of the group."""
        wanted = {at: Committed(offset) for at, offset in offsets.items()}
        answer = self.ask(cluster, lambda raw: Groups(raw).alter({group: wanted}))[group]
        assert answer.value == dict.fromkeys(offsets, 0)

    def committed(self, cluster: ClusterSettings, group: str) -> dict[TopicPartition, Committed]:
        """What a group has committed."""
        found = self.ask(cluster, lambda raw: Groups(raw).committed([group]))[group]
        assert found.value is not None
        return dict(found.value)

    def consumer(self, cluster: ClusterSettings, group: str, **more: str) -> Consumer:
        """A consumer of a group."""
        return Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **{k.replace("_", "."): v for k, v in more.items()},
            }
        )

    def read_on(self, group: str, topic: str, number: int, seconds: float = 60.0) -> list[bytes]:
        """What a member of the group on the target reads first."""
        consumer = self.consumer(self.target, group)
        consumer.subscribe([topic])
        out: list[bytes] = []

        def enough() -> bool:
            for message in consumer.consume(number - len(out), 0.2):
                assert message.error() is None, message.error()
                value = message.value()
                assert isinstance(value, bytes)
                out.append(value)
            return len(out) >= number

        try:
            eventually(enough, seconds, f"{number} records for {group}, got {len(out)}")
        finally:
            consumer.close()
        return out

    # -- the truth ----------------------------------------------------------------------------------

    def records(self, cluster: ClusterSettings, topic: str) -> dict[int, list[Seen]]:
        """Everything in a topic."""
        return read(cluster, topic)

    def run_log(self) -> RunLog:
        """Return the newest run, read from the journal by a reader of its own."""
        last = self._last_run()
        assert last is not None
        return last

    def steps_begun(self) -> set[StepName]:
        """Return the steps that the newest run began; empty: there is no run."""
        last = self._last_run()
        return set() if last is None else last.begun

    def last_run_id(self) -> str:
        """Return the id of the newest run; empty: there is none."""
        last = self._last_run()
        return "" if last is None else last.run_id

    def _last_run(self) -> RunLog | None:
        loop = EventLoop()
        raw = RawCluster(loop, self.target, "test")
        topic = JournalTopic(raw, self.source.alias, self.target.alias)

        async def ask() -> None:
            await raw.connected()
            await topic.read_existing()

        try:
            loop.run(ask)
        finally:
            raw.close()
            loop.close()
        return topic.history.last

    def close(self) -> None:
        self.stop_replicating()
        self._log.close()
        super().close()


def _reached(alias: str, cluster: LocalCluster, user: str) -> ClusterSettings:
    """As one of the users where there are users, by default as the super user."""
    client = cluster.client_properties(user, "PLAIN") if cluster.spec.sasl else {}
    return ClusterSettings(alias=alias, bootstrap_servers=cluster.bootstrap(), client=client)


def assigned(topic: str, offsets: Mapping[int, int]) -> list[ConsumerPartition]:
    """Partitions for a consumer that assigns."""
    return [ConsumerPartition(topic, p, o) for p, o in offsets.items()]


def fan_out(first: World, second: World) -> dict[str, Any]:
    """Return a configuration with the flow of the second world, and the clusters of both."""
    plain: dict[str, Any] = second.plain()
    plain["clusters"] |= first.plain()["clusters"]
    return plain
