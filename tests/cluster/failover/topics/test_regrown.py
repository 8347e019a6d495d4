"""A primary that came back from an older disk has written other records than were copied."""

from __future__ import annotations

from pathlib import Path
import shutil

import pytest

from drkit.failover.core.request import RunRequest
from tests.support.failback.pair import Pair
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually


@pytest.mark.wide
@pytest.mark.timeout(300)
def test_what_it_has_written_since_is_stated_as_lost(module_cluster: ModuleClusters, tmp_path: Path) -> None:
    """It has 20 of the 30 copied records, and 15 new ones from there on."""
    pair = Pair(module_cluster("primary"), module_cluster("standby"), tmp_path / "journal")
    world, [broker] = pair.now, pair.now.brokers[0].brokers
    try:
        topic, group = world.copy_orders()
        broker.freeze()
        shutil.copytree(broker.folder / "data", tmp_path / "older")
        broker.resume()
        fill(world.source, topic, 10, first=20)
        world.copied([topic], {group: None})
        world.stop_replicating()
        broker.kill()
        shutil.rmtree(broker.folder / "data")
        shutil.move(tmp_path / "older", broker.folder / "data")
        broker.restart()
        eventually(lambda: world.offsets(world.source, topic)[0] == 20, what="the older disk")
        fill(world.source, topic, 15, first=1000)
        with world.desk() as desk:
            loss = desk.begin([], RunRequest(accept_data_loss="a test"))["loss"]
        [lost] = loss["partitions"]
        assert (lost["lost_from"], lost["end"], lost["records"]) == (20, 35, 15)
    finally:
        pair.close()
