"""Two flows between two clusters, of which one copies at a time; a test turns them as an orchestrator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import StrEnum
import time
from typing import Any, Final

from drkit.copy_task.core.assignment import TaskAssignment
from drkit.copy_task.report import TaskReport
from drkit.failover.emptying.empty import empty, not_empty
from drkit.failover.fencing.own_writers import fence
from drkit.flow_state.copied_topics import (
    CopiedPartition,
    known_of,
    written_of,
)
from drkit.flow_state.lease.run_lease import FlowLease
from drkit.flow_state.producer_ids import on_record, renew_live_id
from drkit.flow_state.records import OffsetMapRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.transactions import OpenProducer, ProducerIdentity, new_producer_id
from drkit.kafka.transport import permitted_by
from drkit.model import TopicPartition
from drkit.offset_map.places import PositionReader
from drkit.offset_map.seeding import SeededPartition, write_seeds
from drkit.offsets import Unavailable
from drkit.offsets.seed import CopyEnd, seed_after, seed_of_emptied
from drkit.offsets.takeup import FROZEN_EPOCH
from drkit.offsets.translation import PartitionPosition
from tests.support.flows.compare import read
from tests.support.flows.exactness import every_offset, ids_of, same_behind
from tests.support.flows.flow import Flow
from tests.support.flows.known_flow import remember
from tests.support.waiting import eventually


async def aborts(_: OpenProducer) -> bool:
    """Decide that a transaction is not committed."""
    return False


class Method(StrEnum):
    """How a partition begins in the direction that a turn begins."""

    DELTA = "delta"
    REBUILD = "rebuild"
    TRIM = "trim"


ALL_DELTA: Final[Mapping[int, Method]] = {}


class Direction:
    """One flow of a pair, known by its state as to drkit."""

    def __init__(self, flow: Flow, topic: str) -> None:
        self.flow, self.topic = flow, topic
        self.state = StateTopic(flow.target, flow.source.alias)
        remember(flow, topic)
        self.state.load()
        self.state.put(OffsetMapRecord(flow.topic(flow.target, flow.map_topic).topic_id))
        self.is_new = True
        """Its live id was never used."""
        self.given_up: dict[int, int] = {}
        """Source offset by partition before which records were given up: they may have no position."""

    @property
    def ids(self) -> tuple[int, ...]:
        """All that it ever wrote with."""
        return on_record(self.state.records)

    def renew(self) -> None:
        """Give it another live id, unless the current one was never used."""
        if not self.is_new:
            ask = lambda: self.flow.ask(self.flow.target, new_producer_id)  # noqa: E731  asked when needed
            self.flow.producer = renew_live_id(self.state, [self.flow.producer.id], ask)
        self.is_new = True

    def lease(self, opposite: Direction, **more: Any) -> TaskAssignment:
        """What the driver would hand to a task: with the cuts, and the ids of the opposite flow."""
        self.is_new = False
        self.state.load()
        lease, records = self.flow.lease(self.topic, **more), self.state.records
        cuts, rebuilt, emptied = known_of(records).cuts, known_of(records).rebuilt, known_of(records).emptied
        written = written_of(records)
        places = ((p, TopicPartition(p.source_topic, p.partition)) for p in lease.partitions)
        partitions = (
            replace(
                p,
                skip_from=cuts.get(at),
                rebuilt_from=rebuilt.get(at),
                emptied_to=emptied.get(at, 0),
                returning=bool(cuts),
                written_at=written[at].offset if at in written else None,
            )
            for p, at in places
        )
        return replace(
            lease, partitions=tuple(partitions), skip_producer_ids=opposite.ids, own_producer_ids=self.ids
        )

    def places(self) -> dict[int, PartitionPosition | Unavailable]:
        """Where its partitions are, as its state and both clusters say."""
        self.state.load()
        known = known_of(self.state.records)
        wanted = [known.pair(self.topic, p) for p in self.flow.topic(self.flow.target, self.topic).leaders]

        async def look(target: RawCluster) -> dict[TopicPartition, PartitionPosition | Unavailable]:
            reader = PositionReader(target, self.flow.source.alias)
            return await reader.look(wanted, known.producers, self.flow._raw[self.flow.source.alias])

        return {at.partition: place for at, place in self.flow.ask(self.flow.target, look).items()}

    @contextmanager
    def held(self) -> Iterator[None]:
        """With the flow's lease, which each request asks for."""
        lease = FlowLease(self.flow.target, self.flow.settings, self.state, "orchestrator")
        lease.acquire()
        try:
            with permitted_by(lease.check):
                yield
        finally:
            lease.release()

    def fence(self) -> None:
        """End its live id on all partitions, as FREEZE does."""
        leaders = self.flow.topic(self.flow.target, self.topic).leaders
        writer = ProducerIdentity(self.flow.producer.id, FROZEN_EPOCH)
        writers = {TopicPartition(self.topic, p): (writer,) for p in leaders}
        done = self.flow.ask(self.flow.target, fence, writers, time.monotonic() + 60, decide=aborts)
        assert not done, done

    def close(self) -> None:
        self.state.close()


