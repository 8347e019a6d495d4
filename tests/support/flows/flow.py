"""A flow between two clusters for tests of the copy task: topics, leases, tasks in and out of process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import json
from typing import Any
import uuid

from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import ControlKeys
from drkit.copy_task import copier, worker_links
from drkit.copy_task.core.assignment import PartitionAssignment, TaskAssignment
from drkit.copy_task.report import TaskReport
from drkit.flow_state.names import offset_map_topic
from drkit.kafka.transactions import new_producer_id
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offset_map.reading import load, read_on
from drkit.offset_map.settling import Wanted, settle
from drkit.offset_map.topic import bucket_of, find_map
from drkit.offsets import SegmentMap
from tests.support.flows.clusters import Clusters
from tests.support.flows.compare import read
from tests.support.flows.process import CopyProcess

_WIDEST = str((1 << 63) - 1)
DAY_MS = 86_400_000
LIVE_MAX_AGE_MS = DAY_MS // 4
"""A quarter of Kafka's default of `producer.id.expiration.ms`."""


class Flow(Clusters):
    """One direction of replication with its own aliases, map and producer id.

    :param role: the target's listener for the flow's own questions; one without a link stays quick
    :param control: the control key of the pair
    """

    def __init__(
        self,
        source: LocalCluster,
        target: LocalCluster,
        *,
        role: str = "CLIENT",
        control: ControlKeys | None = None,
        **settings: Any,
    ) -> None:
        name = uuid.uuid4().hex[:8]
        source_settings = ClusterSettings(alias=f"a{name}", bootstrap_servers=source.bootstrap())
        target_settings = ClusterSettings(
            alias=f"b{name}", bootstrap_servers=target.bootstrap(role)
        ).with_control(control)
        self.settings = FlowSettings(
            **{"source": source_settings.alias, "target": target_settings.alias, "buckets": 4, **settings}
        )
        super().__init__(source_settings, target_settings, min(3, len(target.brokers)))
        self.map_topic = offset_map_topic(self.source.alias)
        self.state_topic = f"drkit-state.{self.source.alias}.internal"
        self.epoch = 0
        self.processes: list[CopyProcess] = []
        compact = {"cleanup.policy": "compact"}
        self.create(self.target, self.map_topic, self.settings.buckets, compact)
        self.create(self.target, self.state_topic, 1, compact)
        self.producer = self.ask(self.target, new_producer_id)

    def create_both(
        self,
        name: str,
        partitions: int = 1,
        *,
        target_config: Mapping[str, str] | None = None,
        config: Mapping[str, str] | None = None,
        **more: str,
    ) -> str:
        """Create a topic on both sides; the target is created as the driver would create it."""
        wanted = {**(config or {}), **{k.replace("_", "."): v for k, v in more.items()}}
        self.create(self.source, name, partitions, wanted)
        self.create(self.target, name, partitions, self.passive(wanted, target_config))
        return name

    @staticmethod
    def passive(config: Mapping[str, str], more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The target's configuration of a topic as the driver would make it of the source's.

        But it is not compacted, so that every record can be seen; `more` may say otherwise.
        """
        return {
            **config,
            "message.timestamp.type": "CreateTime",
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "message.timestamp.before.max.ms": _WIDEST,
            "message.timestamp.after.max.ms": _WIDEST,
            **(more or {}),
        }

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
    ) -> TaskAssignment:
        """A lease of all partitions of some topics; with `once` up to their current committed ends."""
        self.epoch += 1
        partitions = []
        for topic in topics:
            theirs, ours = self.topic(self.source, topic), self.topic(self.target, topic)
            ends = self.offsets(self.source, topic) if once else {}
            for p in sorted(theirs.leaders):
                bucket = bucket_of(topic, p, self.settings.buckets)
                partitions.append(
                    PartitionAssignment(
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
        return TaskAssignment(
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

    def copy(self, *topics: str, lease: TaskAssignment | None = None, **more: Any) -> TaskReport:
        """Run a copy task here, to its end."""
        lease = lease or self.lease(*topics, **more)
        report = copier.copy_task(lease, self.source, self.target, self.settings)
        if all(p.end is not None for p in lease.partitions):
            assert report.ended == "once", report
        return report

    def start(
        self, *topics: str, lease: TaskAssignment | None = None, through: str = "", **more: Any
    ) -> CopyProcess:
        """Run a copy task in a process of its own.

        :param through: bootstrap servers of the target for this task alone, such as those of a link
        """
        lease = lease or self.lease(*topics, **more)
        target = self.target.model_dump() | ({"bootstrap_servers": through} if through else {})
        process = CopyProcess(
            {
                "lease": lease.to_json(),
                "source": self.source.model_dump(),
                "target": target,
                "flow": self.settings.model_dump(mode="json"),
            }
        )
        self.processes.append(process)
        return process

    def grown(self, topic: str, records: int, *, committed: bool = True, seconds: float = 60.0) -> None:
        try:
            super().grown(topic, records, committed=committed, seconds=seconds)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *(p.told() for p in self.processes)])) from error

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
        buckets = load(self._loop, raw, self.map_topic, range(self.settings.buckets))
        wanted = []
        for p in ours.leaders:
            bucket = bucket_of(topic, p, self.settings.buckets)
            state = buckets[bucket].of(theirs.topic_id, ours.topic_id, p)
            own = frozenset({self.producer.id})
            wanted.append(Wanted(TopicPartition(topic, p), state, own))

        async def read_map() -> None:
            where = await find_map(self._raw[self.target.alias], self.map_topic)
            for bucket in buckets.values():
                await read_on(self._raw[self.target.alias], where, bucket)

        found = self.ask(self.target, settle, {topic: ours}, wanted, read_map)
        out = {}
        for tp, settled in found.items():
            assert settled.resolution is not None, f"{tp}: error {settled.error}, {settled.answer}"
            out[tp.partition] = (settled.resolution.segments, settled.resolution.downstream)
        return out

    def close(self) -> None:
        for process in self.processes:
            process.close()
        links = worker_links._links.pop(self.settings.name, None)
        if links is not None:
            links.close()
        super().close()


def partition_states(report: Mapping[str, Any] | TaskReport) -> dict[tuple[str, int], tuple[str, str]]:
    """(state, reason) by topic and partition."""
    body = report.as_dict() if isinstance(report, TaskReport) else report
    parts: Iterable[Mapping[str, Any]] = body["partitions"]
    return {(p["topic"], p["partition"]): (p["state"], p["reason"]) for p in parts}
