"""A new primary after a failover, alone: the old one does not answer, its tail is in an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import ControlKeys
from drkit.export.manifest import TailRange
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.names import replay_topic, state_topic
from drkit.flow_state.records import ClustersRecord, GenerationRecord, Role, RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offset_map.scan import scan
from drkit.replay.compare import HEADER, Origin, Same
from drkit.replay.plan import ReplayPlan
from drkit.replay.run import Replayer, ReplayRequest
from drkit.replay.tail import export_at
from drkit.replay.writer import ReplayResult
from drkit.wire import Record
from tests.support.flows.clusters import Clusters
from tests.support.flows.compare import Seen, read
from tests.support.flows.produce import now_ms, producer, put
from tests.support.replay.exports import Origins, write_export
from tests.support.replay.process import ReplayProcess

COPIED = 5
"""Records of each partition that the flow had copied before the failover."""
OLD_PRIMARY = "old-primary-cluster-id"
TERM = 7
YEAR_MS = 365 * 86_400_000


class ReplayWorld(Clusters):
    """Topics on the new primary as a failover leaves them, clients that write there, and replays."""

    def __init__(
        self, target: LocalCluster, folder: Path, control: ControlKeys | None = None,
        client: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        name = uuid4().hex[:8]
        self.folder = folder
        nowhere = ClusterSettings(alias=f"a{name}", bootstrap_servers="127.0.0.1:1")
        there = ClusterSettings(
            alias=f"b{name}", bootstrap_servers=target.bootstrap(), client=dict(client or {})
        ).with_control(control)
        super().__init__(nowhere, there, 1)
        self.flow = FlowSettings(source=nowhere.alias, target=there.alias)
        self.log_topic = replay_topic(self.flow.source, self.flow.target)
        self.state_topic = state_topic(self.flow.source)
        self.ids: dict[str, UUID] = {}
        """Of the old primary's topics."""
        cluster = Cluster.connect(there)
        ensure_state_topic(cluster, self.flow)
        with self.state() as state:
            state.put(ClustersRecord(OLD_PRIMARY, cluster.cluster_id))

    def state(self) -> StateTopic:
        """The flow's state."""
        return StateTopic(self.target, self.source.alias)

    def promoted(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A topic that a failover has opened, under another name than on the old primary; that name."""
        mine = f"{topic}.copy"
        self.create(self.target, mine, partitions, {"retention.ms": "-1", **(config or {})})
        out = producer(self.target)
        for p in range(partitions):
            for n in range(COPIED):
                put(out, mine, b"copied %d" % n, b"c%d" % n, partition=p)
        assert out.flush(30) == 0
        self.ids[topic] = uuid4()
        ends: dict[int, int | None] = dict(self.offsets(self.target, mine))
        with self.state() as state:
            state.put(GenerationRecord(mine, self.ids[topic], self.topic(self.target, mine).topic_id), topic)
            state.put(RoleRecord(Role.PROMOTED, TERM, "failover", now_ms(), frontiers={}, ends=ends), topic)
        return mine

    def write(self, topic: str, records: Sequence[Record], partition: int = 0) -> None:
        """What clients write to the new primary."""
        out = producer(self.target)
        for r in records:
            headers = [(name.decode(), value) for name, value in r.headers]
            put(out, topic, r.value, r.key, partition=partition, headers=headers)
        assert out.flush(30) == 0

    def export(
        self,
        tails: Mapping[TopicPartition, Sequence[Record]],
        run: str = "",
        *,
        end: int | None = None,
        **more: Any,
    ) -> str:
        """Export tails of the old primary; returns the path of the manifest."""
        found = {
            TailRange(
                at.topic, self.ids.get(at.topic, UUID(int=1)), at.partition, records[0].offset,
                records[-1].offset + 2 if end is None else end,
            ): records
            for at, records in tails.items()
        }  # fmt: skip
        of = Origins(OLD_PRIMARY, self.flow.name, TERM)
        return write_export(self.folder, run or uuid4().hex[:8], of, found, **more)

    def replayer(
        self,
        manifest: str,
        same: Same | None = None,
        *,
        quarantine: bool = False,
        kept: bool = False,
        topics: frozenset[str] = frozenset(),
    ) -> Replayer:
        """A replay of an export, in a ``with``."""
        export = export_at(manifest)
        export = export.of_topics(topics) if topics else export
        export = export.kept() if kept else export
        request = ReplayRequest(export, same, to_quarantine=quarantine)
        return Replayer(self.target, self.flow, request)

    def plan(self, manifest: str, same: Same | None = None, **more: Any) -> ReplayPlan:
        """What a replay would do."""
        with self.replayer(manifest, same, **more) as replayer, self.state() as state:
            state.load()
            return replayer.plan(state.records, dry_run=True)

    def replay(self, manifest: str, same: Same | None = None, **more: Any) -> dict[str, ReplayResult]:
        """Replay an export to its end."""
        with self.replayer(manifest, same, **more) as replayer, self.state() as state:
            state.load()
            found = replayer.run(replayer.plan(state.records))
        return {str(at): result for at, result in found.items()}

    def process(self, manifest: str, *, kill: int = -1, freeze: int = -1, **more: Any) -> ReplayProcess:
        """A replay in a process of its own.

        :param kill: it is killed before its request of this number that changes something
        """
        return ReplayProcess({
            "target": self.target.model_dump(), "flow": self.flow.model_dump(mode="json"),
            "manifest": manifest, "kill": kill, "freeze": freeze, **more,
        })  # fmt: skip

    def wrote(self, topic: str) -> dict[int, int]:
        """Offset of each record that a consumer gets of the first partition → the producer that wrote it."""
        found, end = self.topic(self.target, topic), self.offsets(self.target, topic)[0]
        at, node = TopicPartition(topic, 0), found.leaders[0].node
        batches = self.ask(self.target, scan, node, at, found.topic_id, 0, end)
        return {
            b.base + n: b.producer_id
            for b in batches
            if not (b.control or b.aborted)
            for n in range(b.records)
        }

    def seen(self, topic: str, partition: int = 0, *, isolation: str = "read_committed") -> list[Seen]:
        """What a consumer gets from the new primary, without what the flow had copied."""
        return [
            s for s in read(self.target, topic, isolation=isolation)[partition]
            if not (s.value or b"").startswith(b"copied ")
        ]  # fmt: skip


def tail(number: int, *, first: int = 100, step: int = 1, word: str = "lost", size: int = 0) -> list[Record]:
    """Records of the old primary: years old, keys that repeat, some with headers, some without a value."""
    return [
        Record(
            first + n * step,
            now_ms() - YEAR_MS + n,
            b"k%d" % (n % 17),
            None if n % 13 == 12 else f"{word} {n} ".encode() + b"x" * size,
            ((b"h", b"%d" % n), (b"h", None)) if n % 5 == 0 else (),
        )
        for n in range(number)
    ]


def own(seen: Sequence[Seen]) -> list[Seen]:
    """Those of the records that a replay has written."""
    return [s for s in seen if any(name.encode() == HEADER for name, _ in s.headers)]


def as_replayed(records: Sequence[Record], at: TopicPartition, run: str) -> list[tuple[Any, ...]]:
    """What a consumer is to get of replayed records: key, value, headers, time."""
    stamped = [Origin(OLD_PRIMARY, at, run).stamped(r) for r in records]
    return [(r.key, r.value, tuple((n.decode(), v) for n, v in r.headers), r.timestamp) for r in stamped]


def run_of(manifest: str) -> str:
    """The id of an export's run."""
    return Path(manifest).parent.name