class Turning:
    """A topic, the direction that copies it, and the other one."""

    def __init__(self, there: Flow, back: Flow, topic: str) -> None:
        self.now, self.other = Direction(there, topic), Direction(back, topic)
        self.topic = topic

    def copy(self) -> TaskReport:
        """Copy what is there now in the current direction."""
        lease = self.now.lease(self.other)
        return self.now.flow.copy(lease=lease)

    def turn(self, methods: Mapping[int, Method] = ALL_DELTA) -> list[SeededPartition]:
        """End the current direction and begin the other one.

        :param methods: how partitions begin; all others by delta, which have no record that is not copied
        """
        seeds = self.end(methods)
        self.empty(seeds)
        self.write(seeds)
        return seeds

    def end(self, methods: Mapping[int, Method] = ALL_DELTA) -> list[SeededPartition]:
        """End the current direction; the other one is the current one then, and has not begun."""
        self.now.fence()
        seeds = self.seeds(methods)
        self.other.renew()
        self.now, self.other = self.other, self.now
        return seeds

    def seeds(self, methods: Mapping[int, Method] = ALL_DELTA) -> list[SeededPartition]:
        """How the other direction begins."""
        known, flow = self.now.places(), self.other.flow
        cuts, ends = flow.offsets(flow.source, self.topic), flow.offsets(flow.target, self.topic)
        records, ids = read(flow.source, self.topic), ids_of(flow, self.topic)
        starts = flow.starts(flow.source, self.topic)
        found = []
        for p, place in known.items():
            assert isinstance(place, PartitionPosition), place
            at, first = TopicPartition(self.topic, p), records[p][0].offset if records[p] else None
            pair, method = CopiedPartition(at, at, *ids), methods.get(p, Method.DELTA)
            if method is Method.DELTA:
                seed = seed_after(place.segments, place.copied_end, CopyEnd(cuts[p], ends[p]), first)
                found.append(SeededPartition(pair, seed))
                continue
            begin = starts[p] if method is Method.REBUILD else cuts[p]
            seed = seed_of_emptied(CopyEnd(begin, ends[p]), first)
            found.append(SeededPartition(pair, seed, cuts[p], ends[p]))
            self.other.given_up[p] = begin
        return found

    def empty(self, seeds: Iterable[SeededPartition]) -> None:
        """Empty the partitions that begin again, with retention and compaction as they are."""
        flow = self.now.flow
        flow.ask(flow.target, empty, _emptied(seeds))

    def open(self) -> None:
        """Empty again what was emptied for the current direction, now or at an earlier turn, as OPEN does."""
        flow, records = self.now.flow, self.now.state.records
        known = {TopicPartition(self.topic, at.partition): o for at, o in known_of(records).emptied.items()}
        flow.ask(flow.target, empty, known)

    def came_back(self, seeds: Iterable[SeededPartition]) -> dict[int, int]:
        """Partitions that are not empty any more, and where they begin."""
        flow = self.now.flow
        found: dict[TopicPartition, int] = flow.ask(flow.target, not_empty, _emptied(seeds))
        return {at.partition: start for at, start in found.items()}

    def write(self, seeds: Iterable[SeededPartition]) -> None:
        """Begin the current direction with these seeds, under its lease."""
        to = self.now
        with to.held():
            write_seeds(to.flow.target, to.flow.settings, to.state, seeds)

    def is_exact(self) -> int:
        """Compare every offset of both logs in the current direction; returns how many."""
        return every_offset(self.now.flow, self.topic)

    def every_position(self) -> int:
        """For every offset of the source: the records after it and after its position are the same.

        Only what was given up may have no position. Returns how many have one.
        """
        now, flow = self.now, self.now.flow
        on_source, on_target = read(flow.source, self.topic), read(flow.target, self.topic)
        starts, exact = flow.starts(flow.source, self.topic), 0
        for p, place in now.places().items():
            assert isinstance(place, PartitionPosition), f"{p}: {place}"
            exact += same_behind(
                place, on_source[p], on_target[p], starts[p], now.given_up.get(p, 0), f"{self.topic}-{p}"
            )  # fmt: skip
        return exact

    def restarted(self, cluster: Any, alias: str) -> None:
        """Kill a cluster's brokers and start them again: its partitions have other leader epochs."""
        cluster.kill()
        cluster.restart()
        flow = self.now.flow
        side = flow.source if flow.source.alias == alias else flow.target

        def leads() -> bool:
            with suppress(RawError):
                return bool(flow.offsets(side, self.topic))
            return False

        eventually(leads, what=f"leaders of {self.topic}")

    def close(self) -> None:
        for direction in (self.now, self.other):
            direction.close()


def _emptied(seeds: Iterable[SeededPartition]) -> dict[TopicPartition, int]:
    return {s.partition.target: s.emptied for s in seeds if s.emptied is not None}
