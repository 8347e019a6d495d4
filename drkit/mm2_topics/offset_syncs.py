"""Offset syncs from the offset map, into ``mm2-offset-syncs.<alias>.internal`` (KIP-382, KIP-716).

They are for MirrorMaker 2's own readers: drkit itself goes by its map. A look at the map costs a request per
broker and one per partition that grew, and nothing of the copy tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from typing import Final
from uuid import UUID

from drkit import observe
from drkit.background import Background
from drkit.clock import monotonic
from drkit.config import FlowSettings
from drkit.errors import DrkitError
from drkit.flow_state.copied_topics import CopiedPartition, CopiedTopics, known_of
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.reading.log_tail import LogTail
from drkit.kafka.requests import LATEST, listed, metadata
from drkit.mm2_topics.topic import Mm2Topic, ensure_mm2_topic, tell_remade
from drkit.model import TopicPartition
from drkit.offset_map.places import PositionReader
from drkit.offsets import Unavailable
from drkit.offsets.mm2_records import OffsetSync
from drkit.offsets.sync_plan import HeldSyncs, Sync, plan
from drkit.offsets.translation import PartitionPosition
from drkit.time_limit import within
from drkit.wire import Record

_BUSY: Final = 0.1
"""Share of the time that looks may take; many partitions make them rarer."""
_READ_SECONDS: Final = 20.0
_STOP_SECONDS: Final = 2.0
_GOODBYE_SECONDS: Final = 0.5
Clusters = tuple[Cluster, Cluster]
"""Source and target."""


class OffsetSyncs:
    """Offset syncs that a flow's readers have, and those they should have. For one thread.

    :param state: the flow's; only what others loaded of it is read
    """

    def __init__(self, clusters: Clusters, flow: FlowSettings, state: StateTopic) -> None:
        on_source = flow.offset_syncs_topic_location == "source"
        self._home = clusters[0 if on_source else 1]
        self._flow, self._state = flow, state
        self.topic = flow.mm2_topics.offset_syncs(flow.target if on_source else flow.source)
        self._settings = clusters[1].settings
        self._loop = EventLoop()
        self._connect()
        self._held: dict[TopicPartition, HeldSyncs] = {}
        """Of the topics that are copied."""
        self._topics: AbstractSet[str] = frozenset()
        """Those whose syncs were read."""
        self._unreadable = 0
        self._seen: dict[CopiedPartition, int] = {}
        """The target's end offset when the partition was last checked."""
        self._writer: Mm2Topic | None = None
        self._topic_id: UUID | None = None

    def _connect(self) -> None:
        self._target = RawCluster(self._loop, self._settings, "offset-syncs")
        self._places = PositionReader(self._target, self._flow.source)

    def look(self) -> int:
        """Write what is new since the last look; returns how many syncs.

        :raises DrkitError: a cluster does not answer, or the topic cannot be made, read or written
        """
        known = known_of(self._state.records.copy())
        if not known.topics:
            return 0
        writer = self._open()
        if not known.topics.keys() <= self._topics:
            self._held = self._read(known.topics)  # an earlier topic of a new one's name may have syncs
        self._topics = known.topics.keys()
        self._held = {at: held for at, held in self._held.items() if at.topic in self._topics}
        try:
            planned, seen = self._loop.run(self._planned, known)
        except RawError:
            self._target.close()
            self._connect()
            raise
        writer.write(OffsetSync(*at, *sync) for at, syncs in planned.items() for sync in syncs)
        for at, syncs in planned.items():
            self._held.setdefault(at, HeldSyncs()).take(syncs)
        ends = [(w, end) for w, end in (self._seen | seen).items() if w.source.topic in known.topics]
        self._seen = {w: end for w, end in ends if w == known.pair(*w.source)}
        return sum(map(len, planned.values()))

    def _open(self) -> Mm2Topic:
        """The topic, made where it is missing; when it is another one than before, readers know nothing."""
        replicas = self._flow.offset_syncs_topic_replication_factor
        found = ensure_mm2_topic(self._home, self.topic, replicas)
        if self._writer is not None and found == self._topic_id:
            return self._writer
        tell_remade(self._flow.name, self._home, self.topic, self._topic_id, found)
        if self._writer is not None:
            self._writer.close()
        self._topics, self._seen = frozenset(), {}
        self._writer = Mm2Topic(self._home.settings, self.topic, "offset syncs")
        self._topic_id = found
        return self._writer

    def _read(self, topics: Container[str]) -> dict[TopicPartition, HeldSyncs]:
        """Read the syncs of some topics; a record that is not MirrorMaker 2's is reported and left alone."""
        held: dict[TopicPartition, HeldSyncs] = {}
        first, bad = (0, ""), 0

        def take(record: Record) -> None:
            nonlocal first, bad
            try:
                sync = OffsetSync.decode(record.key or b"", record.value or b"")
            except ValueError as error:
                first, bad = first if bad else (record.offset, str(error)), bad + 1
                return
            if sync.topic in topics:
                at = TopicPartition(sync.topic, sync.partition)
                held.setdefault(at, HeldSyncs()).take([Sync(sync.upstream, sync.downstream)])

        with closing(LogTail(self._home.settings, TopicPartition(self.topic, 0), take)) as tail:
            tail.read(_READ_SECONDS)
        if bad > self._unreadable:
            observe.event(
                "internal_topic_unreadable", level="warning", flow=self._flow.name, topic=self.topic,
                cluster=self._home.alias, records=bad, offset=first[0], reason=first[1],
                hint=f"MirrorMaker 2's own readers stop at such a record: delete {self.topic}, "
                "drkit recreates and fills it",
            )  # fmt: skip
        self._unreadable = bad
        return held

    async def _planned(
        self, known: CopiedTopics
    ) -> tuple[dict[TopicPartition, list[Sync]], dict[CopiedPartition, int]]:
        """What to write by source partition, and where the target's partitions ended."""
        await self._target.connected()
        topics = await metadata(self._target, sorted({target for target, _, _ in known.topics.values()}))
        pairs = [
            known.pair(name, number)
            for name, (target, _, _) in known.topics.items()
            for number in topics[target].leaders
        ]
        ends = await listed(self._target, topics, [w.target for w in pairs], LATEST)
        grown = [w for w in pairs if w.target in ends and ends[w.target] != self._seen.get(w)]
        places = await self._places.look(grown, known.producers, None)
        planned: dict[TopicPartition, list[Sync]] = {}
        seen = {}
        for w in grown:
            place = places[w.source]
            if not isinstance(place, Unavailable):
                seen[w] = ends[w.target]
                planned[w.source] = self._plan(w.source, place)
        return planned, seen

    def _plan(self, at: TopicPartition, place: PartitionPosition) -> list[Sync]:
        end = place.copied_end if len(place.segments) else place.end
        return plan(place.segments, end, self._held.get(at, HeldSyncs()), self._flow.offset_lag_max)

    def close(self) -> None:
        """Let go of the connections."""
        if self._writer is not None:
            self._writer.close()
        self._target.close()
        self._loop.close()


