"""A source, a target and an offset map as Kafka keeps them, without a broker, and what can happen to them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
import random
from typing import NamedTuple

from drkit.offsets.map_record import SEQUENCE_MODULUS
from drkit.offsets.resolve import LogBatch
from drkit.wire import Chunk
from drkit.wire.chunk import How, Run

LIVE_ID, BULK_ID, FOREIGN_ID = 77, 55, 99
OLD, YOUNG = 0, 10**9
HEADER_BYTES = 64


class Rec(NamedTuple):
    """A committed record of the source."""

    offset: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not called here
    """Tells it from every other record that ever was, in the order of production."""
    epoch: int


@dataclass
class Source:
    """One partition of the source; what is no committed record is a hole."""

    rng: random.Random
    compacted: bool = False
    records: list[Rec] = field(default_factory=list)
    start: int = 0
    end: int = 0
    epoch: int = 0
    lineage: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    made: int = 0
    old_until: int = -1
    """Records before this index are too old for live mode."""

    def produce(self) -> None:
        for _ in range(self.rng.randint(1, 6)):
            if self.rng.random() < 0.2:
                self.end += self.rng.randint(1, 2)
            self.records.append(Rec(self.end, self.made, self.epoch))
            self.end += 1
            self.made += 1

    def another_leader(self) -> None:
        self.epoch += 1
        self.lineage.append((self.epoch, self.end))

    def remove_before(self, offset: int) -> None:
        self.start = max(self.start, min(offset, self.end))
        self.records = [r for r in self.records if r.offset >= self.start]

    def lose_tail(self) -> None:
        """An unclean election."""
        cut = self.rng.randint(max(self.start, self.end - 12), self.end)
        self.records = [r for r in self.records if r.offset < cut]
        self.end = cut
        self.epoch += 1
        self.lineage = [(e, at) for e, at in self.lineage if at < cut or e == 0] + [(self.epoch, cut)]

    def compact(self) -> None:
        if self.compacted and self.records:
            last = self.records[-1]
            self.records = [r for r in self.records if r is last or self.rng.random() < 0.8]

    def diverging(self, position: int, epoch: int) -> tuple[int, int] | None:
        """(end offset, epoch) of a shorter history than the reader's (KIP-320)."""
        if epoch < 0:
            return None
        known = [(e, at) for e, at in self.lineage if e <= epoch]
        found = known[-1][0] if known else 0
        later = [at for e, at in self.lineage if e > found]
        end = min([self.end, *later])
        return (end, found) if found < epoch or end < position else None

    def chunks(self, position: int) -> tuple[list[tuple[Chunk, list[int]]], int, int]:
        """What a fetch brings: chunks with their records, where it ends, and the last leader epoch."""
        taken = [r for r in self.records if r.offset >= position][: self.rng.randint(1, 9)]
        out = []
        at = 0
        while at < len(taken):
            some = taken[at : at + self.rng.randint(1, 4)]
            old = some[0].index < self.old_until
            some = [r for r in some if (r.index < self.old_until) == old]
            at += len(some)
            runs: list[Run] = []
            for r in some:
                if runs and runs[-1].source + runs[-1].count == r.offset:
                    runs[-1] = Run(runs[-1].source, runs[-1].count + 1)
                else:
                    runs.append(Run(r.offset, 1))
            chunk = Chunk(
                bytearray(HEADER_BYTES), tuple(runs), len(some), OLD if old else YOUNG,
                some[-1].offset + 1, some[-1].epoch, How.FORWARDED,
            )  # fmt: skip
            out.append((chunk, [r.index for r in some]))
        whole = not taken or taken[-1] is self.records[-1]
        return out, self.end if whole else taken[-1].offset + 1, taken[-1].epoch if taken else -1


@dataclass
class Batch:
    """A batch in the target's log."""

    base: int
    count: int
    producer_id: int
    epoch: int
    sequence: int
    indexes: list[int]
    kind: str
    """live, bulk, foreign or marker"""
    state: str = "committed"
    """committed, open or aborted"""
    misplaced: bool = False
    """A leader without the records before it has taken it."""

    @property
    def end(self) -> int:
        """Target offset after it."""
        return self.base + self.count

    @property
    def ours(self) -> bool:
        """It holds records of the flow where they belong."""
        return self.state == "committed" and bool(self.indexes) and not self.misplaced

    def header(self) -> LogBatch:
        return LogBatch(
            self.base, self.count, self.producer_id, self.epoch, self.sequence, self.kind == "bulk",
            self.kind == "marker", self.state == "aborted",
        )  # fmt: skip


@dataclass
class Producer:
    """What the leader remembers of a producer."""

    epoch: int
    last: int = -1
    recent: list[tuple[int, int, int]] = field(default_factory=list)


class Leader(NamedTuple):
    """Which broker leads, as metadata say it."""

    node: int
    epoch: int


class Former(NamedTuple):
    """The last leader, which may not know yet that it leads no more."""

    leader: Leader
    end: int
    producers: dict[int, Producer]


