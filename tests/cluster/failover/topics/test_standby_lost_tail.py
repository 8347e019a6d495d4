"""The standby alone has lost the last records of a copy; then the primary dies."""

from __future__ import annotations

from contextlib import closing

import pytest

from drkit.clock import wall_ms
from drkit.detect.risk import Sighting
from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.model import TopicPartition
from drkit.status.model import FlowStatus
from drkit.status.paired import PairedCollector
from drkit.watch.senses import loss_known
from tests.support.circles import in_wide
from tests.support.errors import coded
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.world import World
from tests.support.flows.kept_folder import KeptFolder
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

KEPT, LOST = 100, 200


def looked(world: World, *, notes: bool = False) -> FlowStatus:
    """Look at both clusters; and note the ends of the source."""
    settings = world.settings
    with closing(PairedCollector(settings, settings.flows[0])) as collector:
        status = collector.look()
        if notes:
            collector.remember_source()
    return status


@pytest.mark.timeout(300)
@pytest.mark.parametrize("waiting", [in_wide(0), 30])
def test_the_loss_has_what_was_copied_and_is_of_unknown_age(
    module_cluster: ModuleClusters, world_factory: WorldFactory, waiting: int
) -> None:
    """Also where records waited to be copied when the ends were noted: the note has what was copied then."""
    primary, standby = module_cluster("primary"), module_cluster("standby")
    world = world_factory(primary, standby)
    world.failover_fields["rpo_seconds"] = 600.0
    topic, later, group = world.name("orders"), world.name("later"), world.name("shop")
    disk = KeptFolder(standby.brokers[0], f"{topic}-0")
    for name in (topic, later):
        world.create(world.source, name, 1, {"retention.ms": "-1"})
    fill(world.source, topic, KEPT)
    world.replicate()
    world.copied([topic])
    world.stop_replicating()
    standby.kill()
    disk.keep()
    standby.restart()
    eventually(lambda: world.offsets(world.target, topic), what="the standby")
    fill(world.source, topic, LOST, first=KEPT)
    world.commit(world.source, group, {TopicPartition(topic, 0): KEPT + 80})
    world.replicate()
    world.copied([topic], {group: None})
    fill(world.source, later, 1)
    world.copied([topic, later])  # the ends are noted again, and nothing of the first topic was missing
    world.stop_replicating()
    missing = LOST + waiting
    fill(world.source, topic, waiting, first=KEPT + LOST)
    if waiting:
        looked(world, notes=True)
    primary.kill()
    standby.kill()
    disk.put_back()
    standby.restart()
    eventually(lambda: world.offsets(world.target, topic) == {0: KEPT}, what="the older disk")

    status, now = looked(world), wall_ms()
    assert status.loss_now is not None
    assert (status.loss_now.records, status.loss_now.seconds) == (missing, None)
    seen_before = Sighting(now, now, None, copied_ms=now - 1000)
    assert loss_known(status, seen_before, silent=True).risk(None).seconds is None
    with world.desk() as desk, pytest.raises(Refused, check=coded("loss_unknown")) as refused:
        desk.begin([], RunRequest())
    assert f"has lost {LOST} records that it had copied" in refused.value.evidence
    with world.desk() as desk:
        report = desk.begin([], RunRequest(accept_data_loss="both lost a disk"))
    loss = report["loss"]
    assert (report["state"], loss["records"], loss["seconds"]) == ("done", missing, None)
    assert f"known lost: {missing} records" in loss["statement"]
    assert world.committed(world.target, group)[TopicPartition(topic, 0)].offset == KEPT
