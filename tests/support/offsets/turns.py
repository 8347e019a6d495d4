"""Histories of a pair of logs that turn their direction again and again, and the check of all positions."""

from __future__ import annotations

from dataclasses import dataclass, field
import random
from typing import Final

from drkit.offsets import seed as seeds
from drkit.offsets.map_record import History, Intent, Mark, Mode, Pack
from drkit.offsets.partition_map import PartitionMap
from drkit.offsets.resolution import LogLook, Resolution
from drkit.offsets.resolve import resolve
from drkit.offsets.seed import CopyEnd, Seed
from drkit.offsets.takeup import Author
from drkit.offsets.translation import Exact, PartitionPosition

FIRST: Final = History(100, 0)
METHODS: Final = ("delta", "rebuild", "trim")


@dataclass
class Log:
    """A partition's log: offsets and values, with holes as of markers and aborted records."""

    chance: random.Random
    start: int = 0
    end: int = 0
    records: list[tuple[int, int]] = field(default_factory=list)

    def put(self, value: int) -> int:
        if self.chance.random() < 0.15:
            self.end += self.chance.randint(1, 3)
        self.records.append((self.end, value))
        self.end += 1
        return self.end - 1

    @property
    def first(self) -> int | None:
        return self.records[0][0] if self.records else None

    def empty(self) -> None:
        """DeleteRecords up to the end."""
        self.start, self.records = self.end, []

    def after(self, offset: int) -> list[int]:
        return [value for at, value in self.records if at >= offset]


@dataclass
class Direction:
    """One flow of a pair: its map, and the history in which it appends."""

    state: PartitionMap = field(default_factory=PartitionMap)
    history: History = FIRST
    sequence: int = 0
    unknown_before: int = 0
    """Source offset up to which records were given up: they may have no position."""

    def begin(self, seed: Seed) -> None:
        """Write the seed, as its pack and its turn."""
        ended = self.state.history
        self.history = self.new_history()
        self.sequence = 0
        self.state.apply(Pack(7, 0, 1, seed.downstream, seed.segments))
        self.state.apply(seed.turn(self.history, ended, Author(7, 1)))

    def new_history(self) -> History:
        """A live producer id that was never used."""
        return History(self.history.producer_id + 1, 0)

    def claim(self, upstream: int, target: Log) -> None:
        """Claim records that are never appended."""
        down, end = target.end - 1, self._tail()[2]
        self.state.apply(Intent(Mode.LIVE, 9, self.history, self.sequence, down, end, -1, ((upstream, 30),)))

    def copy(self, source: Log, target: Log) -> None:
        """Copy what is new, run by run, and mark the end."""
        upstream, _, previous = self._tail()
        run: list[tuple[int, int]] = []
        for offset, value in source.records:
            if offset < upstream:
                continue
            at = target.put(value)
            if run and (offset, at) != (run[-1][0] + 1, run[-1][1] + 1):
                previous = self._append(run, previous)
                run = []
            run.append((offset, at))
        if run:
            previous = self._append(run, previous)
        target.end += target.chance.randint(0, 1)
        self._mark(source.end, target.end, previous)

    def position(self, target: Log) -> PartitionPosition:
        found = resolve(self.state, LogLook(target.end, None, frozenset()), [])
        assert isinstance(found, Resolution), found
        return PartitionPosition(
            found.segments, found.upstream, target.start, target.end, found.copied_end, frozen=True
        )

    def check(self, source: Log, target: Log) -> int:
        """For every offset of the source: the records after it and after its position are the same.

        Only what was given up may have no position. Returns how many have one.
        """
        place, exact = self.position(target), 0
        for offset in range(source.start, source.end + 1):
            found = place.forward(offset)
            if not isinstance(found, Exact):
                assert offset < self.unknown_before, (offset, found)
                continue
            assert source.after(offset) == target.after(found.offset), (offset, found)
            exact += 1
        return exact

    def _tail(self) -> tuple[int, int, int]:
        tail = self.state.tail
        return (tail.upstream, tail.downstream, tail.copied_end) if tail is not None else (0, 0, 0)

    def _append(self, run: list[tuple[int, int]], previous: int) -> int:
        """Claim a run, append it, and mark its end: with the next number that proves where it is."""
        (upstream, downstream), count = run[0], len(run)
        self.state.apply(
            Intent(Mode.LIVE, 1, self.history, self.sequence, downstream, previous, -1, ((upstream, count),))
        )
        self.sequence += count
        end = downstream + count
        self._mark(upstream + count, end, end)
        return end

    def _mark(self, upstream: int, downstream: int, copied_end: int) -> None:
        self.state.apply(
            Mark(
                1, self.history, upstream, downstream, copied_end, self.sequence, -1, live=bool(self.sequence)
            )
        )


def walk(seed: int) -> int:
    """Some rounds there and back, by any method; returns the number of positions that were compared."""
    chance = random.Random(seed)
    primary, standby = Log(chance), Log(chance)
    forward, back = Direction(), Direction(history=History(200, 0))
    compared = value = 0

    def write(log: Log, most: int, least: int = 0) -> None:
        nonlocal value
        for _ in range(chance.randint(least, most)):
            value += 1
            log.put(value)

    for _ in range(chance.randint(2, 4)):
        write(primary, 25)
        forward.copy(primary, standby)
        compared += forward.check(primary, standby)
        method = chance.choice(METHODS)
        frontier = primary.end
        if method != "delta":
            write(primary, 4, 1)  # the tail that only the primary has
        standby.end += 1  # the fence's marker
        cut = standby.end
        there = forward.position(standby)
        if chance.random() < 0.3:
            forward.claim(frontier, standby)
        write(standby, 25)
        if method == "delta":
            at = CopyEnd(cut, primary.end)
            back.begin(seeds.seed_after(there.segments, there.copied_end, at, standby.first))
        else:
            primary.empty()
            begin = cut if method == "trim" else standby.start
            back.unknown_before = begin
            back.begin(seeds.seed_of_emptied(CopyEnd(begin, primary.end), standby.first))
        back.copy(standby, primary)
        compared += back.check(standby, primary)
        primary.end += 1
        home = back.position(primary)
        at = CopyEnd(primary.end, standby.end)
        forward.begin(seeds.seed_after(home.segments, home.copied_end, at, primary.first))
        compared += forward.check(primary, standby)
    return compared
