"""Many groups on many partitions, under load, while brokers of both clusters die and come back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
import random
import threading
from typing import NamedTuple

from drkit.checkpoints.round import CheckpointTask
from drkit.checkpoints.shard import Shard, ShardReport
from drkit.config import ClusterSettings
from drkit.flow_state.copied_topics import CopiedTopics, Producers
from drkit.kafka.groups.requests import Committed, Groups, Offsets
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offsets.group_guard import OffsetMark
from tests.support.flows.beside import SideJobs
from tests.support.flows.clusters import Clusters
from tests.support.flows.compare import Seen, read
from tests.support.flows.exactness import first, ids_of, places
from tests.support.flows.flow import Flow
from tests.support.flows.produce import Load
from tests.support.flows.readers import Readers, first_records
from tests.support.waiting import eventually

Told = Callable[[set[TopicPartition]], Iterable[str]]
"""What there is to say of some partitions in which groups do not come to rest."""


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


class Rounds(SideJobs):
    """Checkpoint rounds in a thread, as the flow's second query does them."""

    def __init__(self, flow: Flow, topic: str, groups: Sequence[str]) -> None:
        super().__init__()
        checkpoints = f"{flow.source.alias}.checkpoints.internal"
        flow.create(flow.target, checkpoints, 1, {"cleanup.policy": "compact"})
        known = CopiedTopics(
            {topic: (topic, *ids_of(flow, topic))},
            Producers(flow.producer.id, frozenset({flow.producer.id})),
        )
        self._shard = Shard(0, flow.source.alias, tuple(groups), known, checkpoints, sync=True)
        self._task = CheckpointTask(flow.source, flow.target, flow.settings)
        self._flow, self._topic = flow, topic
        self.broken: list[str] = []
        self.done = 0
        self.last: ShardReport | None = None

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            report = self.last = self._task.run(replace(self._shard))
            self.done += 1
            if report.error:
                self.broken.append(report.error)

    def told(self, partitions: set[TopicPartition]) -> Iterator[str]:
        """The last round, rounds that broke off, and the copy task with its positions."""
        yield f"round {self.done}, ended by {self._failure!r}, the last: {self.last}"
        yield f"{len(self.broken)} broke off, the last of them: {self.broken[-3:]}"
        for task in self._flow.processes:
            yield task.told()
        found = places(self._flow, self._topic)
        yield from (f"{at}: {found[at.partition]}" for at in sorted(partitions))

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self._task.close()


@contextmanager
def rounds_beside_a_copy(flow: Flow, topic: str, groups: Sequence[str]) -> Iterator[Rounds]:
    """A copy task and checkpoint rounds, without Spark."""
    task = flow.start(topic, once=False, seconds=600.0)
    try:
        with Rounds(flow, topic, groups) as rounds:
            yield rounds
            assert task.running
    finally:
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


class Restless(NamedTuple):
    """A position on the target that was not made from what the group has committed last."""

    group: str
    at: TopicPartition
    committed: int
    """On the source."""
    there: Committed | None
    """What the target keeps; its metadata tell from which offset it was made."""


def restless(flow: Clusters, groups: Sequence[str]) -> list[Restless]:
    """What is not at rest; empty when all is."""
    here, there = offsets_of(flow, flow.source, groups), offsets_of(flow, flow.target, groups)
    found = [Restless(g, at, c.offset, there[g].get(at)) for g, o in here.items() for at, c in o.items()]
    return [r for r in found if r.there is None or _made_from(r.there) != r.committed]


def _made_from(kept: Committed) -> int | None:
    mark = OffsetMark.of(kept.metadata)
    return mark.upstream if mark is not None else None


def come_to_rest(flow: Clusters, groups: Sequence[str], told: Told, seconds: float = 60.0) -> None:
    """Wait until every position is made from its group's last commit; else say which is not, and why."""
    left: list[Restless] = []

    def settled() -> bool:
        left[:] = restless(flow, groups)
        return not left

    try:
        eventually(settled, seconds, "rest")
    except AssertionError as error:
        lines = [f"{error}: {len(left)} positions of {len({r.group for r in left})} groups"]
        lines += map(str, left[:20])
        raise AssertionError("\n".join([*lines, *told({r.at for r in left})])) from error


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
