"""The part of a checkpoint round that runs in Spark's executors: connections that outlive rounds."""

from __future__ import annotations

from drkit.allocator import search_seldom
from drkit.checkpoints.memory import Memory
from drkit.checkpoints.round import RoundLinks, checkpoint_round
from drkit.checkpoints.shard import Shard, ShardReport
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.kafka.groups.requests import Groups
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.mm2_topics.checkpoint_topic import CheckpointTopic
from drkit.offset_map.places import PositionReader

_CONNECT_MS = 10_000


class CheckpointTask:
    """Does rounds for shards of one flow; a round that breaks off is reported, not raised."""

    def __init__(self, source: ClusterSettings, target: ClusterSettings, flow: FlowSettings) -> None:
        self._source, self._target, self._flow = source, target, flow
        self._loop = EventLoop()
        self._memory = Memory()
        self._links: RoundLinks | None = None

    def run(self, shard: Shard) -> ShardReport:
        """One round; blocking."""
        try:
            report: ShardReport = self._loop.run(self._round, shard)
        except (DrkitError, RawError) as error:
            self._let_go()
            why = error.in_short if isinstance(error, DrkitError) else repr(error)
            return ShardReport(shard.number, shard.round, len(shard.groups), error=why)
        return report

    async def _round(self, shard: Shard) -> ShardReport:
        links = self._links or self._connect(shard.topic)
        self._links = links
        for cluster in (links.source, links.target):
            await cluster.connected()
        return await checkpoint_round(shard, links, self._memory)

    def _connect(self, topic: str) -> RoundLinks:
        source = RawCluster(self._loop, self._source, "checkpoints")
        target = RawCluster(self._loop, self._target, "checkpoints")
        places = PositionReader(target, self._flow.source)
        checkpoints = CheckpointTopic(self._target, topic) if topic else None
        return RoundLinks(source, target, places, checkpoints, Groups(source), Groups(target))

    def _let_go(self) -> None:
        """After an error the next round begins with new connections and reads the whole map again."""
        if self._links is not None:
            self._links.source.close()
            self._links.target.close()
            if self._links.topic is not None:
                self._links.topic.close()
        self._links = None

    def close(self) -> None:
        """Close the connections."""
        self._let_go()
        self._loop.close()


_tasks: dict[str, tuple[str, CheckpointTask]] = {}


def checkpoint_task(source: ClusterSettings, target: ClusterSettings, flow: FlowSettings) -> CheckpointTask:
    """The task of a flow in this process; Spark reuses its Python workers."""
    address = source.model_dump_json() + target.model_dump_json()
    known = _tasks.get(flow.name)
    if known is None or known[0] != address:
        search_seldom()
        if known is not None:
            known[1].close()
        known = _tasks[flow.name] = (address, CheckpointTask(source, target, flow))
    return known[1]
