"""All there is in the model: partitions, the map, the network, and how they answer what settling asks."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
import random
from typing import Any
from uuid import UUID

from drkit.kafka import codes
from drkit.kafka.requests import ProducerState
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket, Pair
from drkit.offset_map.look import LastBatch, Look
from drkit.offset_map.settling import FirstOffset, LookAt, Scan, Settled, Wanted, grown, looking, settling
from drkit.offsets import History, MapKey, PartitionMap
from drkit.offsets.map_record import SEQUENCE_MODULUS
from drkit.offsets.resolution import LogBatch
from tests.model.map_topic import Coordinator, MapRequest, MapTopic
from tests.model.source import Source
from tests.model.target import BULK_ID, LIVE_ID, Former, Leader, Target

OWN_IDS = frozenset({LIVE_ID})
SOURCE_ID, TARGET_ID = UUID(int=1), UUID(int=2)


class Violated(AssertionError):
    """The product broke its promise."""


class Killed(Exception):
    """The task has noticed that it is to end."""


class Silent(Exception):
    """A broker does not answer, or refuses to."""


@dataclass(eq=False)
class Request:
    """An append that was handed to the network."""

    task: int
    target: Target
    identity: History
    sequence: int
    indexes: list[int]
    seen: Leader
    """To which it goes."""
    answer: tuple[str, int] | None = None
    given_up: bool = False


@dataclass(eq=False)
class Lane:
    """A copied partition: its source and its target."""

    number: int
    source: Source
    target: Target = field(default_factory=Target)
    offset_of: dict[int, int] = field(default_factory=dict)
    named: set[int] = field(default_factory=set)
    """Target offsets of batches that were named as foreign."""

    @property
    def key(self) -> MapKey:
        return MapKey(SOURCE_ID, TARGET_ID, self.number)

    @property
    def name(self) -> TopicPartition:
        return TopicPartition("t", self.number)


@dataclass(eq=False)
class World:
    """All there is; the network keeps what was sent until it is delivered, however late."""

    rng: random.Random
    lanes: list[Lane]
    map: MapTopic = field(default_factory=MapTopic)
    coordinator: Coordinator = field(init=False)
    network: list[Request] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    pack_at: int = 6
    map_trouble: float = 0.0
    """How often the map gives no answer to a write."""

    def __post_init__(self) -> None:
        self.coordinator = Coordinator(self.map)

    # -- what brokers answer ----------------------------------------------------------------------------

    def metadata(self, lane: Lane) -> Leader:
        """Also brokers that are late are asked."""
        former = lane.target.former
        return former.leader if former is not None and self.rng.random() < 0.15 else lane.target.leader

    def look(self, lane: Lane, leader: Leader) -> Generator[None, None, Look]:
        """As look_at_leaders does it: producers, the end, and no transaction of drkit's is undecided."""
        yield
        seen = lane.target.at(leader)
        if seen is None:
            return Look(codes.NOT_LEADER_OR_FOLLOWER)
        if lane.target.undecided:
            return Look(codes.REQUEST_TIMED_OUT)
        known = {i: ProducerState(p.epoch, p.last, -1) for i, p in seen.producers.items()}
        yield
        seen = lane.target.at(leader)
        if seen is None:
            return Look(codes.NOT_LEADER_OR_FOLLOWER)
        return Look(0, seen.end, leader_epoch=leader.epoch, producers=known)

    def look_while_copying(self, lane: Lane, leader: Leader) -> Generator[None, None, Look]:
        """As look_while_copying does it: the start, the stable end, the batch that ends there."""
        yield
        start = lane.target.start
        yield
        if lane.target.at(leader) is None:
            return Look(codes.NOT_LEADER_OR_FOLLOWER)
        end = self._stable(lane, leader)
        yield
        bare = Look(0, end, start, leader.epoch)
        at = next((b for b in lane.target.log if b.base < end <= b.end), None)
        if end <= start or at is None or at.kind not in {"live", "foreign"}:
            return bare
        last = LastBatch(History(at.producer_id, at.epoch), (at.sequence + at.count) % SEQUENCE_MODULUS)
        return Look(0, at.end, start, leader.epoch, last=last)

    @staticmethod
    def _stable(lane: Lane, leader: Leader) -> int:
        seen = lane.target.at(leader)
        return min(seen.end, lane.target.stable_end) if isinstance(seen, Former) else -1

    def scan(self, lane: Lane, leader: Leader, asked: Scan) -> list[LogBatch]:
        target = lane.target
        seen = target.at(leader)
        if seen is None or seen.end < asked.end:
            raise Silent
        first = max(asked.start, target.start)
        out = [b.header() for b in target.log if first < b.end and b.base < asked.end]
        if not asked.first_visible:
            return out
        seen_by_all = [n for n, b in enumerate(out) if not (b.control or b.aborted)]
        return out[: seen_by_all[0] + 1] if seen_by_all else out

    def read(self, bucket: MapBucket) -> Iterator[None]:
        """Read to the end there is now; what is undecided is waited for."""
        end = self.map.end
        for _ in range(40):
            self.map.read(bucket)
            if bucket.next_offset >= end:
                return
            yield
        raise Silent

    # -- settling ---------------------------------------------------------------------------------------

    def looks(
        self, wanted: Sequence[Wanted], leaders: dict[TopicPartition, Leader], bucket: MapBucket
    ) -> Generator[None, None, dict[TopicPartition, Look]]:
        steps = looking(wanted)
        answer: dict[TopicPartition, Look] | None = None
        while True:
            try:
                asked = steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            yield
            if isinstance(asked, LookAt):
                answer = {}
                for w in asked.wanted:
                    lane = self.lanes[w.target.partition]
                    answer[w.target] = yield from self.look(lane, leaders[w.target])
            else:
                yield from self.read(bucket)
                answer = None

    def settle(self, wanted: Wanted, leader: Leader, look: Look) -> Generator[None, None, Settled]:
        lane = self.lanes[wanted.target.partition]
        steps, answer = settling(wanted, look), None
        while True:
            try:
                asked = steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            yield
            try:
                answer = (
                    lane.target.first_offset()
                    if isinstance(asked, FirstOffset)
                    else self.scan(lane, leader, asked)
                )
            except Silent:
                return Settled(None, codes.REQUEST_TIMED_OUT, look)

    def locate(self, lane: Lane, bucket: MapBucket) -> Generator[None, None, Settled]:
        """Locate the partition as a process that only reads does, beside running tasks."""
        leader = self.metadata(lane)
        look = yield from self.look_while_copying(lane, leader)
        if look.error:
            return Settled(None, look.error, look)
        yield from self.read(bucket)
        yield
        if lane.target.at(leader) is not None:
            look = grown(look, bucket.of(SOURCE_ID, TARGET_ID, lane.number), self._stable(lane, leader))
        yield
        own = OWN_IDS | {BULK_ID}
        wanted = Wanted(lane.name, bucket.of(SOURCE_ID, TARGET_ID, lane.number), own)
        settled: Settled = yield from self.settle(wanted, leader, look)
        if (doubt := bucket.doubt(MapKey(SOURCE_ID, TARGET_ID, lane.number), settled.resolution)) is not None:
            raise Violated(f"the map is in doubt: {doubt.reason}")
        return settled

    def compare(self, lane: Lane, bucket: MapBucket) -> Generator[None, None, Settled]:
        """As verify does it: the ends, then who leads, then the map."""
        start, end = lane.target.start, lane.target.stable_end
        yield
        leader = self.metadata(lane)
        yield
        yield from self.read(bucket)
        wanted = Wanted(lane.name, bucket.of(SOURCE_ID, TARGET_ID, lane.number), OWN_IDS)
        return (yield from self.settle(wanted, leader, Look(0, end, start, leader.epoch)))

    def wanted(self, lane: Lane, state: PartitionMap, seen_epoch: int) -> Wanted:
        return Wanted(lane.name, state, OWN_IDS, BULK_ID, seen_epoch, frozenset({BULK_ID}))

    def at_rest(self, lane: Lane, bucket: MapBucket) -> Settled:
        """Settled in one moment."""
        leader = lane.target.leader
        self.map.read(bucket)
        wanted = self.wanted(lane, replace(bucket.of(SOURCE_ID, TARGET_ID, lane.number)), -1)
        look = _ended(self.look(lane, leader))
        settled: Settled = _ended(self.settle(wanted, leader, look))
        return settled


