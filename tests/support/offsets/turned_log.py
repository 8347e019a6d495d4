"""A partition's log of a history in memory: holes, deleted records, and what a killed broker brings back."""

from __future__ import annotations

from dataclasses import dataclass, field
import random
from typing import Final

from drkit.offsets.resolution import LogBatch

CLIENT: Final = -1


@dataclass
class Stored:
    """A record in a log: who wrote it, and under which sequence number."""

    offset: int
    value: int
    producer_id: int = CLIENT
    sequence: int = -1


@dataclass
class Log:
    """A partition's log: records, with holes as of markers and aborted records."""

    chance: random.Random
    start: int = 0
    end: int = 0
    epoch: int = 0
    """Leader epoch: another one after each kill."""
    records: list[Stored] = field(default_factory=list)
    deleted: list[Stored] = field(default_factory=list)
    """What a killed broker brings back."""

    def put(self, value: int, producer_id: int = CLIENT, sequence: int = -1) -> int:
        if self.chance.random() < 0.15:
            self.end += self.chance.randint(1, 3)
        self.records.append(Stored(self.end, value, producer_id, sequence))
        self.end += 1
        return self.end - 1

    @property
    def first(self) -> int | None:
        return self.records[0].offset if self.records else None

    def delete(self, before: int) -> None:
        """DeleteRecords up to an offset."""
        self.deleted = [r for r in self.records if r.offset < before] or self.deleted
        self.start, self.records = max(self.start, before), [r for r in self.records if r.offset >= before]

    def kill(self) -> None:
        """Restart brokers that have not written down what was deleted."""
        self.epoch += 1
        if self.deleted and self.deleted[0].offset < self.start:
            self.start, self.records = self.deleted[0].offset, [*self.deleted, *self.records]

    def after(self, offset: int) -> list[int]:
        return [r.value for r in self.records if r.offset >= offset]

    def batches(self, start: int, end: int) -> list[LogBatch]:
        return [
            LogBatch(r.offset, 1, r.producer_id, 0, r.sequence, False, False, False)  # noqa: FBT003
            for r in self.records
            if start <= r.offset < end
        ]
