"""Many groups on many partitions, under load, while brokers of both clusters die and come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
import random
import threading

from drkit.config import ClusterSettings
from drkit.kafka.groups import Committed, Groups, Offsets
from drkit.local.cluster import LocalCluster
from drkit.offsets.group_guard import Mark
from drkit.replicate.checkpoint_shard import Shard
from drkit.replicate.checkpoint_task import CheckpointTask
from drkit.replicate.known import Known, Producers
from tests.replicate.clusters import Clusters
from tests.replicate.compare import Seen, read
from tests.replicate.exactness import first, ids_of
from tests.replicate.flow import Flow
from tests.replicate.process import eventually
from tests.replicate.produce import Load
from tests.replicate.readers import Readers, first_records

DAY_MS = 86_400_000


def trouble(clusters: Sequence[LocalCluster], kills: int, *, seed: int, calm: float) -> None:
    """One broker after the other dies, or is stopped in good order, and comes back."""
    chance, pause = random.Random(seed), threading.Event()
    for number in range(kills):
        cluster = clusters[number % len(clusters)]
        broker = chance.choice(cluster.brokers)
        pause.wait(chance.uniform(0.5, 1.0) * calm)
        (broker.terminate if chance.random() < 0.3 else broker.kill)()
        pause.wait(chance.uniform(0.5, 1.0) * calm)
        cluster.restart()


def offsets_of(flow: Clusters, cluster: ClusterSettings, groups: Sequence[str]) -> dict[str, Offsets]:
    async def ask(raw):
        return await Groups(raw).committed(groups)

    answers = flow.ask(cluster, ask)
    assert all(a.value is not None for a in answers.values()), answers
    return {g: a.value for g, a in answers.items()}


class Rounds:
    """Checkpoint rounds in a thread, as the flow's second query does them."""

    def __init__(self, flow: Flow, topic: str, groups: Sequence[str]) -> None:
        checkpoints = f"{flow.source.alias}.checkpoints.internal"
        flow.create(flow.target, checkpoints, 1, {"cleanup.policy": "compact"})
        known = Known(
            {topic: (topic, *ids_of(flow, topic))},
            Producers(flow.producer.id, frozenset({flow.producer.id})),
        )
        self._shard = Shard(0, flow.source.alias, tuple(groups), known, checkpoints, 0.0, DAY_MS)
        self._task = CheckpointTask(flow.source, flow.target, flow.settings)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rounds")
        self.broken: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            report = self._task.run(replace(self._shard))
            if report.error:
                self.broken.append(report.error)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._task.close()


@contextmanager
def rounds_beside_a_copy(flow: Flow, topic: str, groups: Sequence[str]) -> Iterator[Rounds]:
    """A copy task and checkpoint rounds, without Spark."""
    task = flow.start(topic, once=False, seconds=600.0)
    rounds = Rounds(flow, topic, groups)
    rounds.start()
    try:
        yield rounds
        assert task.running
    finally:
        rounds.stop()
        task.kill()


def work_under_trouble(
    flow: Clusters,
    topic: str,
    groups: Sequence[str],
    clusters: Sequence[LocalCluster],
    *,
    kills: int,
    per_second: int,
    seed: int,
    calm: float,
) -> int:
    """Load, groups that read it, brokers that die; returns how many records the groups read."""
    with Load(flow.source, [topic], per_second=per_second), Readers(flow.source, topic, groups) as readers:
        eventually(lambda: all(readers.read.values()), what="every group reading")
        trouble(clusters, kills, seed=seed, calm=calm)
        readers.stop()
    return sum(readers.read.values())


def at_rest(flow: Clusters, groups: Sequence[str]) -> bool:
    """Whether what the target keeps was made from what the groups have committed last."""
    here, there = offsets_of(flow, flow.source, groups), offsets_of(flow, flow.target, groups)
    return all(
        (mark := Mark.of(there[g].get(at, Committed(-1)).metadata)) is not None and mark.upstream == c.offset
        for g, offsets in here.items()
        for at, c in offsets.items()
    )


def check_positions(flow: Clusters, topic: str, groups: Sequence[str]) -> int:
    """At rest: each offset on the target leads to the record that the source's leads to; returns how many."""
    theirs, ours = read(flow.source, topic), read(flow.target, topic)
    here, there = offsets_of(flow, flow.source, groups), offsets_of(flow, flow.target, groups)
    checked = 0
    for group in groups:
        assert here[group].keys() == there[group].keys(), group
        for at, committed in here[group].items():
            kept = there[group][at]
            _same_next(theirs[at.partition], ours[at.partition], committed, kept, f"{group} {at}")
            checked += 1
    return checked


def _same_next(
    theirs: Sequence[Seen], ours: Sequence[Seen], committed: Committed, kept: Committed, where: str
) -> None:
    wanted, got = first(theirs, committed.offset), first(ours, kept.offset)
    assert (got and got.content) == (wanted and wanted.content), f"{where}: {committed} → {kept}"


def check_switch(flow: Clusters, topic: str, groups: Sequence[str]) -> None:
    """Members that join on the target get, first of all, the record that they had not read yet."""
    theirs, here = read(flow.source, topic), offsets_of(flow, flow.source, groups)
    for group in groups:
        positions = {at.partition: c.offset for at, c in here[group].items()}
        got = first_records(flow.target, group, topic, positions)
        for p, offset in positions.items():
            wanted = first(theirs[p], offset)
            assert got[p] == (wanted and wanted.content), f"{group} {topic}-{p}: committed {offset}"
