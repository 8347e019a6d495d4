"""A bubble on clusters that a MirrorMaker 2 copies, too: neither takes the other's topics or groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_names
from drkit.local.cluster import LocalCluster, start_together
from tests.support.drill.production import Production, plan_of, run
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.mm2.mirror_maker import mirror_maker
from tests.support.waiting import eventually

PROPERTIES = """\
clusters = source, target
source.bootstrap.servers = {source}
target.bootstrap.servers = {target}
source->target.enabled = true
source->target.topics = .*
source->target.groups = .*
target->source.enabled = true
target->source.topics = .*
target->source.groups = .*
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
"""
"""All that it can be told to copy, in both directions, each second; topics get a prefix."""
EXCLUDED = r"""
topics.exclude = mm2.*\.internal, .*\.replica, __.*, drkit-.*
groups.exclude = console-consumer-.*, connect-.*, __.*, drkit-.*
"""
"""Its defaults, and drkit's names."""


@pytest.mark.wide
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "excluded", [pytest.param(EXCLUDED, id="excluded"), pytest.param("", id="of Kafka 4's defaults")]
)
def test_a_bubble_beside_a_running_mirrormaker(
    cluster_factory: Callable[..., LocalCluster], tmp_path: Path, excluded: str
) -> None:
    """P28: a MirrorMaker 2 takes nothing of a drill, whatever it excludes, and the drill leaves nothing."""
    source, target = cluster_factory("mm2source", start=False), cluster_factory("mm2target", start=False)
    start_together(source, target)
    file = tmp_path / "mm2.properties"
    file.write_text(PROPERTIES.format(source=source.bootstrap(), target=target.bootstrap()) + excluded)
    production = Production(World(source, target, tmp_path / "journal"))
    world = production.world
    sides = [Cluster.connect(side) for side in (world.source, world.target)]
    copies = [f"source.{production.topics[0]}", f"target.{production.topics[0]}"]
    with mirror_maker(file) as peer:

        def works() -> bool:
            peer.check()
            return copies[0] in topic_names(sides[1]) and copies[1] in topic_names(sides[0])

        eventually(works, 300, "MirrorMaker 2 copies in both directions")
        seen: set[str] = set()

        report = run(world.settings, plan_of(world.settings))

        # It looks for topics each second: a topic that came after the drill's shows that it has looked.
        world.create(world.source, world.name("after"), 1, {})
        fill(world.source, world.name("after"), 1)
        eventually(lambda: f"source.{world.name('after')}" in topic_names(sides[1]), 120, "a later topic")
        for side in sides:
            seen |= {name for name in topic_names(side) if "drkit-drill" in name}
        peer.check()
    assert report.verdict == "pass", report.reasons
    assert {name for name in seen if report.id in name} == set()
    assert report.cleanup is not None
    assert (report.cleanup.left, report.cleanup.unknown) == ((), ())
    world.close()