def _ended(steps: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


@dataclass(eq=False)
class Writing:
    """Records that wait to be written."""

    pairs: list[Pair]
    done: str = ""
    """empty: not yet; durable or failed"""


@dataclass(eq=False)
class Writer:
    """The one writer of a bucket, as the product's: one batch at a time, its fate known before the next."""

    world: World
    epoch: int = -1
    queue: list[Writing] = field(default_factory=list)
    unknown: MapRequest | None = None

    def write(self, pairs: list[Pair]) -> Writing:
        writing = Writing(pairs)
        if pairs:
            self.queue.append(writing)
        else:
            writing.done = "durable"
        return writing

    def pump(self) -> Iterator[None]:
        """Write what waits."""
        while self.queue:
            taken = [self.queue.pop(0) for _ in range(self.world.rng.randint(1, len(self.queue)))]
            done = True
            if self.unknown is not None:
                done = yield from self._until_answered(self.unknown)
            if done:
                request = MapRequest(self.epoch, [p for w in taken for p in w.pairs])
                self.world.map.network.append(request)
                done = yield from self._until_answered(request)
            for w in taken:
                w.done = "durable" if done else "failed"

    def _until_answered(self, request: MapRequest) -> Generator[None, None, bool]:
        self.unknown = request
        yield
        if self.world.rng.random() < self.world.map_trouble:
            return False
        self.world.map.deliver(request)
        yield
        if self.world.rng.random() < self.world.map_trouble:
            return False
        if request.answer == "fenced":
            raise Killed
        self.unknown = None
        return True
