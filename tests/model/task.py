"""A copy task of the model: the product's cursor and decisions; between two steps anything happens."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.copy_task.target.bulk import Sent, acknowledge, intents_of
from drkit.copy_task.target.resolver import pack_of
from drkit.copy_task.target.take_up import TakeUp, take_up
from drkit.offset_map.bucket import MapBucket, Pair, pairs
from drkit.offset_map.look import Look
from drkit.offset_map.settling import Settled
from drkit.offset_map.writer import next_reign
from drkit.offsets import History, PartitionMap, Reign, Unavailable
from drkit.offsets.map_record import BUCKET_KEY
from drkit.offsets.resolution import Resolution
from drkit.offsets.takeup import Author, Fence, Frozen, Go
from tests.model.scene import (
    SOURCE_ID,
    TARGET_ID,
    Killed,
    Lane,
    Request,
    Silent,
    Violated,
    World,
    Writer,
)
from tests.model.source import YOUNG
from tests.model.target import LIVE_ID, Leader

LEASE = History(LIVE_ID, 0)
FLOOR_MS = YOUNG // 2
ROUNDS = 3
"""Rounds of a transaction, at most."""

Steps = Generator[None, None, None]


class MapFailed(Exception):
    """The map did not take records in time; whether it will is unknown."""


def may_send(p: PartitionCopy) -> bool:
    """As the live appender asks."""
    return p.in_flight < (1 if p.alone else 64)


@dataclass(eq=False)
class Copy:
    """A lane as a task sees it."""

    lane: Lane
    p: PartitionCopy
    leader: Leader = Leader(-1, -1)  # noqa: RUF009  it is immutable
    """As metadata said when it was settled."""
    sent: list[tuple[Request, Any, int]] = field(default_factory=list)
    contents: dict[int, tuple[Any, list[int]]] = field(default_factory=dict)
    barriers: dict[object, bool] = field(default_factory=dict)
    open: list[Sent] = field(default_factory=list)
    """In the open transaction."""

    def fetch(self, *, ending: Callable[[], bool]) -> Steps:
        """The answer is as old as the schedule makes it."""
        p, source = self.p, self.lane.source
        asked = p.generation, p.fetch_position
        position, epoch = p.fetch_position, p.fetched_epoch
        diverging, start, end = source.diverging(position, epoch), source.start, source.end
        out, next_source, last_epoch = source.chunks(position)
        yield
        if asked != (p.generation, p.fetch_position) or not p.wants_more or ending():
            return
        if position < start and diverging is None:
            if not p.pass_gap(start):
                p.void()
        elif position > end or diverging is not None:
            p.void()
            p.rewind(*(diverging or (end, -1)))
        elif sum(c.count for c in p.waiting) < 20:
            for chunk, indexes in out:
                self.contents[id(chunk.data)] = chunk, indexes
            p.take([chunk for chunk, _ in out], next_source, last_epoch)
        for sent in self.open:
            if p.generation == sent.generation and p.acked_upstream > sent.chunk.runs[0].source:
                raise Violated("the frontier passes a chunk of an open transaction")


@dataclass(eq=False)
class Task:
    """One life of a copy task: what it does at once, in any order."""

    world: World
    number: int
    compacted: bool
    bucket: MapBucket = field(default_factory=lambda: MapBucket(0, "map"))
    copies: list[Copy] = field(init=False)
    writer: Writer = field(init=False)
    ending: bool = False
    bulk_epoch: int = -1
    broken: bool = False
    """Its transaction is to be given up."""
    active: dict[str, Iterator[None]] = field(default_factory=dict)
    claims: int = 0

    def __post_init__(self) -> None:
        self.copies = [
            Copy(lane, PartitionCopy(PartitionAssignment(
                "t", str(SOURCE_ID), "t", str(TARGET_ID), lane.number, 0, compacted=self.compacted
            )))
            for lane in self.world.lanes
        ]  # fmt: skip
        self.writer = Writer(self.world)
        self.nonce = self.world.rng.getrandbits(60)
        self.reign = Reign(self.nonce, 0, ended=False, unclean=0)

    def state(self, p: PartitionCopy) -> PartitionMap:
        return self.bucket.of(SOURCE_ID, TARGET_ID, p.lease.partition)

    # -- life -------------------------------------------------------------------------------------------

    def life(self) -> Iterator[None]:
        """Every step of a task: after a kill no step follows, after a freeze they follow late."""
        try:
            yield from self._begin()
            while not (self.ending and self._drained()):
                self._one_step()
                yield
            yield from self._end()
        except (Killed, MapFailed, Silent):
            return

    def _begin(self) -> Steps:
        self.bulk_epoch = self.world.coordinator.take()
        yield
        self.writer.epoch = self.world.map.take()
        yield
        while True:
            yield from self.world.read(self.bucket)
            found = next_reign(self.bucket, self.reign)
            if found is None:
                return
            self.reign = found
            yield
            yield from self._write_now([(BUCKET_KEY, found)])

    def _write_now(self, records: Any) -> Steps:
        writing = self.writer.write(pairs(records))
        yield from self.writer.pump()
        if writing.done != "durable":
            raise MapFailed

    def _write(self, written: list[Pair]) -> Steps:
        """Wait until the records are durable; the writer's own steps are taken beside."""
        writing = self.writer.write(written)
        while not writing.done:
            yield
        if writing.done == "failed":
            raise MapFailed

    def _drained(self) -> bool:
        live = [c for c in self.copies if c.p.state is CopyState.LIVE]
        return not any(c.sent or c.p.ready for c in live) and "bulk" not in self.active

    def _end(self) -> Steps:
        """What was begun continues beside the last marks."""
        last = self._marks(last=True)
        try:
            while next(last, StopIteration) is not StopIteration:
                self._one_step(only_begun=True)
                yield
        except MapFailed:
            return
        if any(c.sent or c.p.ready or c.p.lost for c in self.copies):
            return
        over = Reign(self.nonce, self.reign.number, ended=True, unclean=self.reign.unclean)
        ended = self._write(pairs([(BUCKET_KEY, over)]))
        while next(ended, StopIteration) is not StopIteration:
            self._one_step(only_begun=True)
            yield

    def _one_step(self, *, only_begun: bool = False) -> None:
        if any(c.p.state is CopyState.STOPPED for c in self.copies):
            raise Killed
        if self.ending:
            for c in self.copies:
                c.p.let_go()
        may_begin = {} if only_begun else self._may_begin()
        if self.writer.queue:
            may_begin["pump"] = self.writer.pump
        names = [*self.active, *(n for n in may_begin if n not in self.active)]
        if not names:
            return
        name = self.world.rng.choice(names)
        if name not in self.active:
            self.active[name] = may_begin[name]()
        step = self.active[name]
        if next(step, StopIteration) is StopIteration:
            self.active.pop(name, None)

    def _may_begin(self) -> dict[str, Callable[[], Iterator[None]]]:
        out: dict[str, Callable[[], Iterator[None]]] = {}
        for n, c in enumerate(self.copies):
            p = c.p
            if c.sent:
                out[f"receive {n}"] = lambda c=c: self._receive(c)  # type: ignore[misc]
            if p.state is CopyState.LIVE and p.ready:
                out[f"send {n}"] = lambda c=c: self._send(c)  # type: ignore[misc]
            if p.state is CopyState.LIVE and p.waiting:
                out[f"stage {n}"] = lambda c=c: self._stage(c)  # type: ignore[misc]
            if p.wants_more and not self.ending:
                out[f"fetch {n}"] = lambda c=c: c.fetch(ending=lambda: self.ending)  # type: ignore[misc]
        if any(c.p.state is not CopyState.RESOLVING for c in self.copies):
            out["mark"] = self._marks
        if not self.ending:
            if any(c.p.state is CopyState.RESOLVING and c.p.answered for c in self.copies):
                out["resolve"] = self._resolve
            if self.broken or any(c.p.state is CopyState.BULK or self._admissible(c.p) for c in self.copies):
                out["bulk"] = self._bulk
        return out

    # -- resolving --------------------------------------------------------------------------------------

    def _resolve(self) -> Steps:
        """As the product's resolver, with a pause after each step."""
        due = [c for c in self.copies if c.p.state is CopyState.RESOLVING and c.p.answered]
        try:
            yield from self._resolved(due)
        except (MapFailed, Silent):
            for c in due:
                c.p.void()

    def _resolved(self, due: list[Copy]) -> Steps:  # noqa: C901  one step after the other
        world = self.world
        leaders = {c.lane.name: world.metadata(c.lane) for c in due}
        for c in due:
            c.leader = leaders[c.lane.name]
        wanted = [world.wanted(c.lane, self.state(c.p), c.p.target_epoch) for c in due]
        looks = yield from world.looks(wanted, leaders, self.bucket)
        settled = {}
        for w in wanted:
            settled[w.target] = yield from world.settle(w, leaders[w.target], looks[w.target])
        held = self.bucket.reign
        if held is None or held.nonce != self.nonce:
            raise Killed
        found = []
        for c in due:
            taken = self._take_up(c, settled[c.lane.name])
            if taken is not None:
                found.append((c, taken, leaders[c.lane.name]))
        yield from self._write(
            pairs((t.p.key, r) for _, t, _ in found for r in t.records(self._author(t.look)))
        )
        for c, taken, _ in found:
            if isinstance(taken.move, Go):
                yield from self._pack(c, taken)
        for c, taken, leader in found:
            if isinstance(taken.move, Fence):
                yield from self._fence(c, taken, taken.move, leader)
        for c, taken, _ in found:
            if c.p.state is CopyState.RESOLVING and taken.may_begin:
                self._name(c, taken.found)
                taken.begin()

    def _take_up(self, c: Copy, settled: Settled) -> TakeUp | None:
        p = c.p
        if (doubt := self.bucket.doubt(p.key, settled.resolution)) is not None:
            raise Violated(f"the map is in doubt: {doubt.reason}")
        if isinstance(settled.answer, Unavailable):
            self.world.stopped.append(settled.answer.reason)
        if p.state is not CopyState.RESOLVING:
            return None
        found = settled.resolution
        if found is None:
            p.void()
            return None
        taken = take_up(
            p, self.state(p), found, settled.look, reign=self.reign, lease=LEASE, start=c.lane.source.start
        )
        if isinstance(taken.move, Frozen):
            raise Violated("frozen without a failover")
        return taken

    def _author(self, look: Look) -> Author:
        return Author(self.world.rng.getrandbits(60), self.reign.number, look.leader_epoch)

    def _pack(self, c: Copy, taken: TakeUp) -> Steps:
        found, old = taken.found, list(self.bucket.keys.get(c.p.key, {}))
        if found.upstream is None or found.history is None or found.foreign or len(old) < self.world.pack_at:
            return
        yield
        found.segments.trim(c.lane.target.start)
        batches, gone = pack_of(c.p.key, self.state(c.p), found, self._author(taken.look), old)
        for written in [*batches, *([gone] if gone else [])]:
            yield from self._write(written)

    def _fence(self, c: Copy, taken: TakeUp, fence: Fence, leader: Leader) -> Steps:
        yield
        target = c.lane.target
        if target.leader.node != leader.node or not target.marker(fence.producer_id, fence.epoch):
            return  # a former leader's marker is not replicated
        yield
        records = taken.records_behind_fence(self._author(taken.look))
        yield from self._write(pairs((c.p.key, r) for r in records))
        self._name(c, taken.found)

    @staticmethod
    def _name(c: Copy, found: Resolution) -> None:
        c.lane.named |= {f.base for f in found.foreign}

    # -- copying ----------------------------------------------------------------------------------------

    def _stage(self, c: Copy) -> Steps:
        p, barrier = c.p, object()
        generation = p.generation
        intent = p.stage(FLOOR_MS, self.nonce, barrier)
        if intent is not None:
            self.claims += 1
            self.active[f"claim {self.claims}"] = self._intend(c, generation, intent, barrier)
        if p.deviation:
            reason = p.deviation
            p.void()
            p.deviation = reason
        yield

    def _intend(self, c: Copy, generation: int, intent: Any, barrier: object) -> Steps:
        c.barriers[barrier] = False
        try:
            yield from self._write(pairs([(c.p.key, intent)]))
        except MapFailed:
            c.p.claiming -= 1
            c.p.unanswered()
            if generation == c.p.generation:
                c.p.void()
            return
        c.p.claiming -= 1
        c.barriers[barrier] = True

    def _send(self, c: Copy) -> Steps:
        p = c.p
        staged = p.ready[0]
        if may_send(p) and (staged.barrier is None or c.barriers.get(staged.barrier, False)):
            p.ready.popleft()
            p.in_flight += 1
            sequence = (staged.sequence_end - staged.chunk.count) % (1 << 31)
            _, indexes = c.contents[id(staged.chunk.data)]
            request = Request(self.number, c.lane.target, p.history, sequence, indexes, c.leader)
            self.world.network.append(request)
            c.sent.append((request, staged, p.generation))
        yield

    def _receive(self, c: Copy) -> Steps:
        p = c.p
        request, staged, generation = c.sent[0]
        if request.answer is None and self.world.rng.random() < 0.8:
            yield
            return
        c.sent.pop(0)
        p.in_flight -= 1
        if request.answer is None or self.world.rng.random() < 0.05:
            request.given_up = True
            p.unanswered()
            p.void()
        elif p.state is CopyState.LIVE and generation == p.generation:
            if request.answer == ("appended", staged.base):
                p.acknowledge(staged)
            else:
                p.void()
        yield

    def _marks(self, *, last: bool = False) -> Steps:
        marks = [(c.p, c.p.generation, m) for c in self.copies if (m := c.p.mark(self.nonce)) is not None]
        try:
            yield from self._write(pairs((p.key, m) for p, _, m in marks))
        except MapFailed:
            if last:
                raise
            return
        for p, generation, mark in marks:
            p.confirmed(mark, generation)

    # -- bulk mode --------------------------------------------------------------------------------------

    @staticmethod
    def _admissible(p: PartitionCopy) -> bool:
        old = p.oldest_is_older_than(FLOOR_MS)
        return p.state is CopyState.LIVE and not p.ready and not p.in_flight and old

    @staticmethod
    def _ready(p: PartitionCopy) -> bool:
        return p.state is CopyState.BULK and p.oldest_is_older_than(FLOOR_MS)

    def _bulk(self) -> Steps:
        if self.broken:
            self.bulk_epoch, self.broken = self.world.coordinator.take(), False
            yield
            return
        for p in (c.p for c in self.copies if self._admissible(c.p)):
            if p.contested:
                p.void()
                p.deviation = "old records are copied in transactions"
            else:
                p.state = CopyState.BULK
        if not any(self._ready(c.p) for c in self.copies):
            for p in (c.p for c in self.copies if c.p.state is CopyState.BULK and c.p.waiting):
                p.void()
            yield
            return
        try:
            yield from self._transaction()
        except Silent:
            self.broken = True
            for c in self.copies:
                if c.open or c.p.state is CopyState.BULK:
                    c.p.void()
        for c in self.copies:
            c.open.clear()

    def _transaction(self) -> Steps:  # noqa: C901, PLR0912  one step after the other
        world, placed = self.world, []
        for _ in range(ROUNDS):
            taken = []
            for c in self.copies:
                if self._ready(c.p):
                    c.p.uncommitted += 1
                    taken.append((c, Sent(c.p, c.p.generation, c.p.waiting.popleft(), None)))
            for c, sent in taken:
                c.open.append(sent)
                yield
                if not sent.current:
                    continue
                base = world.coordinator.append(
                    self.bulk_epoch, c.lane.target, c.contents[id(sent.chunk.data)][1], c.p.target_epoch
                )
                if base is None:
                    raise Killed
                placed.append((sent, base))
            yield
            if self.ending:
                break
        if not placed:
            return
        metadata = {c.lane.number: world.metadata(c.lane) for c in self.copies if c.open}
        yield
        if any(metadata[c.lane.number].epoch != c.p.target_epoch for c in self.copies if c.open):
            raise Silent
        if world.rng.random() < 0.1:
            raise Silent
        if not world.coordinator.append_map(self.bulk_epoch, pairs(intents_of(placed, self.nonce))):
            raise Killed
        yield
        if not all(s.current for s, _ in placed):
            raise Silent
        if world.rng.random() < 0.1:
            raise Silent
        if not world.coordinator.end(self.bulk_epoch, "committed"):
            raise Killed
        yield
        if world.rng.random() < 0.1:
            raise Silent  # the answer did not come
        acknowledge(placed)
