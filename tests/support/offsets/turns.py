"""Histories of a pair of logs that turn their direction again and again, and the check of all positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
import itertools
import random
from typing import Any, Final
from uuid import UUID

from drkit.flow_state.copied_topics import CopiedPartition
from drkit.flow_state.left_out import KeptTail, LeftOut
from drkit.flow_state.records import CutRecord
from drkit.model import TopicPartition
from drkit.offset_map import seeding
from drkit.offset_map.look import Look
from drkit.offset_map.seeding import SeededPartition
from drkit.offset_map.settling import FirstOffset, Settled, Wanted, settling
from drkit.offsets import seed as seeds
from drkit.offsets.crossing import Crossing
from drkit.offsets.map_record import History, Intent, Mark, Mode, Pack
from drkit.offsets.partition_map import PartitionMap
from drkit.offsets.seed import CopyEnd
from drkit.offsets.takeup import Author
from drkit.offsets.translation import Exact, PartitionPosition
from tests.support.offsets.turned_log import Log

METHODS: Final = ("delta", "rebuild", "trim", "keep")
AT: Final = TopicPartition("orders", 0)
PAIR: Final = CopiedPartition(AT, AT, UUID(int=1), UUID(int=2))
_REPLAYS: Final = itertools.count(10_000)
"""A producer id for each tail that is appended to a standby."""
_KILLED: Final = 0.3
"""How often brokers of the old primary are killed between two steps."""


@dataclass
class Direction:
    """One flow of a pair: its map, its cut, and the history in which it appends."""

    history: History
    state: PartitionMap = field(default_factory=PartitionMap)
    sequence: int = 0
    cut: CutRecord | None = None
    ids: set[int] = field(default_factory=set)
    """Of all that it ever wrote with."""
    unknown_before: int = 0
    """Source offset up to which records were given up: they may have no position."""
    crossed: list[tuple[int, int]] = field(default_factory=list)
    """Source offsets between which the order differs; strictly inside nothing has a position."""

    def __post_init__(self) -> None:
        self.ids.add(self.history.producer_id)

    def begin(self, seeded: SeededPartition, target: Log) -> None:
        """Write the cut, and the seed as its pack and its turn."""
        ended, seed = self.state.history, seeded.seed
        self.cut = seeding.cut_after(self.cut, seeded)
        self.history = self.new_history()
        self.ids.add(self.history.producer_id)
        self.sequence = 0
        self.state.apply(Pack(7, 0, 1, seed.downstream, seed.segments))
        self.state.apply(seed.turn(self.history, ended, Author(7, 1, target.epoch)))

    def new_history(self) -> History:
        """A live producer id that was never used."""
        return History(self.history.producer_id + 1, 0)

    def claim(self, upstream: int, target: Log) -> None:
        """Claim records that are never appended."""
        down, end = target.end - 1, self._tail()[2]
        self.state.apply(Intent(Mode.LIVE, 9, self.history, self.sequence, down, end, -1, ((upstream, 30),)))

    def copy(self, source: Log, target: Log, opposite: Direction) -> None:
        """Copy what is new, run by run, and mark the end."""
        upstream, _, previous = self._tail()
        self.check_position(target)
        left_out = self.left_out(opposite)
        run: list[tuple[int, int]] = []
        for record in source.records:
            if record.offset < upstream:
                continue
            is_loop = record.producer_id in opposite.ids
            assert not is_loop or self.cut is None or record.offset < self.cut.skip_from[0], "an alarm"
            if record.producer_id in left_out.ids_at(AT, record.offset):
                continue
            kept = self.pair.kept
            assert kept is None or record.producer_id not in kept.ids, "an alarm"
            at = target.put(record.value, self.history.producer_id, self.sequence + len(run))
            if run and (record.offset, at) != (run[-1][0] + 1, run[-1][1] + 1):
                previous = self._append(run, previous, target)
                run = []
                target.records[-1].sequence = self.sequence
            run.append((record.offset, at))
        if run:
            previous = self._append(run, previous, target)
        target.end += target.chance.randint(0, 1)
        self._mark(source.end, target.end, previous, target)

    @property
    def pair(self) -> CopiedPartition:
        """The partition, as the record of its cut says."""
        if self.cut is None:
            return PAIR
        return PAIR._replace(
            skip_from=self.cut.skip_from[0],
            rebuilt=self.cut.rebuilt.get(0),
            emptied=self.cut.emptied.get(0, 0),
            crossings=self.cut.crossings_of(0),
            kept=KeptTail(k[0], frozenset(k[1])) if (k := self.cut.kept.get(0)) is not None else None,
        )

    def left_out(self, opposite: Direction) -> LeftOut:
        """Whose records are left out, as the record of the cut says."""
        pair = self.pair
        cuts = {AT: pair.skip_from} if pair.skip_from is not None else {}
        kept = {AT: pair.kept} if pair.kept is not None else {}
        return LeftOut(frozenset(opposite.ids), cuts, {AT} if pair.rebuilt is not None else (), kept)

    def position(self, target: Log) -> PartitionPosition:
        """Where the partition is, settled as any reader does."""
        pair = self.pair
        wanted = Wanted(AT, self.state, frozenset(self.ids), began_at=pair.began_at, emptied=pair.emptied,
                        tail_end=pair.tail_end)  # fmt: skip
        settled = _settled(wanted, target)
        found, look = settled.resolution, settled.look
        assert found is not None, settled.answer
        assert found.truncated_from is None, "nothing was lost"
        assert not found.foreign, "no other client wrote there"
        return PartitionPosition(
            found.segments, found.upstream, look.start, look.end, found.copied_end, frozen=True,
            crossings=pair.crossings,
        )  # fmt: skip

    def check_position(self, target: Log) -> None:
        """A task that settles the partition continues where the map says."""
        if self.state.tail is not None:
            assert self.position(target).frontier == self.state.tail.upstream

    def check(self, source: Log, target: Log) -> int:
        """For every offset of the source: the records after it and after its position are the same.

        Only what was given up may have no position. Returns how many have one.
        """
        place, exact = self.position(target), 0
        same = sorted if self.crossed else list
        for offset in range(source.start, source.end + 1):
            found = place.forward(offset)
            if not isinstance(found, Exact):
                crossed = any(first < offset < end for first, end in self.crossed)
                assert crossed or offset < self.unknown_before, (offset, found)
                continue
            assert same(source.after(offset)) == same(target.after(found.offset)), (offset, found)
            exact += 1
        return exact + self._check_back(place, source, target)

    def _check_back(self, place: PartitionPosition, source: Log, target: Log) -> int:
        """The same for every offset of the target; returns how many have a position.

        Before the first record of the source the target may have more: the source has given that up.
        """
        exact, same = 0, sorted if self.crossed else list
        first = source.end if source.first is None else source.first
        for offset in range(target.start, target.end + 1):
            found = place.backward(offset)
            if isinstance(found, Exact) and found.offset > first:
                assert same(source.after(found.offset)) == same(target.after(offset)), (offset, found)
                exact += 1
        return exact

    def open(self, target: Log) -> None:
        """Empty again what the record says before clients read it; now and then a minute passes."""
        target.delete(self.pair.emptied)
        if target.chance.random() < 0.7:
            target.deleted = []

    def _tail(self) -> tuple[int, int, int]:
        tail = self.state.tail
        return (tail.upstream, tail.downstream, tail.copied_end) if tail is not None else (0, 0, 0)

    def _append(self, run: list[tuple[int, int]], previous: int, target: Log) -> int:
        """Claim a run, append it, and mark its end: with the next number that proves where it is."""
        (upstream, downstream), count = run[0], len(run)
        self.state.apply(
            Intent(Mode.LIVE, 1, self.history, self.sequence, downstream, previous, -1, ((upstream, count),))
        )
        self.sequence += count
        end = downstream + count
        self._mark(upstream + count, end, end, target)
        return end

    def _mark(self, upstream: int, downstream: int, copied_end: int, target: Log) -> None:
        live = bool(self.sequence)
        self.state.apply(
            Mark(1, self.history, upstream, downstream, copied_end, self.sequence, -1, target.epoch, live)
        )


def _settled(wanted: Wanted, target: Log) -> Settled:
    steps = settling(wanted, Look(0, target.end, target.start, target.epoch))
    answer: Any = None
    while True:
        try:
            asked = steps.send(answer)
        except StopIteration as end:
            settled: Settled = end.value
            return settled
        answer = target.start if isinstance(asked, FirstOffset) else target.batches(asked.start, asked.end)


def walk(seed: int) -> int:
    """Some rounds there and back, by any method; returns the number of positions that were compared."""
    chance = random.Random(seed)
    primary, standby = Log(chance), Log(chance)
    forward, back = Direction(History(100, 0)), Direction(History(200, 0))
    compared = value = 0

    def write(log: Log, most: int, least: int = 0) -> None:
        nonlocal value
        for _ in range(chance.randint(least, most)):
            value += 1
            log.put(value)

    def maybe_kill(log: Log) -> None:
        if chance.random() < _KILLED:
            log.kill()

    for _ in range(chance.randint(2, 4)):
        write(primary, chance.choice((0, 25, 25, 25)))
        forward.copy(primary, standby, back)
        compared += forward.check(primary, standby)
        method = chance.choice(METHODS)
        frontier = primary.end
        if method != "delta":
            write(primary, 4, 1)  # the tail that only the primary has
        standby.end += 1  # the fence's marker
        cut = CopyEnd(standby.end, primary.end)
        there = forward.position(standby)
        if chance.random() < 0.3:
            forward.claim(frontier, standby)
        write(standby, 25)
        seeded = _seeded(method, there, cut, standby)
        if method == "keep":
            seeded = _kept(seeded, frontier, (primary, standby), write)
            write(standby, chance.choice((0, 25)))
        _turn(back, seeded, primary)
        for _ in range(2):
            maybe_kill(primary)
            back.copy(standby, primary, forward)
            compared += back.check(standby, primary)
            write(standby, 5)
        back.copy(standby, primary, forward)
        back.open(primary)
        primary.end += 1
        home = back.position(primary)
        at = CopyEnd(primary.end, standby.end)
        forward.crossed = [(c.source_first, c.source_end) for c in home.inverted_crossings()]
        forward.begin(_seeded("delta", home, at, primary), standby)
        compared += forward.check(primary, standby)
    return compared


def _turn(back: Direction, seeded: SeededPartition, primary: Log) -> None:
    if seeded.emptied is not None:
        primary.delete(seeded.emptied)
        back.unknown_before = seeded.seed.upstream
    back.crossed = [(c.source_first, c.source_end) for c in seeded.crossings]
    back.begin(seeded, primary)


def _seeded(method: str, there: PartitionPosition, at: CopyEnd, standby: Log) -> SeededPartition:
    """How the direction back to the old primary begins.

    :param at: the cut, and the end of the old primary
    """
    if method in {"delta", "keep"}:
        crossings = there.inverted_crossings()
        seed = seeds.seed_after(there.segments, there.copied_end, at, standby.first, crossings)
        return SeededPartition(PAIR, seed, crossings=crossings)
    begin = standby.start if method == "rebuild" else at.upstream
    seed = seeds.seed_of_emptied(at._replace(upstream=begin), standby.first)
    return SeededPartition(PAIR, seed, at.upstream, at.downstream)


def _kept(
    seeded: SeededPartition, frontier: int, logs: tuple[Log, Log], write: Callable[[Log, int], None]
) -> SeededPartition:
    """Append the tail to the standby while clients write there; nothing of it is copied back."""
    primary, standby = logs
    producer, last = next(_REPLAYS), 0
    for value in primary.after(frontier):
        write(standby, standby.chance.choice((0, 0, 3)))
        last = standby.put(value, producer)
    crossing = Crossing(seeded.seed.upstream, last + 1, frontier, seeded.seed.downstream)
    kept = KeptTail(last + 1, frozenset({producer}))
    return seeded._replace(crossings=(*seeded.crossings, crossing), kept=kept)