@dataclass(eq=False)
class Target:
    """One partition of the target and its leader."""

    log: list[Batch] = field(default_factory=list)
    producers: dict[int, Producer] = field(default_factory=dict)
    leader: Leader = Leader(0, 0)  # noqa: RUF009  it is immutable
    start: int = 0  # retention and DeleteRecords move it
    lost: dict[int, int] = field(default_factory=dict)
    """Records of the flow that an unclean election removed, with their places."""
    lost_at: int = 0
    """Leader epoch since the last unclean election."""
    removed: set[int] = field(default_factory=set)
    """Lost records whose places retention has passed: nothing tells any more that they were lost."""
    former: Former | None = None

    @property
    def end(self) -> int:
        return self.log[-1].end if self.log else 0

    def first_offset(self) -> int:
        return self.start

    @property
    def stable_end(self) -> int:
        """The last stable offset."""
        return next((b.base for b in self.log if b.state == "open"), self.end)

    @property
    def undecided(self) -> bool:
        return any(b.state == "open" for b in self.log)

    def at(self, asked: Leader) -> Former | None:
        """What the broker knows that metadata called the leader; None: it refuses to answer."""
        if asked.node == self.leader.node:  # also where another one has led meanwhile
            return Former(self.leader, self.end, self.producers)
        if self.former is not None and asked.node == self.former.leader.node:
            return self.former
        return None

    def append(
        self, identity: tuple[int, int], sequence: int, indexes: list[int], seen_epoch: int
    ) -> tuple[str, int]:
        """As ProducerStateManager decides.

        :param seen_epoch: leader epoch under which whoever appends has seen the partition
        """
        known, count = self.producers.get(identity[0]), len(indexes)
        last = (sequence + count - 1) % SEQUENCE_MODULUS
        if known is not None:
            if identity[1] < known.epoch:
                return "fenced", -1
            if identity[1] == known.epoch:
                for first, end, base in known.recent:
                    if (first, end) == (sequence, last):
                        return "repeated", base
            expected = 0 if identity[1] > known.epoch else (known.last + 1) % SEQUENCE_MODULUS
            if sequence != expected:
                return "out of order", -1
        base = self.end
        batch = self._place(Batch(base, count, *identity, sequence, indexes, "live"), seen_epoch)
        # Where nothing is left of the producer, any number is taken.
        batch.misplaced |= known is None and sequence > 0 and seen_epoch < self.lost_at
        self.log.append(batch)
        self._remember(identity, sequence, last, base)
        return "appended", base

    def _place(self, batch: Batch, seen_epoch: int) -> Batch:
        if seen_epoch < self.lost_at and any(index < batch.indexes[0] for index in self.lost):
            there = {i for b in self.log if b.state != "aborted" and not b.misplaced for i in b.indexes}
            batch.misplaced = any(i < batch.indexes[0] and i not in there for i in self.lost)
        return batch

    def _remember(self, identity: tuple[int, int], first: int, last: int, base: int) -> None:
        known = self.producers.get(identity[0])
        if known is None or known.epoch != identity[1]:
            known = self.producers[identity[0]] = Producer(identity[1])
        known.last = last
        known.recent = [*known.recent, (first, last, base)][-5:]

    def marker(self, producer_id: int, epoch: int) -> bool:
        known = self.producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            return False
        self.log.append(Batch(self.end, 1, producer_id, epoch, -1, [], "marker"))
        if known is None or epoch > known.epoch:
            self.producers[producer_id] = Producer(epoch)
        return True

    def foreign(self) -> None:
        self.log.append(Batch(self.end, 2, FOREIGN_ID, 0, 0, [], "foreign"))

    def append_bulk(self, epoch: int, indexes: list[int], seen_epoch: int) -> int:
        batch = Batch(self.end, len(indexes), BULK_ID, epoch, 0, indexes, "bulk", "open")
        self.log.append(self._place(batch, seen_epoch))
        return batch.base

    def decide(self, epoch: int, how: str) -> None:
        """The marker of a transaction arrives."""
        for b in self.log:
            if b.state == "open":
                b.state = how
        self.log.append(Batch(self.end, 1, BULK_ID, epoch, -1, [], "marker"))

    # -- failures -------------------------------------------------------------------------------------

    def remove_before(self, offset: int) -> None:
        """Retention."""
        self.start = max(self.start, min(offset, self.stable_end))
        self.removed |= {i for i, place in self.lost.items() if place < self.start}
        self.lost = {i: place for i, place in self.lost.items() if place >= self.start}

    def lose_tail(self, batches: int) -> None:
        """An unclean election."""
        keep = max(0, len(self.log) - batches)
        gone, self.log = self.log[keep:], self.log[:keep]
        self.start = min(self.start, self.end)
        self.lost |= {i: b.base + n for b in gone if b.ours for n, i in enumerate(b.indexes)}
        self.leader, self.former = Leader(1 - self.leader.node, self.leader.epoch + 1), None
        self.lost_at, self.producers = self.leader.epoch, {}
        for b in self.log:
            if b.kind == "live":
                last = (b.sequence + b.count - 1) % SEQUENCE_MODULUS
                self._remember((b.producer_id, b.epoch), b.sequence, last, b.base)
            elif b.kind == "marker" and b.producer_id == LIVE_ID:
                self.producers[LIVE_ID] = Producer(b.epoch)

    def another_leader(self) -> None:
        known = {i: replace(p) for i, p in self.producers.items()}
        self.former = Former(self.leader, self.end, known)
        self.leader = Leader(1 - self.leader.node, self.leader.epoch + 1)

    def forget_producers(self) -> None:
        """They are older than `producer.id.expiration.ms`."""
        self.producers = {}
