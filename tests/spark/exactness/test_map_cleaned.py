"""Kafka's log cleaner compacts the offset map: no position and no record may depend on what it removes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from drkit.config import ClusterSettings
from drkit.flow_state.names import offset_map_topic
from tests.support.exactness.cleaning import (
    CLEANING,
    MapCleaning,
    clean_often,
    cleaned_to,
    segment_is_full,
)
from tests.support.exactness.fixtures import Pair
from tests.support.exactness.positions import CommandHere
from tests.support.exactness.truth import Truth
from tests.support.flows.clusters import Clusters
from tests.support.flows.compare import read, same_records
from tests.support.flows.flow import Flow
from tests.support.flows.produce import Load, fill, now_ms
from tests.support.waiting import eventually

TARGET = {"properties": CLEANING}


def copied_in_epochs(flow: Flow, topic: str, numbers: range) -> None:
    """One epoch each, and each in a segment of the map of its own."""
    for n in numbers:
        fill(flow.source, topic, 500, first=500 * n)
        flow.copy(topic)
        segment_is_full(now_ms())


@pytest.mark.soak
def test_positions_of_earlier_epochs_outlive_the_cleaner(flow: Flow, pair: Pair, topic_name: str) -> None:
    flow.create_both(topic_name, retention_ms="-1")
    truth, map_ = Truth(flow, topic_name), MapCleaning(flow, pair.target, topic_name)
    clean_often(flow, flow.target, flow.map_topic)
    copied_in_epochs(flow, topic_name, range(3))
    before = map_.end
    copied_in_epochs(flow, topic_name, range(3, 5))
    map_.wait(before)
    truth.is_exact(more_than=2499)
    flow.start(topic_name, once=False).kill_after(1.5)
    fill(flow.source, topic_name, 500, first=2500)
    flow.copy(topic_name)
    truth.is_exact(more_than=2999)


@pytest.mark.wide
def test_cleaned_while_a_task_runs_that_is_then_killed(flow: Flow, pair: Pair, topic_name: str) -> None:
    flow.create_both(topic_name, retention_ms="-1")
    truth, map_ = Truth(flow, topic_name), MapCleaning(flow, pair.target, topic_name)
    fill(flow.source, topic_name, 500)
    flow.copy(topic_name)
    clean_often(flow, flow.target, flow.map_topic)
    began = map_.end
    load = Load(flow.source, [topic_name], per_second=300, transactions=False)
    load.count = 1_000_000
    with load:
        task = flow.start(topic_name, once=False, seconds=300)
        map_.wait(began + 1, seconds=120)
        task.kill()
    flow.copy(topic_name)
    truth.is_exact(more_than=500)
    assert not flow.events("foreign_writer"), "no other producer wrote"


def copies(clusters: Clusters, topic: str, offsets: Iterable[int]) -> dict[int, int | str]:
    """Source offset → that of its copy; both sides hold the same records in one order."""
    theirs, ours = read(clusters.source, topic)[0], read(clusters.target, topic)[0]
    same_records(theirs, ours, topic)
    at = {a.offset: b.offset for a, b in zip(theirs, ours, strict=True)}
    return {o: at[o] for o in offsets}


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_translated_by_command_before_and_after_the_cleaner(
    pair: Pair, topic_name: str, tmp_path: Path
) -> None:
    """As a user meets it: replicate, a week of the cleaner, translate, verify."""
    sides = [
        ClusterSettings(alias=n, bootstrap_servers=c.bootstrap()) for n, c in zip("ab", pair, strict=True)
    ]
    world, map_topic = Clusters(sides[0], sides[1], 1), offset_map_topic("a")
    config = tmp_path / "drkit.toml"
    config.write_text(
        "".join(f'[clusters.{c.alias}]\nbootstrap_servers = "{c.bootstrap_servers}"\n' for c in sides)
        + f'[[flows]]\nsource = "a"\ntarget = "b"\ntopics = ["{topic_name}"]\nbuckets = 1\n'
    )
    drkit, asked = CommandHere(config), (100, 1050)
    world.create(world.source, topic_name, 1, {"retention.ms": "-1"})
    fill(world.source, topic_name, 1000)
    assert drkit.run("replicate", "--once")[0] == 0
    assert drkit.translate(topic_name, asked[:1]) == copies(world, topic_name, asked[:1])
    clean_often(world, world.target, map_topic)
    for first in (1000, 1100):
        before = world.offsets(world.target, map_topic)[0]
        segment_is_full(now_ms())
        fill(world.source, topic_name, 100, first=first)
        assert drkit.run("replicate", "--once")[0] == 0
    eventually(lambda: cleaned_to(pair.target, map_topic, 0) >= before, what="cleaning of the map")
    assert drkit.translate(topic_name, asked) == copies(world, topic_name, asked)
    assert drkit.run("verify")[0] == 0
    world.close()
