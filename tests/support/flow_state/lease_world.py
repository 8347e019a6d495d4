"""A model of a flow's lease: runs that start, freeze, die and wait, between any two of their steps.

The runs decide by the product's own :class:`LeaseTurn` and :class:`LeaseRight`; the log of leases behaves as
a transactional producer makes it. Two runs share a machine, the third has one of its own.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
import random

from drkit.flow_state.lease.turn import USABLE, LeaseAvailability, LeaseRight, LeaseTurn
from drkit.flow_state.records import LeaseRecord, Process

TTL = 15.0
RATES = (0.95, 1.05)
"""How fast clocks run."""
Steps = Generator[None, None, None]


class TwoHolders(Exception):
    """A run appended after a later holder had begun to."""


@dataclass(frozen=True)
class Without:
    """Rules that are left out, to see that each is needed."""

    confirm: bool = False
    """No look after the others were fenced."""
    right: bool = False
    """Tasks write until they see that another run leads."""
    seen: bool = False
    """A task takes a renewal for as new as the look that shows it."""
    orphans: bool = False
    """No process waits for the workers of a dead holder."""
    drain: bool = False
    """The lease is given back while tasks write."""
    whole: bool = False
    """An open transaction that hides records is not minded."""
    margin: bool = False
    """The holder writes for all of its time, by a clock that may be slow."""


@dataclass
class Log:
    """The lease records of the state topic; each commit may stay hidden for a while."""

    records: list[LeaseRecord | None] = field(default_factory=list)
    visible: int = 0
    hidden_from: int | None = None
    """Where an open transaction of others begins: nothing from there on can be read."""
    epoch: int = 0

    @property
    def seen(self) -> int:
        """How many records a reader sees now."""
        return self.visible if self.hidden_from is None else min(self.visible, self.hidden_from)

    def init(self) -> int:
        """InitProducerId: fences all others, and ends when earlier transactions are decided and visible."""
        self.epoch += 1
        self.visible = len(self.records)
        return self.epoch

    def commit(self, epoch: int, record: LeaseRecord | None) -> bool:
        if epoch != self.epoch:
            return False
        self.records.append(record)
        return True

    def read(self, *, whole: bool) -> tuple[LeaseRecord | None, bool]:
        seen = self.records[: self.seen]
        return (seen[-1] if seen else None), not whole or self.seen == len(self.records)


@dataclass
class Task:
    """What appends for a run."""

    run: Run
    generation: int
    right: LeaseRight
    position: int
    before: float | None = None
    polling: tuple[float, int] | None = None

    def step(self, world: World) -> None:
        clock = self.run.clock()
        if self.polling is None and world.chance(0.5):
            self.polling = clock, world.log.seen
        elif self.polling is not None and world.chance(0.5):
            asked, end = self.polling
            self.polling = None
            new, self.position = world.log.records[self.position : end], max(self.position, end)
            if new and (new[-1] is None or new[-1].run_id != self.run.name):
                self.right.end(clock)
                self.run.task = None
                return
            if new and self.before is not None:
                self.right.extend(clock if world.without.seen else self.before)
            self.before = asked
        elif world.without.right or self.right.holds(clock):
            world.append(self.generation)


@dataclass
class Run:
    """One replicator: waits for the lease, holds it, loses it, waits again."""

    world: World
    name: str
    host: str
    rate: float
    offset: float
    task: Task | None = None
    alive: bool = True
    frozen_until: float = 0.0
    driver_frozen_until: float = 0.0
    life: Steps = field(init=False)

    def __post_init__(self) -> None:
        self.life = self._live()

    def clock(self) -> float:
        return self.world.time * self.rate + self.offset

    def _cut(self) -> Steps:
        """Spark ends a task that was cut after a moment."""
        self.task = None if self.world.chance(0.1) else self.task
        yield

    def _record(self) -> LeaseRecord:
        self.world.written += 1  # two records are never equal; wall clocks say anything
        return LeaseRecord(self.name, Process(self.host, 1, "", None), self.world.written, int(TTL * 1000))

    def _sees(self, lease: LeaseRecord | None) -> bool | None:
        if lease is None or lease.holder.host != self.host:
            return None
        return self.world.runs[lease.run_id].alive

    def _live(self) -> Steps:
        while True:
            while self.task is not None:  # the next attempt waits for the tasks of the one before
                yield from self._cut()
            judge, right = LeaseTurn(self.name), LeaseRight(self.world.seconds)
            yield from self._wait(judge, right)

    def _wait(self, judge: LeaseTurn, right: LeaseRight) -> Steps:
        world = self.world
        without = world.without
        while True:
            asked = self.clock()
            yield
            lease, whole = world.log.read(whole=not without.whole)
            yield
            answered = self.clock()
            turn = judge.look(
                lease, asked=asked, answered=answered,
                alive=self._sees(lease), whole=whole,
            )  # fmt: skip
            if turn is LeaseAvailability.HELD:
                yield
                continue
            epoch = yield from self._write(judge, right)
            if epoch is not None:
                break
        gone = judge.known.run_id if judge.known is not None and turn is LeaseAvailability.GONE else ""
        while gone and not without.orphans and world.runs[gone].task is not None:
            yield
        world.generations += 1
        self.task = Task(self, world.generations, LeaseRight(world.seconds, right.until), world.log.seen)
        yield from self._hold(judge, right, epoch)

    def _write(self, judge: LeaseTurn, right: LeaseRight) -> Generator[None, None, int | None]:
        """Fence, look, commit; the transactional epoch, or None when another run was faster."""
        world, began = self.world, self.clock()
        epoch = world.log.init()
        yield
        lease, whole = world.log.read(whole=not world.without.whole)
        yield
        if not world.without.confirm and not (whole and judge.is_as_judged(lease)):
            return None
        if not world.log.commit(epoch, self._record()):
            return None
        yield
        right.extend(began)
        return epoch

    def _hold(self, judge: LeaseTurn, right: LeaseRight, epoch: int | None) -> Steps:
        world, renew_at = self.world, self.clock() + TTL / 3
        while True:
            yield
            if not right.holds(self.clock()):
                return  # its tasks are cut, and end a little later
            if world.chance(0.01):
                yield from self._release(epoch or 0)
                return
            if self.clock() < renew_at:
                continue
            began = self.clock()
            yield
            if epoch is not None and world.log.commit(epoch, self._record()):
                yield
                right.extend(began)
                renew_at = self.clock() + TTL / 3
                continue
            lease, whole = world.log.read(whole=not world.without.whole)
            yield
            if whole and not judge.is_as_judged(lease):
                return  # another run has it
            epoch = (yield from self._write(judge, right)) if whole else None

    def _release(self, epoch: int) -> Steps:
        if not self.world.without.drain:
            while self.task is not None:
                yield from self._cut()
        self.world.log.commit(epoch, None)


class World:
    """Runs, their machines, and the time."""

    def __init__(self, seed: int, without: Without) -> None:
        self._random = random.Random(seed)
        self.without = without
        # Some walks take small steps and rare leaps, others the other way round.
        self._pace, self._leap = self._random.choice(((0.02, 1.0), (0.1, TTL / 4), (0.4, TTL / 4)))
        self.time, self.written, self.generations, self.newest = 0.0, 0, 0, 0
        self.log = Log()
        self.seconds = TTL / USABLE if without.margin else TTL
        self.appended = self.took_over = 0
        clocks = [(self._random.choice(RATES), self._random.uniform(-1e6, 1e6)) for _ in "AB"]
        self.runs: dict[str, Run] = {}
        for name, host in (("one", 0), ("two", 0), ("three", 1)):
            self.runs[name] = Run(self, name, "AB"[host], *clocks[host])

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def append(self, generation: int) -> None:
        if generation < self.newest:
            raise TwoHolders(f"holder {generation} after {self.newest} at {self.time:.1f} s")
        self.took_over += generation > self.newest
        self.newest, self.appended = generation, self.appended + 1

    def step(self) -> None:
        """One event; then time advances, mostly a little."""
        run = self._random.choice(list(self.runs.values()))
        if run.frozen_until <= self.time:
            self._act(run)
        if self.chance(0.2):
            self.log.visible = len(self.log.records)
        if self.chance(0.003):
            self.log.hidden_from = None if self.log.hidden_from is not None else len(self.log.records)
        self.time += self._pace * self._random.random() if self.chance(0.98) else self._leap

    def _act(self, run: Run) -> None:
        if self.chance(0.004):
            until = self.time + self._random.choice((1.0, TTL * 0.9, TTL * 1.1, 3 * TTL))
            if self.chance(0.5):
                run.frozen_until = until
            else:
                run.driver_frozen_until = until
        elif run.alive and self.chance(0.002):
            run.alive = False
        elif not run.alive and run.task is None and self.chance(0.05):
            run.alive, run.life = True, run._live()
        elif run.task is not None and (not run.alive or not self.chance(0.5)):
            if not run.alive and self.chance(0.05):
                run.task = None  # Spark's workers end with their driver, a moment later
            else:
                run.task.step(self)
        elif run.alive and run.driver_frozen_until <= self.time:
            next(run.life)
