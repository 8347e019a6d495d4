"""One partition of the target of the model, and its leader."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
import random
from typing import NamedTuple

from drkit.offsets.map_record import SEQUENCE_MODULUS
from drkit.offsets.resolution import LogBatch

LIVE_ID, BULK_ID, FOREIGN_ID = 77, 55, 99


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
    superseded: set[int] = field(default_factory=set)
    """Indexes of records that the cleaner has removed; the header stays as it is."""

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
    cleaned: list[Batch] = field(default_factory=list)
    """Batches that the cleaner has removed."""
    producers: dict[int, Producer] = field(default_factory=dict)
    leader: Leader = Leader(0, 0)  # noqa: RUF009  it is immutable
    start: int = 0  # retention and DeleteRecords move it
    lost: dict[int, int] = field(default_factory=dict)
    """Records of the flow that an unclean election removed, with their offsets."""
    lost_at: int = 0
    """Leader epoch since the last unclean election."""
    removed: set[int] = field(default_factory=set)
    """Lost records below the log's start: the log no longer shows that they were lost."""
    former: Former | None = None

    @property
    def all_batches(self) -> list[Batch]:
        """With those that the cleaner has removed."""
        return sorted([*self.log, *self.cleaned], key=lambda b: b.base)

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

        :param seen_epoch: leader epoch of the partition as the appending task has seen it
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

    def compact(self, rng: random.Random) -> None:
        """The log cleaner, but on the active segment; the flow's last record is nowhere superseded."""
        data = [b for b in self.log if b.indexes and b.state == "committed"]
        last = {id(b) for b in [*self.log[-1:], *data[-1:]]}
        last |= {id(b) for b in {b.producer_id: b for b in self.log}.values()}
        for b in self.log[: rng.randint(0, len(self.log))]:
            if id(b) in last or b.state == "open" or rng.random() < 0.4:
                continue
            b.superseded |= {i for i in b.indexes if rng.random() < 0.7}
            if b.superseded.issuperset(b.indexes):
                self.cleaned.append(b)
        gone = {id(b) for b in self.cleaned}
        self.log = [b for b in self.log if id(b) not in gone]

    def remove_before(self, offset: int) -> None:
        """Retention."""
        self.start = max(self.start, min(offset, self.stable_end))
        self.removed |= {i for i, place in self.lost.items() if place < self.start}
        self.lost = {i: place for i, place in self.lost.items() if place >= self.start}

    def lose_tail(self, batches: int) -> None:
        """An unclean election."""
        keep = max(0, len(self.log) - batches)
        gone, self.log = self.log[keep:], self.log[:keep]
        self.cleaned = [b for b in self.cleaned if b.base < self.end]
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
