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
    superseded: set[int] = field(default_factory=set)
    """Indexes of records that the cleaner has removed; the header stays as it is."""

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


@dataclass
class Target:
    """One partition of the target and its leader."""

    log: list[Batch] = field(default_factory=list)
    cleaned: list[Batch] = field(default_factory=list)
    """Batches that the cleaner has removed."""
    producers: dict[int, Producer] = field(default_factory=dict)
    leader_epoch: int = 0
    bulk_epoch: int = 0
    losses: int = 0
    """Unclean elections that removed something."""
    overgrown: bool = False
    """A leader that has lost records has taken an append from before that: its records are copied again."""
    former: tuple[int, int, dict[int, Producer]] | None = None
    """Leader epoch, end and producers of the last leader, which may not know yet that it leads no more."""

    @property
    def all_batches(self) -> list[Batch]:
        """With those that the cleaner has removed."""
        return sorted([*self.log, *self.cleaned], key=lambda b: b.base)

    @property
    def end(self) -> int:
        return self.log[-1].base + self.log[-1].count if self.log else 0

    def append(self, identity: tuple[int, int], sequence: int, indexes: list[int]) -> tuple[str, int]:
        """As ProducerStateManager decides."""
        known, count = self.producers.get(identity[0]), len(indexes)
        last = (sequence + count - 1) % SEQUENCE_MODULUS
        if known is not None:
            if identity[1] < known.epoch:
                return "fenced", -1
            if identity[1] == known.epoch:
                for first, end, base in known.recent:
                    if (first, end) == (sequence, last):
                        return "repeated", base
            self.overgrown |= bool(self.losses) and identity[1] > known.epoch
            expected = 0 if identity[1] > known.epoch else (known.last + 1) % SEQUENCE_MODULUS
            if sequence != expected:
                return "out of order", -1
        elif self.losses:
            self.overgrown = True  # it has lost all batches of the producer, and takes any sequence number
        base = self.end
        self.log.append(Batch(base, count, *identity, sequence, indexes, "live"))
        self._remember(identity, sequence, last, base)
        return "appended", base

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

    def foreign(self) -> None:
        self.log.append(Batch(self.end, 2, FOREIGN_ID, 0, 0, [], "foreign"))

    # -- transactions of bulk mode --------------------------------------------------------------------

    def take_bulk(self) -> int:
        """InitProducerId: what a predecessor left open is aborted, and the predecessor is fenced."""
        self.bulk_epoch += 1
        self.decide("aborted")
        return self.bulk_epoch

    def append_bulk(self, epoch: int, indexes: list[int]) -> int | None:
        if epoch != self.bulk_epoch:
            return None
        base = self.end
        self.log.append(Batch(base, len(indexes), BULK_ID, epoch, 0, indexes, "bulk", "open"))
        return base

    def decide(self, how: str) -> None:
        decided = [b for b in self.log if b.state == "open"]
        for b in decided:
            b.state = how
        if decided:
            self.log.append(Batch(self.end, 1, BULK_ID, self.bulk_epoch, -1, [], "marker"))

    @property
    def undecided(self) -> bool:
        return any(b.state == "open" for b in self.log)

    # -- failures -------------------------------------------------------------------------------------

    def lose_tail(self, batches: int) -> None:
        """An unclean election."""
        keep = max(0, len(self.log) - batches)
        self.losses += keep < len(self.log)
        self.log = self.log[:keep]
        self.cleaned = [b for b in self.cleaned if b.base < self.end]
        self.leader_epoch, self.former = self.leader_epoch + 1, None
        self.producers = {}
        for b in self.log:
            if b.kind == "live":
                self._remember(
                    (b.producer_id, b.epoch),
                    b.sequence,
                    (b.sequence + b.count - 1) % SEQUENCE_MODULUS,
                    b.base,
                )
            elif b.kind == "marker" and b.producer_id == LIVE_ID:
                self.producers[LIVE_ID] = Producer(b.epoch)

    def another_leader(self) -> None:
        known = {i: replace(p) for i, p in self.producers.items()}
        self.former = self.leader_epoch, self.end, known
        self.leader_epoch += 1

    def forget_producers(self) -> None:
        """They are older than `producer.id.expiration.ms`."""
        self.producers = {}


@dataclass
class MapTopic:
    """A bucket of the map topic: fenced by epoch, cleaned by Kafka."""

    records: list[tuple[int, bytes, bytes | None]] = field(default_factory=list)
    end: int = 0
    given: int = 0
    epoch: int = 0

    def take(self) -> int:
        self.given += 1
        return self.given

    def append(self, epoch: int, pairs: list[tuple[bytes, bytes | None]]) -> bool:
        if epoch < self.epoch:
            return False
        self.epoch = epoch
        for key, value in pairs:
            self.records.append((self.end, key, value))
            self.end += 1
        return True

    def commit(self, pairs: list[tuple[bytes, bytes | None]]) -> None:
        """With a transaction of bulk mode."""
        for key, value in pairs:
            self.records.append((self.end, key, value))
            self.end += 1

    def clean(self, rng: random.Random) -> None:
        """The log cleaner: of each key in the cleaned part the newest is left; tombstones go in the end."""
        upto = rng.randint(0, self.end)
        tombs = rng.randint(0, upto)
        newest = {key: offset for offset, key, _ in self.records if offset < upto}
        self.records = [
            (offset, key, value)
            for offset, key, value in self.records
            if offset >= upto or (newest[key] == offset and not (value is None and offset < tombs))
        ]
