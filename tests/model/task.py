"""A copy task of the model: the product's cursor and decisions; between two steps anything happens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
import random
from typing import Any
from uuid import UUID

from drkit.kafka.requests import ProducerState
from drkit.offset_map.bucket import MapBucket, Pair, pairs
from drkit.offset_map.look import Look
from drkit.offset_map.settling import confirmed_end, is_stale
from drkit.offsets import History, PartitionMap, Reign, Unavailable
from drkit.offsets.map_record import BUCKET_KEY
from drkit.offsets.resolve import NeedLog, Resolution, resolve
from drkit.offsets.takeup import Author, Fence, Frozen, Go
from drkit.replicate.bulk_progress import Sent, intents_of
from drkit.replicate.lease import PartitionLease
from drkit.replicate.map_writer import next_reign
from drkit.replicate.packing import pack_of
from drkit.replicate.partition import PartitionCopy, State
from drkit.replicate.take_up import take_up
from tests.model.world import BULK_ID, LIVE_ID, YOUNG, MapTopic, Source, Target

LEASE = History(LIVE_ID, 0)
OWN_IDS = frozenset({LIVE_ID})
SOURCE_ID, TARGET_ID = UUID(int=1), UUID(int=2)
FLOOR_MS = YOUNG // 2


class Violated(AssertionError):
    """The product broke its promise."""


@dataclass
class Request:
    """An append that was handed to the network."""

    task: int
    generation: int
    identity: History
    sequence: int
    indexes: list[int]
    losses: int
    answer: tuple[str, int] | None = None
    given_up: bool = False


@dataclass
class World:
    """All there is; the network keeps what was sent until it is delivered, however late."""

    rng: random.Random
    source: Source
    target: Target = field(default_factory=Target)
    map: MapTopic = field(default_factory=MapTopic)
    network: list[Request] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    pack_at: int = 6

    def look(self, *, former: bool = False) -> Look:
        target = self.target
        epoch, end, producers = target.leader_epoch, target.end, target.producers
        if former and target.former is not None:
            epoch, end, producers = target.former
        known = {i: ProducerState(p.epoch, p.last, -1) for i, p in producers.items()}
        return Look(0, end, leader_epoch=epoch, producers=known)

    def read(self, bucket: MapBucket) -> None:
        for offset, key, value in self.map.records:
            if offset >= bucket.next_offset:
                bucket.apply(key, value, offset)
        bucket.next_offset = self.map.end

    def settle(self, state: PartitionMap, look: Look) -> Resolution | Unavailable:
        """As settle_one does it."""
        log, log_from = None, 0
        for _ in range(12):
            copy = replace(state, segments=state.segments.copy())
            answer = resolve(copy, look.log_look(copy, OWN_IDS, frozenset({BULK_ID})), log, log_from)
            if not isinstance(answer, NeedLog):
                return answer
            log_from = answer.start
            log = [b.header() for b in self.target.log if answer.start < b.base + b.count <= look.end]
        return Unavailable("the log does not settle the map")


class Killed(Exception):
    """The task has noticed that it is to end."""


def may_send(p: PartitionCopy) -> bool:
    """As the live appender asks."""
    return p.may_send(64)


@dataclass
class Task:
    """One life of a copy task."""

    world: World
    number: int
    compacted: bool
    bucket: MapBucket = field(init=False)
    p: PartitionCopy = field(init=False)
    ending: bool = False
    map_epoch: int = -1
    bulk_epoch: int = -1
    sent: list[tuple[Request, Any]] = field(default_factory=list)
    contents: dict[int, tuple[Any, list[int]]] = field(default_factory=dict)
    barriers: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lease = PartitionLease("t", str(SOURCE_ID), "t", str(TARGET_ID), 0, 0, compacted=self.compacted)
        self.p, self.bucket = PartitionCopy(lease), MapBucket(0, "map")
        self.nonce = self.world.rng.getrandbits(60)
        self.reign = Reign(self.nonce, 0, ended=False, unclean=0)

    @property
    def state(self) -> PartitionMap:
        return self.bucket.of(SOURCE_ID, TARGET_ID, 0)

    def life(self) -> Iterator[None]:
        """Every step of a task; a kill is not to go on, a freeze to go on late."""
        try:
            yield from self._begin()
            while not (self.ending and self._drained()):
                yield from self._step()
            yield from self._mark()
            if not self.p.lost:
                ended = Reign(self.nonce, self.reign.number, True, self.reign.unclean)  # noqa: FBT003
                self._write(pairs([(BUCKET_KEY, ended)]))
        except Killed:
            return

    def _drained(self) -> bool:
        return not self.sent and not self.p.ready and not self.p.uncommitted

    def _begin(self) -> Iterator[None]:
        world = self.world
        self.bulk_epoch = world.target.take_bulk()
        yield
        self.map_epoch = world.map.take()
        yield
        while True:
            world.read(self.bucket)
            found = next_reign(self.bucket, self.reign)
            if found is None:
                return
            self.reign = found
            yield
            self._write(pairs([(BUCKET_KEY, found)]))
            yield

    def _write(self, written: list[Pair]) -> None:
        if not self.world.map.append(self.map_epoch, written):
            raise Killed

    def _step(self) -> Iterator[None]:
        p, rng = self.p, self.world.rng
        if p.state is State.STOPPED:
            raise Killed
        if self.ending:
            p.let_go()
        if p.state is State.RESOLVING:
            if self.sent:
                yield from self._receive()
            elif self.ending:
                raise Killed
            else:
                yield from self._resolve()
        elif p.state is State.BULK:
            yield from self._transaction()
        else:
            steps = [self._receive, self._send, self._send, self._mark]
            if not self.ending:
                steps += [self._fetch, self._fetch, self._stage, self._stage, self._admit]
            yield from rng.choice(steps)()

    # -- resolving --------------------------------------------------------------------------------------

    def _resolve(self) -> Iterator[None]:  # noqa: C901, PLR0912  as the product's, with a pause after each step
        world, p = self.world, self.p
        if world.target.undecided:
            yield
            return
        look = world.look(former=world.rng.random() < 0.1)
        yield
        world.read(self.bucket)
        shorter = False
        for _ in range(4):
            confirmed = confirmed_end(self.state)
            if shorter or confirmed <= look.end:
                break
            yield
            if self.world.target.undecided:
                return
            look = world.look(former=world.rng.random() < 0.3)
            shorter = look.end < confirmed
            yield
            world.read(self.bucket)
        if (confirmed_end(self.state) > look.end and not shorter) or is_stale(look, self.state):
            return
        held = self.bucket.reign
        if held is None or held.nonce != self.nonce:
            raise Killed
        yield
        if world.target.leader_epoch != look.leader_epoch and world.target.former is None:
            return  # the scan would meet another leader and fail
        found = world.settle(self.state, look)
        if isinstance(found, Unavailable):
            world.stopped.append(found.reason)
            return
        taken = take_up(p, self.state, found, look, reign=self.reign, lease=LEASE, start=world.source.start)
        yield
        if isinstance(taken.move, Frozen):
            raise Violated("frozen without a failover")
        author = Author(world.rng.getrandbits(60), self.reign.number, look.leader_epoch)
        if records := taken.records(author):
            self._write(pairs((p.key, r) for r in records))
        yield
        if isinstance(taken.move, Go):
            yield from self._pack(found, author)
        if isinstance(taken.move, Fence):
            if look.leader_epoch == world.target.leader_epoch:  # a former leader's marker is not replicated
                world.target.marker(taken.move.producer_id, taken.move.epoch)
                yield
                self._write(pairs((p.key, r) for r in taken.records_behind_fence(author)))
            yield
            return
        taken.begin()

    def _pack(self, found: Resolution, author: Author) -> Iterator[None]:
        old = list(self.bucket.keys.get(self.p.key, {}))
        if found.upstream is None or found.history is None or found.foreign or len(old) < self.world.pack_at:
            return
        batches, gone = pack_of(self.p.key, self.state, found, author, old)
        for written in [*batches, *([gone] if gone else [])]:
            self._write(written)
            yield

    # -- copying ----------------------------------------------------------------------------------------

    def _fetch(self) -> Iterator[None]:
        """The answer is as old as the schedule makes it."""
        p, source = self.p, self.world.source
        asked = p.generation, p.fetch_position
        position, epoch = p.fetch_position, p.fetched_epoch
        diverging, start, end = source.diverging(position, epoch), source.start, source.end
        out, next_source, last_epoch = source.chunks(position)
        yield
        if asked != (p.generation, p.fetch_position) or p.state is not State.LIVE or self.ending:
            return
        if position < start and diverging is None:
            if not p.pass_gap(start):
                p.void()
        elif position > end or diverging is not None:
            p.void()
            p.rewind_to = (*diverging, epoch) if diverging else (end, -1, epoch)
        elif sum(c.count for c in p.waiting) < 20:
            for chunk, indexes in out:
                self.contents[id(chunk.data)] = chunk, indexes
            p.take([chunk for chunk, _ in out], next_source, last_epoch)

    def _stage(self) -> Iterator[None]:
        p = self.p
        if not p.waiting:
            yield
            return
        barrier = object()
        self.barriers[id(barrier)] = False
        generation = p.generation
        intent = p.stage(FLOOR_MS, self.nonce, barrier)
        if p.deviation:
            reason = p.deviation
            p.void()
            p.deviation = reason
        if intent is None:
            yield
            return
        yield
        if self.world.rng.random() < 0.05:  # the map takes nothing for a while
            if generation == p.generation:
                p.void()
            return
        self._write(pairs([(p.key, intent)]))
        yield
        self.barriers[id(barrier)] = True
        self._kept = getattr(self, "_kept", [])
        self._kept.append(barrier)

    def _send(self) -> Iterator[None]:
        p = self.p
        yield
        if p.state is not State.LIVE or not p.ready or not may_send(p):
            return
        staged = p.ready[0]
        if staged.barrier is not None and not self.barriers.get(id(staged.barrier), False):
            return
        p.ready.popleft()
        p.in_flight += 1
        sequence = (staged.sequence_end - staged.records) % (1 << 31)
        _, indexes = self.contents[id(staged.data)]
        losses = self.world.target.losses
        request = Request(self.number, p.generation, p.history, sequence, indexes, losses)
        self.world.network.append(request)
        self.sent.append((request, staged))

    def _receive(self) -> Iterator[None]:
        p = self.p
        yield
        if not self.sent:
            return
        request, staged = self.sent[0]
        if request.answer is None and self.world.rng.random() < 0.8:
            return
        self.sent.pop(0)
        p.in_flight -= 1
        if request.answer is None or self.world.rng.random() < 0.05:
            request.given_up = True
            p.lost = p.lost or request.answer is None
            p.void()
        elif p.state is State.LIVE and request.generation == p.generation:
            if request.answer == ("appended", staged.base):
                p.acknowledge(staged)
            else:
                p.void()

    def _mark(self) -> Iterator[None]:
        p = self.p
        generation, mark = p.generation, p.mark(self.nonce)
        yield
        if mark is not None:
            self._write(pairs([(p.key, mark)]))
            yield
            p.confirmed(mark, generation)

    # -- bulk mode --------------------------------------------------------------------------------------

    def _admit(self) -> Iterator[None]:
        p = self.p
        yield
        if p.ready or p.in_flight or not p.oldest_is_older_than(FLOOR_MS):
            return
        if p.contested:
            p.void()
            p.deviation = "old records are copied in transactions"
        else:
            p.state = State.BULK

    def _transaction(self) -> Iterator[None]:
        p, target = self.p, self.world.target
        placed: list[tuple[Sent, int]] = []
        while p.state is State.BULK and p.oldest_is_older_than(FLOOR_MS) and len(placed) < 3:
            chunk = p.waiting.popleft()
            p.uncommitted += 1
            yield
            base = target.append_bulk(self.bulk_epoch, self.contents[id(chunk.data)][1])
            if base is None:
                raise Killed
            placed.append((Sent(p, p.generation, chunk, None), base))
            self._fetch_beside(placed[0][0])
            yield
        yield
        if placed and any(s.generation != p.generation for s, _ in placed):
            target.decide("aborted")
            return
        if placed:
            records = intents_of(placed, self.nonce)
            yield
            if self.bulk_epoch != target.bulk_epoch:
                raise Killed
            if target.leader_epoch != p.target_epoch or self.world.rng.random() < 0.2:
                target.decide("aborted")
                p.void()
                return
            target.decide("committed")
            self.world.map.commit(pairs(records))
            if self.world.rng.random() < 0.1:
                p.void()  # the answer did not come
                return
            for sent, base in placed:
                p.committed(sent.chunk, base)
        if p.waiting or self.ending:
            p.void()
        else:
            yield from self._fetch_in_bulk()

    def _fetch_beside(self, first: Sent) -> None:
        """A fetch answers while a transaction is open; the frontier stays before what is not committed."""
        p, source = self.p, self.world.source
        if not p.waiting and source.diverging(p.fetch_position, p.fetched_epoch) is None:
            p.take([], p.fetch_position, -1)
        if p.generation == first.generation and p.acked_upstream > first.chunk.runs[0].source:
            raise Violated("the frontier passes a chunk of an open transaction")

    def _fetch_in_bulk(self) -> Iterator[None]:
        self.p.void()
        yield
