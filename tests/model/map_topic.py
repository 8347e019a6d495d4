"""The offset map and the transactions of bulk mode as Kafka keeps them, without a broker."""

from __future__ import annotations

from dataclasses import dataclass, field
import random

from drkit.offset_map.bucket import MapBucket, Pair
from tests.model.target import Target


@dataclass(eq=False)
class Transaction:
    """Of bulk mode."""

    epoch: int
    state: str = "open"
    """open, committed or aborted"""
    targets: list[Target] = field(default_factory=list)
    in_map: bool = False


@dataclass
class Entry:
    """A record of the map topic."""

    offset: int
    key: bytes
    value: bytes | None
    state: str = "committed"


@dataclass(eq=False)
class MapRequest:
    """A batch for the map, handed to the network."""

    epoch: int
    pairs: list[Pair]
    answer: str = ""
    """empty: it is on its way; taken or fenced"""


@dataclass(eq=False)
class MapTopic:
    """A bucket of the map topic: fenced by epoch, cleaned by Kafka."""

    records: list[Entry] = field(default_factory=list)
    end: int = 0
    given: int = 0
    epoch: int = 0
    network: list[MapRequest] = field(default_factory=list)

    def take(self) -> int:
        self.given += 1
        return self.given

    def deliver(self, request: MapRequest) -> None:
        """The request arrives; one that arrives once more is a repeat."""
        if request in self.network:
            self.network.remove(request)
        if request.answer:
            return
        request.answer = "fenced" if request.epoch < self.epoch else "taken"
        if request.answer == "taken":
            self.epoch = request.epoch
            self._add(request.pairs, "committed")

    def _add(self, pairs: list[Pair], state: str) -> None:
        for key, value in pairs:
            self.records.append(Entry(self.end, key, value, state))
            self.end += 1

    def append_bulk(self, pairs: list[Pair]) -> None:
        self._add(pairs, "open")

    def decide(self, how: str) -> None:
        """The marker of a transaction arrives."""
        for entry in self.records:
            if entry.state == "open":
                entry.state = how
        self.end += 1

    @property
    def stable_end(self) -> int:
        return next((e.offset for e in self.records if e.state == "open"), self.end)

    def read(self, bucket: MapBucket) -> None:
        """All that is decided."""
        end = self.stable_end
        for e in self.records:
            if bucket.next_offset <= e.offset < end and e.state == "committed":
                bucket.apply(e.key, e.value, e.offset)
        bucket.next_offset = end

    def clean(self, rng: random.Random) -> None:
        """The log cleaner: of each key in the cleaned part the newest is left; tombstones go in the end."""
        upto = rng.randint(0, self.stable_end)
        tombs = rng.randint(0, upto)
        committed = [e for e in self.records if e.state != "aborted" or e.offset >= upto]
        newest = {e.key: e.offset for e in committed if e.offset < upto}
        self.records = [
            e
            for e in committed
            if e.offset >= upto or (newest[e.key] == e.offset and not (e.value is None and e.offset < tombs))
        ]


@dataclass
class Coordinator:
    """Of the bucket's transactions; what it has decided reaches each partition when it likes."""

    map: MapTopic
    epoch: int = 0
    current: Transaction | None = None
    markers: list[tuple[Target | MapTopic, Transaction]] = field(default_factory=list)

    def take(self) -> int:
        """InitProducerId: what a predecessor left open is aborted, and the predecessor is fenced."""
        self.end(self.epoch, "aborted")
        while self.markers:
            self.deliver(0)
        self.epoch += 1
        return self.epoch

    def end(self, epoch: int, how: str) -> bool:
        """EndTxn."""
        if epoch != self.epoch:
            return False
        if self.current is not None:
            self.current.state = how
            self.markers += [(t, self.current) for t in self.current.targets]
            if self.current.in_map:
                self.markers.append((self.map, self.current))
            self.current = None
        return True

    def deliver(self, index: int) -> None:
        """A marker arrives."""
        where, transaction = self.markers.pop(index)
        if isinstance(where, MapTopic):
            where.decide(transaction.state)
        else:
            where.decide(transaction.epoch, transaction.state)

    def append(self, epoch: int, target: Target, indexes: list[int], seen_epoch: int) -> int | None:
        """A batch of the transaction; None: another task has taken the bucket."""
        while self.markers:
            self.deliver(0)  # a transaction begins when the last one is complete
        if epoch != self.epoch:
            return None
        if self.current is None:
            self.current = Transaction(epoch)
        if target not in self.current.targets:
            self.current.targets.append(target)
        return target.append_bulk(epoch, indexes, seen_epoch)

    def append_map(self, epoch: int, pairs: list[Pair]) -> bool:
        """The map records of the transaction."""
        if epoch != self.epoch or self.current is None:
            return False
        self.current.in_map = True
        self.map.append_bulk(pairs)
        return True
