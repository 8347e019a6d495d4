"""A primary that died, and whose topics are not what they were when it is back."""

from __future__ import annotations

from collections.abc import Collection
import os
from pathlib import Path
import struct

from tests.support.failback.tail import DeadPrimary, Log
from tests.support.flows.produce import fill
from tests.support.waiting import eventually

_HEAD = struct.Struct(">qi")
"""Base offset and length of a batch; the length counts what follows these two."""


class ChangedPrimary(DeadPrimary):
    """A dead primary; what becomes of its topics before it returns is told by a test."""

    @property
    def tails(self) -> dict[str, Log]:
        """The truth: the records from the first difference on."""
        found: dict[str, Log] = {}
        for topic, log in self.before.items():
            copy = self.copy[topic]
            tails = {p: r[_same([s.content for s in r], [s.content for s in copy.get(p, [])]) :]
                     for p, r in log.items()}  # fmt: skip
            found[topic] = {p: records for p, records in tails.items() if records}
        return found

    def truncate(self, topics: Collection[str]) -> None:
        """Cut the ends of logs off, while the broker is dead."""
        for topic in topics:
            for p in self.copy[topic]:
                [folder] = (self.primary.brokers[0].folder / "data").glob(f"{topic}-{p}")
                _cut(folder / f"{0:020}.log")

    def is_shorter(self, topic: str) -> None:
        """Wait until the broker has the shorter log."""
        side = self.side
        for p, records in side.records(side.source, topic).items():
            assert 0 < len(records) < len(self.copy[topic][p]), (topic, p)

    def recreate(self, topic: str, partitions: int, records: int) -> None:
        """Delete a topic, and create another one under its name."""
        side = self.side
        side.delete(side.source, topic)
        side.create(side.source, topic, partitions, {"retention.ms": "-1"})
        fill(side.source, topic, records, first=8000)

    def look_again(self) -> None:
        """Note what the old primary has now."""
        side = self.side
        there = [t for t in self.topics if not side.topic(side.source, t).error]
        self.before = {t: side.records(side.source, t) if t in there else {} for t in self.topics}

    def grow_copy(self, topic: str, partitions: int) -> None:
        """Give a topic as many partitions on the new primary; clients write to all of them."""
        side = self.side
        before = len(self.copy[topic])
        side.grow(side.target, topic, partitions)
        eventually(lambda: len(side.offsets(side.target, topic)) == partitions, what=f"partitions of {topic}")
        self.copy[topic] |= {p: [] for p in range(before, partitions)}
        fill(side.target, topic, 20, first=6000)


def _same(ours: list[object], theirs: list[object]) -> int:
    """How many records both begin with."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(ours), len(theirs)))


def _cut(file: Path) -> None:
    """Leave the first half of the batches of a segment."""
    with file.open("r+b") as log:
        begins = [0]
        while head := log.read(_HEAD.size):
            begins.append(log.seek(_HEAD.unpack(head)[1], os.SEEK_CUR))
        assert len(begins) > 2, f"{file} has one batch alone"
        log.truncate(begins[len(begins) // 2])
