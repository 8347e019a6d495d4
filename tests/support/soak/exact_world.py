"""`drkit replicate` under load while its topics change, and groups are translated."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
import json
from pathlib import Path
import random
from typing import Any

from confluent_kafka import KafkaException

from drkit.errors import DrkitError
from drkit.flow_state.names import offset_map_topic, state_topic
from drkit.kafka.groups.requests import Committed, Groups
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.translate.positions import EXACT, PositionQuestion, look, translate
from tests.support.exactness.cleaning import clean_often
from tests.support.exactness.history import BAD, History
from tests.support.exactness.positions import Command, Partition
from tests.support.exactness.recorded_load import KINDS, Kind, RecordedLoad
from tests.support.exactness.truth import Truth
from tests.support.exactness.walker import COMPACT
from tests.support.flows.compare import read
from tests.support.flows.process import Replicator
from tests.support.soak.drkit_world import DrkitWorld
from tests.support.waiting import eventually

MOST_PARTITIONS = 6
RECREATED = tuple(k for k in KINDS if not k.compacted)
OPERATIONS = {
    "groups": 8, "gap": 3, "kill": 2, "partitions": 1, "recreated": 1, "target": 1, "source": 1, "check": 1,
}  # fmt: skip
"""What may happen, and how often compared with the others."""


class ExactWorld(DrkitWorld):
    """One topic of each kind; their names begin alike."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, folder: Path, prefix: str, *, seed: int
    ) -> None:
        more = {"on_source_recreated": "new_generation", "epoch_seconds": 30}
        super().__init__(source, target, folder, f"{prefix}-.*", **more)
        self._clusters = {"source": source, "target": target}
        self._chance, self.seed, self._prefix = random.Random(seed), seed, prefix
        self._loads: dict[Kind, ExitStack] = {}
        self.drkit: Replicator | None = None
        self.command = Command(self._config)
        self.truths = {kind: self._topic(kind) for kind in KINDS}
        self.create(self.target, offset_map_topic("a"), 4, {"cleanup.policy": "compact"})
        clean_often(self, self.target, offset_map_topic("a"))

    def _topic(self, kind: Kind) -> Truth:
        name = f"{self._prefix}-{kind.name}"
        self._create(name, kind, 2)
        return Truth(self, name, 2, compacted=kind.compacted, both_compact=kind.compacted, ask=ask)

    def _create(self, name: str, kind: Kind, partitions: int) -> None:
        self.create(
            self.source, name, partitions, {"retention.ms": "-1", **(COMPACT if kind.compacted else {})}
        )

    def events(self) -> list[dict[str, Any]]:
        seen = read(self.target, state_topic("a"))[0]
        return [json.loads(s.value) for s in seen if s.key and s.key.startswith(b"event/") and s.value]

    # -- the load and drkit -----------------------------------------------------------------------------

    def write(self, *kinds: Kind) -> None:
        for kind in kinds or KINDS:
            seed = self._chance.randrange(1 << 30)
            stack = self._loads[kind] = ExitStack()
            stack.enter_context(RecordedLoad(self.truths[kind], kind, per_second=60, seed=seed))

    def quiet(self, *kinds: Kind) -> None:
        for kind in kinds or KINDS:
            if kind in self._loads:
                self._loads.pop(kind).close()

    def running(self) -> Replicator:
        if self.drkit is None:
            self.drkit = self.replicate()
            eventually(self.drkit.copies, 120, "a replicator that copies")
        assert self.drkit.alive()
        return self.drkit

    def kill(self) -> None:
        if self.drkit is not None:
            self.drkit.kill()
            self.drkit = None

    # -- what happens -----------------------------------------------------------------------------------

    def happen(self) -> str:
        """One operation, by chance; returns its name."""
        self.running()
        what = self._chance.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]
        kind = self._chance.choice(RECREATED)
        if what == "groups":
            self.groups(kind)
        elif what == "gap":
            self.gap(kind)
        elif what == "kill":
            self.kill()
        elif what == "partitions":
            self.grown_by_one(kind)
        elif what == "recreated":
            self.recreated(kind)
        elif what == "check":
            self.checked()
        else:
            for broker in self._clusters[what].brokers:
                self._chance.choice([broker.kill, broker.terminate])()
            self._clusters[what].restart()
        return f"{what} {kind.name}"

    def gap(self, kind: Kind) -> None:
        truth = self.truths[kind]
        p = self._chance.choice(list(truth.partitions))
        truth.read()
        start, end = (f(self.source, truth.topic)[p] for f in (self.starts, self.offsets))
        before = end if self._chance.random() < 0.3 else self._chance.randint(start, end)
        if before > start:
            # Leaders come back some moments after their broker.
            eventually(
                lambda: self._removed(truth.topic, p, before), what=f"{truth.topic}-{p} cut at {before}"
            )

    def _removed(self, topic: str, partition: int, before: int) -> bool:
        try:
            self.delete_records(topic, partition, before)
        except KafkaException:
            return False
        return True

    def grown_by_one(self, kind: Kind) -> None:
        truth = self.truths[kind]
        number = len(truth.partitions)
        if number < MOST_PARTITIONS:
            self.quiet(kind)  # a producer that was there before does not know the new one yet
            self.grow(self.source, truth.topic, number + 1)
            truth.partitions[number] = History()
            self.write(kind)

    def recreated(self, kind: Kind) -> None:
        """The topic is deleted, and another one of its name created."""
        truth = self.truths[kind]
        self.quiet(kind)
        truth.read()
        self.delete(self.source, truth.topic)
        truth.recreated()
        self._create(truth.topic, kind, len(truth.partitions))
        self.write(kind)

    def groups(self, kind: Kind) -> None:
        """A group commits anywhere; what drkit translates meanwhile is looked at in the end."""
        truth, group = self.truths[kind], f"g-{kind.name}"
        ends = self.offsets(self.source, truth.topic)
        offsets = {
            TopicPartition(truth.topic, p): Committed(self._chance.randint(0, end)) for p, end in ends.items()
        }
        self.ask(self.source, lambda raw: Groups(raw).alter({group: offsets}))
        try:
            lines = translate(self.settings, self.flow, PositionQuestion(group=group))
        except DrkitError:
            return  # nothing is copied yet, or a cluster is away: drkit says so
        for line in lines:
            if line.answer == EXACT and line.to_offset is not None:
                generation = truth.partitions[line.partition].generation
                truth.asked.append((line.partition, generation, line.offset, line.to_offset))

    # -- the verdict ------------------------------------------------------------------------------------

    def checked(self) -> None:
        self.settled()
        self.verdict()
        self.write()

    def settled(self) -> None:
        """Nothing is written any more, all is copied, and drkit has ended."""
        self.quiet()
        self.kill()
        code, _ = self.command.run("replicate", "--once", seconds=300)
        assert code == 0

    def verdict(self) -> Counter[str]:
        counts = {kind.name: truth.verdict() for kind, truth in self.truths.items()}
        print(json.dumps(counts), flush=True)  # noqa: T201 - however far a soak run gets
        bad = {name: count for name, count in counts.items() if any(count[b] for b in BAD)}
        said = (
            [{k: v for k, v in e.items() if k not in {"flow", "at_ms"}} for e in self.events()] if bad else []
        )
        assert not bad, f"seed {self.seed}: {bad}; events: {said}"
        return sum(counts.values(), Counter[str]())

    def close(self) -> None:
        self.quiet()
        self.kill()
        super().close()


def ask(world: ExactWorld, topic: str) -> dict[int, Partition]:
    """All partitions of a topic, as `drkit translate` looks at them."""
    numbers = world.topic(world.source, topic).leaders
    partitions = [TopicPartition(topic, p) for p in numbers]
    looked = look(world.settings, world.flow, partitions, reverse=False)
    return {at.partition: Partition(looked.places[at]) for at in partitions}


def copied_something(world: ExactWorld) -> None:
    """Until the first records are on the target."""
    topic = f"{world._prefix}-{KINDS[0].name}"
    eventually(
        lambda: (
            not world.topic(world.target, topic).error and sum(world.offsets(world.target, topic).values())
        ),
        120,
        "the first copied records",
    )
