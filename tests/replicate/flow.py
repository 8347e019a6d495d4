"""A flow between two clusters for tests of the copy task: topics, leases, tasks in and out of process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
import json
import time
from typing import Any
import uuid
import zlib

from confluent_kafka import TopicPartition as ConsumerTopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from drkit.config import ClusterSettings, FlowSettings
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.requests import (
    EARLIEST,
    LATEST,
    ProducerState,
    TopicMetadata,
    describe_producers,
    list_offsets,
    metadata,
)
from drkit.kafka.transactions import new_producer_id
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offsets import SegmentMap
from drkit.replicate import copier, mapstore
from drkit.replicate.lease import PartitionLease, TaskLease
from drkit.replicate.report import TaskReport
from drkit.replicate.resume import Wanted, settle
from tests.replicate.compare import read
from tests.replicate.process import CopyProcess, eventually

_WIDEST = str((1 << 63) - 1)
DAY_MS = 86_400_000
LIVE_MAX_AGE_MS = DAY_MS // 4
"""A quarter of Kafka's default of `producer.id.expiration.ms`."""


class Flow:
    """One direction of replication with its own aliases, map and producer id."""

    def __init__(self, source: LocalCluster, target: LocalCluster, **settings: Any) -> None:
        name = uuid.uuid4().hex[:8]
        self.source = ClusterSettings(alias=f"a{name}", bootstrap_servers=source.bootstrap())
        self.target = ClusterSettings(alias=f"b{name}", bootstrap_servers=target.bootstrap())
        self.settings = FlowSettings(
            **{"source": self.source.alias, "target": self.target.alias, "buckets": 4, **settings}
        )
        self._admins = {
            c.alias: AdminClient({"bootstrap.servers": c.bootstrap_servers, "log_level": 0})
            for c in (self.source, self.target)
        }
        self._loop = EventLoop()
        self._raw = {c.alias: RawCluster(self._loop, c, "test") for c in (self.source, self.target)}
        self.map_topic = mapstore.topic_name(self.source.alias)
        self.state_topic = f"drkit-state.{self.source.alias}.internal"
        self.epoch = 0
        self.processes: list[CopyProcess] = []
        self.replicas = min(3, len(target.brokers))
        compact = {"cleanup.policy": "compact"}
        self.create(self.target, self.map_topic, self.settings.buckets, compact)
        self.create(self.target, self.state_topic, 1, compact)
        self.producer = self.ask(self.target, new_producer_id)

    # -- asking the clusters ----------------------------------------------------------------------

    def ask(self, cluster: ClusterSettings, question: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Ask one of the clusters, again while brokers come and go."""
        raw = self._raw[cluster.alias]

        async def go() -> Any:
            await raw.connected()
            return await question(raw, *args, **more)

        deadline = time.monotonic() + 60
        while True:
            try:
                return self._loop.run(go)
            except RawError:
                assert time.monotonic() < deadline, f"{cluster.alias} does not answer"
                self._raw[cluster.alias].close()
                raw = self._raw[cluster.alias] = RawCluster(self._loop, cluster, "test")

    def topic(self, cluster: ClusterSettings, name: str) -> TopicMetadata:
        found: TopicMetadata = self.ask(cluster, metadata, [name])[name]
        return found

    def offsets(
        self, cluster: ClusterSettings, topic: str, when: int = LATEST, *, committed: bool = True
    ) -> dict[int, int]:
        """Offsets by partition, asked until every partition has a leader that answers."""

        def once() -> dict[int, int] | None:
            out = {}
            for partition, leader in self.topic(cluster, topic).leaders.items():
                tp = TopicPartition(topic, partition)
                if leader.node < 0:
                    return None
                answer = self.ask(cluster, list_offsets, leader.node, {tp: when}, committed=committed)[tp]
                if answer.error:
                    return None
                out[partition] = answer.offset
            return out

        return eventually(once, what=f"offsets of {topic}")

    def starts(self, cluster: ClusterSettings, topic: str) -> dict[int, int]:
        return self.offsets(cluster, topic, EARLIEST)

    def producers(self, topic: str, partition: int = 0) -> dict[int, ProducerState]:
        """What the target's leader remembers of producers."""
        node = self.topic(self.target, topic).leaders[partition].node
        tp = TopicPartition(topic, partition)
        known: dict[int, ProducerState] = self.ask(self.target, describe_producers, node, [tp])[tp][1]
        return known

    # -- topics -------------------------------------------------------------------------------------

    def create(
        self,
        cluster: ClusterSettings,
        name: str,
        partitions: int,
        config: Mapping[str, str],
        replicas: int = 0,
    ) -> None:
        """Create a topic and wait until every partition has a leader."""
        new = NewTopic(name, partitions, replicas or self.replicas, config=dict(config))
        self._admins[cluster.alias].create_topics([new])[name].result(30)
        eventually(
            lambda: (
                len(t := self.topic(cluster, name).leaders) == partitions
                and all(leader.node >= 0 for leader in t.values())
            ),
            what=f"leaders of {name}",
        )

    def create_both(
        self,
        name: str,
        partitions: int = 1,
        *,
        target_config: Mapping[str, str] | None = None,
        **config: str,
    ) -> str:
        """Create a topic on both sides; the target is created as the driver would create it."""
        wanted = {k.replace("_", "."): v for k, v in config.items()}
        self.create(self.source, name, partitions, wanted)
        passive = {
            **wanted,
            "message.timestamp.type": "CreateTime",
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "message.timestamp.before.max.ms": _WIDEST,
            "message.timestamp.after.max.ms": _WIDEST,
            **(target_config or {}),
        }
        self.create(self.target, name, partitions, passive)
        return name

    def delete(self, cluster: ClusterSettings, name: str) -> None:
        self._admins[cluster.alias].delete_topics([name])[name].result(30)
        eventually(lambda: self.topic(cluster, name).error == 3, what=f"end of {name}")

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Trim the source, as retention would."""
        cut = ConsumerTopicPartition(topic, partition, before)
        self._admins[self.source.alias].delete_records([cut])[cut].result(30)

    def grow(self, cluster: ClusterSettings, name: str, partitions: int) -> None:
        self._admins[cluster.alias].create_partitions([NewPartitions(name, partitions)])[name].result(30)
        eventually(lambda: len(self.topic(cluster, name).leaders) == partitions)

    # -- copying ------------------------------------------------------------------------------------

    def lease(
        self,
        *topics: str,
        once: bool = True,
        seconds: float = 60.0,
        grace: float = 10.0,
        live_max_age_ms: int = LIVE_MAX_AGE_MS,
        compacted: bool = False,
        **more: Any,
    ) -> TaskLease:
        """A lease of all partitions of some topics; with `once` up to the committed ends of now."""
        self.epoch += 1
        partitions = []
        for topic in topics:
            theirs, ours = self.topic(self.source, topic), self.topic(self.target, topic)
            ends = self.offsets(self.source, topic) if once else {}
            for p in sorted(theirs.leaders):
                bucket = zlib.crc32(f"{topic}/{p}".encode()) % self.settings.buckets
                partitions.append(
                    PartitionLease(
                        topic,
                        str(theirs.topic_id),
                        topic,
                        str(ours.topic_id),
                        p,
                        bucket,
                        compacted=compacted,
                        end=ends.get(p),
                        **more,
                    )
                )
        return TaskLease(
            self.settings.name,
            "run",
            self.epoch,
            0,
            1,
            self.producer.id,
            self.producer.epoch,
            (self.producer.id,),
            (),
            self.map_topic,
            self.state_topic,
            seconds,
            grace,
            live_max_age_ms,
            tuple(partitions),
        )

    def copy(self, *topics: str, lease: TaskLease | None = None, **more: Any) -> TaskReport:
        """Run a copy task here, to its end."""
        return copier.copy_task(lease or self.lease(*topics, **more), self.source, self.target, self.settings)

    def start(self, *topics: str, lease: TaskLease | None = None, **more: Any) -> CopyProcess:
        """Run a copy task in a process of its own."""
        lease = lease or self.lease(*topics, **more)
        process = CopyProcess(
            {
                "lease": lease.to_json(),
                "source": self.source.model_dump(),
                "target": self.target.model_dump(),
                "flow": self.settings.model_dump(mode="json"),
            }
        )
        self.processes.append(process)
        return process

    # -- what it left behind ------------------------------------------------------------------------

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """Events of the state topic, oldest first."""
        seen = read(self.target, self.state_topic)[0]
        bodies = [json.loads(s.value) for s in seen if s.key and s.key.startswith(b"event/") and s.value]
        return [b for b in bodies if kind in {"", b["kind"]}]

    def settled(self, topic: str) -> dict[int, tuple[SegmentMap, int]]:
        """The map of a topic settled against the target's log: segments and the target's end."""
        theirs, ours = self.topic(self.source, topic), self.topic(self.target, topic)
        raw = self._raw[self.target.alias]
        buckets = mapstore.load(self._loop, raw, self.map_topic, range(self.settings.buckets))
        wanted = []
        for p in ours.leaders:
            bucket = zlib.crc32(f"{topic}/{p}".encode()) % self.settings.buckets
            state = buckets[bucket].of(theirs.topic_id, ours.topic_id, p)
            own = frozenset({self.producer.id})
            wanted.append(Wanted(TopicPartition(topic, p), state, own, self.producer.id))

        async def read_map() -> None:
            where = await mapstore.find_map(self._raw[self.target.alias], self.map_topic)
            for bucket in buckets.values():
                await bucket.read(self._raw[self.target.alias], self.map_topic, where)

        found = self.ask(self.target, settle, {topic: ours}, wanted, read_map)
        out = {}
        for tp, settled in found.items():
            assert settled.resolution is not None, f"{tp}: error {settled.error}"
            out[tp.partition] = (settled.resolution.segments, settled.resolution.downstream)
        return out

    def close(self) -> None:
        for process in self.processes:
            process.close()
        links = copier._links.pop(self.settings.name, None)
        if links is not None:
            links.close()
        for raw in self._raw.values():
            raw.close()
        self._loop.close()


def partition_states(report: Mapping[str, Any] | TaskReport) -> dict[tuple[str, int], tuple[str, str]]:
    """(state, reason) by topic and partition."""
    body = report.as_dict() if isinstance(report, TaskReport) else report
    parts: Iterable[Mapping[str, Any]] = body["partitions"]
    return {(p["topic"], p["partition"]): (p["state"], p["reason"]) for p in parts}
