"""One partition of the source of the model."""

from __future__ import annotations

from dataclasses import dataclass, field
import random
from typing import NamedTuple

from drkit.wire import Chunk
from drkit.wire.chunk import How, OffsetRun

OLD, YOUNG = 0, 10**9
"""Timestamps."""
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
            runs: list[OffsetRun] = []
            for r in some:
                if runs and runs[-1].source + runs[-1].count == r.offset:
                    runs[-1] = OffsetRun(runs[-1].source, runs[-1].count + 1)
                else:
                    runs.append(OffsetRun(r.offset, 1))
            chunk = Chunk(
                bytearray(HEADER_BYTES), tuple(runs), len(some), OLD if old else YOUNG,
                some[-1].offset + 1, some[-1].epoch, How.FORWARDED,
            )  # fmt: skip
            out.append((chunk, [r.index for r in some]))
        whole = not taken or taken[-1] is self.records[-1]
        return out, self.end if whole else taken[-1].offset + 1, taken[-1].epoch if taken else -1