@contextmanager
def syncing(
    clusters: Clusters, state: StateTopic, now: Callable[[], FlowSettings], *, once: bool
) -> Iterator[None]:
    """Run offset syncs for as long as the context lasts; none with `once`, or if the flow wants none.

    :param now: returns the flow's current settings, which may change
    """
    flow = now()
    if once or not flow.emit_offset_syncs:
        yield
        return
    emitter = OffsetSyncEmitter(OffsetSyncs(clusters, flow, state), now)
    emitter.start()
    try:
        yield
    finally:
        within(_GOODBYE_SECONDS, emitter.stop)


class OffsetSyncEmitter(Background):
    """Writes offset syncs repeatedly, in a thread of its own; its failures never end the copy.

    After the stop, in-flight syncs may arrive or not; the next run starts from those that did.
    """

    def __init__(self, syncs: OffsetSyncs, now: Callable[[], FlowSettings]) -> None:
        self._syncs, self._now, self._flow = syncs, now, now()
        super().__init__(f"offset syncs {self._flow.name}", patience=_STOP_SECONDS)
        self._trouble = ""

    def _run(self) -> None:
        interval, took = min(self._flow.checkpoint_interval_seconds, 1.0), 0.0
        while not self._ended.wait(max(interval, took / _BUSY)):
            began = monotonic()
            interval = self._now().checkpoint_interval_seconds
            self._look()
            took = monotonic() - began
        self._syncs.close()

    def look_once(self) -> None:
        """One look, without a thread."""
        self._look()
        self._syncs.close()

    def _look(self) -> None:
        try:
            self._syncs.look()
            self._tell("", "")
        except DrkitError as error:
            self._tell(error.in_short, error.hint)

    def _tell(self, why: str, hint: str) -> None:
        """Report a failure once, and its end once."""
        if why == self._trouble or self._ended.is_set():
            return
        self._trouble = why
        if why:
            observe.event("offset_syncs_fail", level="warning", flow=self._flow.name,
                          topic=self._syncs.topic, reason=why, hint=hint)  # fmt: skip
        else:
            observe.event("offset_syncs_work", flow=self._flow.name)
