"""Random schedules over the model, and the oracle: the log of what was appended."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
import random

from drkit.model import SourceOffset
from drkit.offset_map.bucket import MapBucket
from drkit.offsets import Unavailable
from drkit.offsets.resolve import Resolution
from tests.model.task import SOURCE_ID, TARGET_ID, Task, Violated, World
from tests.model.world import Source


@dataclass
class Explorer:
    """One schedule; all of it follows from its seed."""

    seed: int
    losses: bool = field(init=False)
    """The target may lose its tail; if not, the source may: of both at once no oracle says what is right."""
    world: World = field(init=False)
    tasks: list[tuple[Task, Iterator[None]]] = field(default_factory=list)
    started: int = 0
    rewound: bool = False
    target_lost: bool = False
    offset_of: dict[int, int] = field(default_factory=dict)
    steps: int = 0

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)
        compacted = rng.random() < 0.25
        self.losses = rng.random() < 0.4
        self.compacted = compacted
        self.world = World(rng, Source(rng, compacted))
        self._produce()
        self.weights = {
            "task": 60.0,
            "deliver": 12.0,
            "start": rng.choice([0.3, 1.0]),
            "kill": rng.choice([0.1, 0.5]),
            "end": rng.choice([0.1, 0.5]),
            "produce": 3.0,
            "gap": rng.choice([0.0, 0.5]),
            "leader": 0.3,
            "rewind": 0.0 if self.losses else rng.choice([0.0, 0.3]),
            "compact": 1.0 if compacted else 0.0,
            "clean": 2.0,
            "compact_target": 1.0 if rng.random() < (0.7 if compacted else 0.1) else 0.0,
            "foreign": rng.choice([0.0, 0.3]),
            "target_leader": 0.2,
            "lose": rng.choice([0.03, 0.1]) if self.losses else 0.0,
            "forget": rng.choice([0.0, 0.3]),
            "age": 0.6,
            "check": 1.0,
        }

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

    # -- what may happen --------------------------------------------------------------------------------

    def _task(self) -> None:
        if self.tasks:
            i = self.rng.randrange(len(self.tasks))
            try:
                next(self.tasks[i][1])
            except StopIteration:
                self.tasks.pop(i)

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
        first = {(r.task, r.generation): r for r in reversed(network)}
        if not first:
            return
        request = self.rng.choice(list(first.values()))
        if request.given_up and self.rng.random() < 0.5:
            return
        network.remove(request)
        if self.rng.random() < 0.03:
            # The connection broke: this request and those after it are gone.
            mine = (request.task, request.generation)
            self.world.network = [r for r in network if (r.task, r.generation) != mine]
            return
        target = self.world.target
        request.answer = target.append(request.identity, request.sequence, request.indexes)
        target.overgrown |= request.answer[0] == "appended" and request.losses != target.losses

    def _produce(self) -> None:
        source = self.world.source
        source.produce()
        self.offset_of |= {r.index: r.offset for r in source.records}

    def _gap(self) -> None:
        source = self.world.source
        source.remove_before(self.rng.randint(source.start, source.end))

    def _leader(self) -> None:
        self.world.source.another_leader()

    def _rewind(self) -> None:
        self.rewound = True
        self.world.source.lose_tail()

    def _compact(self) -> None:
        self.world.source.compact()

    def _compact_target(self) -> None:
        self.world.target.compact(self.rng)

    def _clean(self) -> None:
        self.world.map.clean(self.rng)

    def _foreign(self) -> None:
        self.world.target.foreign()

    def _target_leader(self) -> None:
        self.world.target.another_leader()

    def _lose(self) -> None:
        target = self.world.target
        if target.log and not target.undecided:
            self.target_lost = True
            target.lose_tail(self.rng.randint(1, 4))

    def _forget(self) -> None:
        """A day has passed: what is still on its way then is refused by its deadline."""
        if not self.world.network and not self.tasks:
            self.world.target.forget_producers()

    def _age(self) -> None:
        source = self.world.source
        source.old_until = self.rng.choice([-1, source.made, self.rng.randint(0, source.made)])

    # -- the oracle -------------------------------------------------------------------------------------

    def _check(self) -> None:
        world = self.world
        if world.target.undecided:
            return
        if world.target.overgrown:
            return
        self._in_order()
        bucket = MapBucket(0, "map")
        world.read(bucket)
        state = bucket.of(SOURCE_ID, TARGET_ID, 0)
        found = world.settle(state, world.look())
        if isinstance(found, Unavailable):
            raise Violated(f"no answer: {found.reason}")
        self._exact(found)

    def _in_order(self) -> None:
        if self.world.target.overgrown:
            return
        appended = [i for b in self.world.target.all_batches if b.state == "committed" for i in b.indexes]
        if any(a >= b for a, b in pairwise(appended)):
            raise Violated(f"records are doubled or out of order: {appended}")

    def _exact(self, found: Resolution) -> None:  # noqa: C901  one rule after the other
        """Every source offset leads to the first copied record at or after it."""
        places: list[tuple[int, int]] = []
        end = 0
        left: list[int] = []
        for b in self.world.target.all_batches:
            if b.state != "committed" or not b.indexes:
                continue
            for i, index in enumerate(b.indexes):
                upstream = self.offset_of[index]
                while places and places[-1][0] >= upstream:
                    places.pop()
                places.append((upstream, b.base + i))
                if index not in b.superseded:
                    left.append(b.base + i)
            end = b.base + b.count
        if not places:
            return
        if found.upstream is None:
            raise Violated(f"records were copied, and the map knows none: {places[:5]}")
        if found.copied_end != end:
            raise Violated(f"the copy ends at {end}, the answer at {found.copied_end}")
        at = 0
        for upstream in range(places[-1][0] + 2):
            while at < len(places) and places[at][0] < upstream:
                at += 1
            wanted = places[at][1] if at < len(places) else end
            got = found.segments.translate(SourceOffset(upstream), found.copied_end)
            # A consumer reads the first record that is left there.
            if isinstance(got, Unavailable) or bisect_left(left, got) != bisect_left(left, wanted):
                raise Violated(
                    f"source offset {upstream} is at {wanted}, not at {got}; {found.segments.triples()}"
                )
        copied = {i for b in self.world.target.all_batches if b.state == "committed" for i in b.indexes}
        missing = [
            r
            for r in self.world.source.records
            if r.offset < found.upstream and r.index not in copied and r.epoch <= max(found.leader_epoch, 0)
        ]
        if missing and not self.rewound:
            raise Violated(f"copying goes on at {found.upstream}, before that are missing: {missing[:5]}")

    def _rest(self) -> None:
        """Everything late arrives, a last task copies the rest: each record of the source is there once."""
        while self.world.network:
            self._deliver()
        if self.world.target.overgrown:
            return  # what was lost and grown over is named, and copied again; no oracle says how
        self.tasks.clear()
        self._check()
        self.world.target.former = None
        self.world.stopped.clear()
        source = self.world.source
        for _ in range(40):
            self._start()
            life = self.tasks.pop()[1]
            for _ in range(400):
                if next(life, StopIteration) is StopIteration:
                    break
                self._deliver()
            while self.world.network:
                self._deliver()
            copied = {i for b in self.world.target.all_batches if b.state == "committed" for i in b.indexes}
            if not [r for r in source.records if r.index not in copied]:
                break
            if self.world.stopped:
                raise Violated(f"stopped: {self.world.stopped[-1]}")
        else:
            left = [r for r in source.records if r.index not in copied]
            raise Violated(f"records are never copied: {left[:5]}")
        if self.world.target.undecided:
            self.world.target.take_bulk()
        self._check()
