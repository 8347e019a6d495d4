"""Random schedules over the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
import random

from drkit.offset_map.bucket import MapBucket
from drkit.offsets.resolution import Resolution
from tests.model.oracle import exact, in_order, left, named, reader, there
from tests.model.scene import Lane, Violated, World
from tests.model.source import Source
from tests.model.task import Task


@dataclass
class Explorer:
    """One schedule; all of it follows from its seed."""

    seed: int
    losses: bool = field(init=False)
    """The target may lose its tail; if not, the source may: of both at once no oracle says what is right."""
    world: World = field(init=False)
    tasks: list[tuple[Task, Iterator[None]]] = field(default_factory=list)
    readers: list[Iterator[None]] = field(default_factory=list)
    started: int = 0
    rewound: bool = False
    steps: int = 0

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)
        self.compacted = rng.random() < 0.25
        self.losses = rng.random() < 0.4
        lanes = [Lane(n, Source(rng, self.compacted)) for n in range(rng.choice([1, 1, 1, 2]))]
        self.world = World(rng, lanes, map_trouble=rng.choice([0.0, 0.0, 0.05]))
        for lane in lanes:
            self._produced(lane)
        self.weights = {
            "task": 80.0,
            "deliver": 12.0,
            "map_deliver": 1.0,
            "marker": 6.0,
            "reader": 6.0,
            "start": rng.choice([0.3, 1.0]),
            "kill": rng.choice([0.1, 0.5]),
            "end": rng.choice([0.1, 0.5]),
            "produce": 3.0,
            "gap": rng.choice([0.0, 0.5]),
            "leader": 0.3,
            "rewind": 0.0 if self.losses else rng.choice([0.0, 0.3]),
            "compact": 1.0 if self.compacted else 0.0,
            "compact_target": self._often_compacted(),
            "clean": 2.0,
            "foreign": rng.choice([0.0, 0.3]),
            "target_leader": 0.2,
            "lose": rng.choice([0.03, 0.1]) if self.losses else 0.0,
            "retention": rng.choice([0.0, 0.0, 0.1, 0.5]),
            "forget": rng.choice([0.0, 0.3]),
            "age": 0.6,
            "check": 1.0,
        }

    def _often_compacted(self) -> float:
        """By a chance of its own: schedules without it are those that were walked before it was there."""
        return 1.0 if random.Random(-1 - self.seed).random() < (0.7 if self.compacted else 0.1) else 0.0

    def run(self, steps: int) -> None:
        """Walk, then bring everything to rest and look at the end."""
        names, weights = list(self.weights), list(self.weights.values())
        try:
            for name in self.rng.choices(names, weights, k=steps):
                self.steps += 1
                getattr(self, f"_{name}")()
            self._rest()
        except Violated as error:
            raise Violated(f"seed {self.seed}, step {self.steps}: {error}") from error
        except Exception as error:
            error.add_note(f"seed {self.seed}, step {self.steps}")
            raise

    @property
    def _lane(self) -> Lane:
        lanes = self.world.lanes
        return lanes[0] if len(lanes) == 1 else self.rng.choice(lanes)

    # -- what may happen --------------------------------------------------------------------------------

    def _task(self) -> None:
        if self.tasks:
            i = self.rng.randrange(len(self.tasks))
            if next(self.tasks[i][1], StopIteration) is StopIteration:
                self.tasks.pop(i)

    def _reader(self) -> None:
        if not self.readers:
            self.readers.append(reader(self.world, self._lane))
        i = self.rng.randrange(len(self.readers))
        if next(self.readers[i], StopIteration) is StopIteration:
            self.readers.pop(i)

    def _start(self) -> None:
        if len(self.tasks) < 3:
            self.started += 1
            task = Task(self.world, self.started, self.compacted)
            self.tasks.append((task, task.life()))

    def _kill(self) -> None:
        if self.tasks:
            self.tasks.pop(self.rng.randrange(len(self.tasks)))

    def _end(self) -> None:
        if self.tasks:
            self.rng.choice(self.tasks)[0].ending = True

    def _deliver(self) -> None:
        """Requests of one connection arrive in order; those of different ones in any."""
        network = self.world.network
        first = {(r.task, r.target): r for r in reversed(network)}
        if not first:
            return
        request = self.rng.choice(list(first.values()))
        if request.given_up and self.rng.random() < 0.5:
            return
        network.remove(request)
        if self.rng.random() < 0.03:
            # The connection broke: this request and those after it are gone.
            mine = (request.task, request.target)
            self.world.network = [r for r in network if (r.task, r.target) != mine]
            return
        if request.seen.node != request.target.leader.node:
            request.answer = "not leader", -1
            return
        request.answer = request.target.append(
            request.identity, request.sequence, request.indexes, request.seen.epoch
        )

    def _map_deliver(self) -> None:
        """A write of which its task has heard nothing arrives, or never will."""
        waiting = self.world.map.network
        if waiting:
            request = self.rng.choice(waiting)
            if self.rng.random() < 0.2:
                waiting.remove(request)
            else:
                self.world.map.deliver(request)

    def _marker(self) -> None:
        coordinator = self.world.coordinator
        if coordinator.markers:
            coordinator.deliver(self.rng.randrange(len(coordinator.markers)))

    def _produce(self) -> None:
        self._produced(self._lane)

    @staticmethod
    def _produced(lane: Lane) -> None:
        lane.source.produce()
        lane.offset_of |= {r.index: r.offset for r in lane.source.records}

    def _gap(self) -> None:
        source = self._lane.source
        source.remove_before(self.rng.randint(source.start, source.end))

    def _leader(self) -> None:
        self._lane.source.another_leader()

    def _rewind(self) -> None:
        self.rewound = True
        self._lane.source.lose_tail()

    def _compact(self) -> None:
        self._lane.source.compact()

    def _compact_target(self) -> None:
        self._lane.target.compact(self.rng)

    def _clean(self) -> None:
        self.world.map.clean(self.rng)

    def _foreign(self) -> None:
        self._lane.target.foreign()

    def _target_leader(self) -> None:
        self._lane.target.another_leader()

    def _lose(self) -> None:
        target = self._lane.target
        if target.log:
            target.lose_tail(self.rng.randint(1, 4))

    def _retention(self) -> None:
        target = self._lane.target
        target.remove_before(self.rng.randint(target.start, target.end))

    def _forget(self) -> None:
        """A day has passed: what is still on its way then is refused by its deadline."""
        if not self.world.network and not self.tasks:
            self._lane.target.forget_producers()

    def _age(self) -> None:
        source = self._lane.source
        source.old_until = self.rng.choice([-1, source.made, self.rng.randint(0, source.made)])

    # -- the oracle -------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self.world.coordinator.markers or any(lane.target.undecided for lane in self.world.lanes):
            return
        bucket = MapBucket(0, "map")
        for lane in self.world.lanes:
            in_order(lane)
            found = self.world.at_rest(lane, bucket).answer
            if not isinstance(found, Resolution):
                raise Violated(f"no answer: {found}")
            exact(lane, found)
            self._nothing_missing(lane, found)

    def _nothing_missing(self, lane: Lane, found: Resolution) -> None:
        if self.rewound or found.upstream is None:
            return
        missing = [
            r
            for r in lane.source.records
            if r.offset < found.upstream
            and r.index not in there(lane) | lane.target.removed
            and r.epoch <= max(found.leader_epoch, 0)
        ]
        if missing:
            raise Violated(f"copying continues at {found.upstream}, missing before that: {missing[:5]}")

    def _rest(self) -> None:
        """Everything late arrives, a last task copies the rest: each record of the source is there once."""
        world = self.world
        world.map_trouble = 0.0
        while world.network:
            self._deliver()
        while world.coordinator.markers:
            self._marker()
        self.tasks.clear()
        self._check()
        for lane in world.lanes:
            lane.target.former = None
        world.stopped.clear()
        for _ in range(40):
            self._whole_life()
            if not any(left(lane) for lane in world.lanes):
                break
            if world.stopped:
                raise Violated(f"stopped: {world.stopped[-1]}")
        else:
            raise Violated(f"records are never copied: {[left(lane)[:5] for lane in world.lanes]}")
        world.coordinator.take()
        self._check()
        for lane in world.lanes:
            named(lane)

    def _whole_life(self) -> None:
        """A task, and all that arrives of it."""
        self._start()
        life = self.tasks.pop()[1]
        for _ in range(600):
            if next(life, StopIteration) is StopIteration:
                break
            self._deliver()
            self._marker()
        while self.world.network:
            self._deliver()
