"""The replicator and the primary die together, many times: the target alone knows every position, exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
import json
from pathlib import Path
import random
import threading

import pytest

from drkit.errors import DrkitError
from drkit.kafka.groups.requests import Committed, Groups
from drkit.kafka.requests import LATEST, list_offsets
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offsets.group_guard import OffsetMark
from drkit.translate.positions import EXACT, PositionQuestion, look, translate
from tests.support.flows.beside import SideJobs
from tests.support.flows.both_die import die_together_again_and_again, timestamps
from tests.support.flows.clusters import Clusters
from tests.support.flows.compare import Seen, read
from tests.support.flows.exactness import exact_when_alone, first
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.groups_at_rest import offsets_of
from tests.support.flows.process import kill_all
from tests.support.flows.produce import Load, fill_transactions, now_ms
from tests.support.shared_clusters import ClusterFactory
from tests.support.soak.drkit_world import DrkitWorld
from tests.support.waiting import eventually

pytestmark = pytest.mark.soak
PARTITIONS = 4
GROUPS = [f"g-{i}" for i in range(5)]
DEATHS = 25
PER_SECOND = 300
"""Records written beside; after each death every offset that there ever was is looked at."""


@pytest.mark.parametrize("mode", ["live", "bulk", "both"])
def test_the_target_alone_knows_every_position(
    cluster_factory: ClusterFactory,
    target: LocalCluster,
    flow_factory: FlowFactory,
    topic_name: str,
    record_property,
    mode: str,
) -> None:
    source = cluster_factory("doomed")
    flow = flow_factory(source, target, bulk_commit_seconds=0.3)
    counted = die_together_again_and_again(flow, source, topic_name, mode, deaths=DEATHS, seed=7)
    told(record_property, mode, counted)
    assert counted.pop("exact") > 1000
    counted.pop("not copied", None)
    assert not counted, "something confirms each of them"


@pytest.mark.parametrize("mode", ["live", "both"])
def test_drkit_and_its_primary_die_together(
    cluster_factory: ClusterFactory, tmp_path: Path, topic_name: str, record_property, mode: str
) -> None:
    """The whole process tree of `drkit replicate`; what its own commands say with the target alone."""
    source, target = cluster_factory("doomed"), cluster_factory("survivor")
    world = DrkitWorld(source, target, tmp_path, topic_name)
    world.create(world.source, topic_name, PARTITIONS, {"retention.ms": "-1"})
    timestamp = timestamps(mode)
    fill_transactions(world.source, [topic_name], 3000, most=60, timestamp=timestamp)
    counted, chance = Counter[str](), random.Random(11)
    with (
        Load(world.source, [topic_name], per_second=PER_SECOND, timestamp=timestamp),
        Committing(world, topic_name),
    ):
        for death in range(DEATHS):
            one_death(world, source, topic_name, chance)
            counted += proven(world, source, topic_name)
            print(mode, death + 1, dict(counted), flush=True)  # noqa: T201 - however far a soak run gets
    told(record_property, mode, counted)
    assert counted.pop("exact") > 1000
    assert counted.pop("positions") > 100
    assert counted.pop("synced") > 100
    counted.pop("not copied", None)
    assert not counted, "something confirms each of them"
    world.close()


def told(record_property, mode: str, counted: Counter[str]) -> None:
    record_property(mode, json.dumps(counted))
    print(mode, dict(counted))  # noqa: T201 - the figures of a soak run are its result


def one_death(world: DrkitWorld, source: LocalCluster, topic: str, chance: random.Random) -> None:
    """Start drkit; at some moment under load kill it and the primary, in either order."""
    drkit, began = world.replicate(), now_ms()
    eventually(lambda: drkit.alive() and world.knows_its_copy(), 120, "the copy's record in the state")
    world.grown(topic, chance.randint(1, 2000), seconds=120)
    if chance.random() < 0.7:
        eventually(lambda: drkit.alive() and world.rounds_since(began), 60, "a checkpoint round")
    threading.Event().wait(chance.uniform(0.0, 3.0))
    victims = [*drkit.pids(), *(b.pid for b in source.brokers)]
    chance.shuffle(victims)
    kill_all(victims)
    drkit.kill()
    source.kill()


def proven(world: DrkitWorld, source: LocalCluster, topic: str) -> Counter[str]:
    """Ask with the source dead, bring it back, and look at every answer."""
    partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    groups = checkpointed(world)
    with ThreadPoolExecutor(1 + len(GROUPS)) as pool:  # each of them waits for the dead primary
        look_once = pool.submit(look, world.settings, world.flow, partitions, reverse=False)
        asked = [
            pool.submit(translate, world.settings, world.flow, PositionQuestion(group=g)) for g in groups
        ]
        looked = look_once.result()
        lines = {g: answer.result() for g, answer in zip(groups, asked, strict=True)}
    synced = offsets_of(world, world.target, GROUPS)
    source.restart()
    theirs, ours = read(world.source, topic), read(world.target, topic)
    found = {at.partition: looked.places[at] for at in partitions}
    starts, ends = world.starts(world.source, topic), world.offsets(world.source, topic)
    counted = exact_when_alone(found, theirs, ours, starts, ends, topic)
    for group, answers in lines.items():
        for line in answers:
            assert line.answer == EXACT, f"{group}: {line}"
            p = line.partition
            same_next(theirs[p], ours[p], line.offset, line.to_offset or 0, f"{group}: {line}")
            counted["positions"] += 1
    for group, offsets in synced.items():
        for at, kept in offsets.items():
            mark = OffsetMark.of(kept.metadata)
            assert mark is not None
            assert mark.upstream is not None
            where = f"{group} {at}: {kept}"
            same_next(theirs[at.partition], ours[at.partition], mark.upstream, kept.offset, where)
            counted["synced"] += 1
    return counted


def checkpointed(world: DrkitWorld) -> list[str]:
    """Groups of which the target has a checkpoint."""
    if world.topic(world.target, "a.checkpoints.internal").error:
        return []
    keys = [s.key or b"" for s in read(world.target, "a.checkpoints.internal")[0]]
    return [g for g in GROUPS if any(g.encode() in key for key in keys)]


def same_next(theirs: Sequence[Seen], ours: Sequence[Seen], up: int, down: int, where: str) -> None:
    """Both offsets lead to the same next record; nothing else on the target means it was never copied."""
    wanted, got = first(theirs, up), first(ours, down)
    if got is None:
        assert not ours or down > ours[-1].offset
        assert wanted is None or wanted.content not in {s.content for s in ours}, where
    else:
        assert wanted is not None, where
        assert got.content == wanted.content, where


class Committing(SideJobs):
    """Groups that commit somewhere, all the time, as long as their cluster answers."""

    def __init__(self, world: DrkitWorld, topic: str) -> None:
        super().__init__()
        self._world, self._topic = world, topic

    def _run(self) -> None:
        asking = Clusters(self._world.source, self._world.target, 1)  # a thread has connections of its own
        chance = random.Random(3)
        while not self._stop.wait(0.05):
            group, at = chance.choice(GROUPS), TopicPartition(self._topic, chance.randrange(PARTITIONS))
            try:
                end = asking.ask_once(asking.source, list_offsets, 0, {at: LATEST}, committed=True)[at]
                offsets = {group: {at: Committed(chance.randint(0, max(0, end.offset)))}}
                asking.ask_once(asking.source, lambda raw, o=offsets: Groups(raw).alter(o))
            except DrkitError:
                continue  # its cluster is dead at the moment
        asking.close()
