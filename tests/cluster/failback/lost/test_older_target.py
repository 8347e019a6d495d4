"""The new primary comes back from an older disk: only the old primary has its promotion on record."""

from __future__ import annotations

from pathlib import Path
import shutil

import pytest

from tests.support.failback.pair import CUT
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.failover.world import World
from tests.support.flows.produce import answers, fill
from tests.support.shared_clusters import ModuleClusters


@pytest.mark.timeout(400)
def test_no_side_is_protected_by_a_target_that_has_lost_its_promotion(
    module_cluster: ModuleClusters, tmp_path: Path
) -> None:
    """State and journal were older together: status was ok, and both sides refused their clients."""
    side = World(module_cluster("primary"), module_cluster("standby"), tmp_path / "journal")
    broker = side.brokers[1].brokers[0]
    try:
        topic, _ = side.copy_orders()
        side.protected([topic])
        broker.freeze()
        shutil.copytree(broker.folder / "data", tmp_path / "older")
        broker.resume()
        file, flow = written(side, tmp_path), ("--flow", side.settings.flows[0].name)
        moved = drkit(file, "failover", *flow, "--all", "--planned", "--clients-cut", CUT, "--yes")
        assert moved.code == 0, moved
        side.stop_replicating()
        fill(side.target, topic, 15, first=1000)
        broker.kill()
        shutil.rmtree(broker.folder / "data")
        shutil.move(tmp_path / "older", broker.folder / "data")
        broker.restart()
        side.replicate()
        side.copied([topic])
        status = drkit(file, "status")
        [seen] = status.data["flows"]
        faults = {f["code"]: f["text"] for f in seen["faults"]}
        assert status.code == 1, status
        assert seen["pair"]["state"] == "unknown", seen
        assert "has lost what it took" in faults["both_closed"], faults
        lift = f"drkit fence lift --flow '{flow[1]}' --accept-divergence"
        assert lift in faults["both_closed"], faults
        assert "has lost its promotion" in faults["pair_unknown"], faults
        [shown] = drkit(file, "fence", "show", *flow).data["topics"]
        assert (shown["topic"], shown["fence"]) == (topic, "max.message.bytes")
        assert shown["takes_writes"] == "no"
        assert drkit(file, "fence", "lift", *flow, "--yes").error == "lift_opens_both"
        planned = drkit(file, "failover", *flow, "--all", "--planned", "--clients-cut", CUT, "--yes")
        assert planned.error == "journal_run_lost", planned
        lifted = drkit(file, "fence", "lift", *flow, "--accept-divergence", "the disk is older", "--yes")
        assert lifted.data["lifted"] == [topic], lifted
        assert answers(side.source, topic, [b"open again"]) == [None]
        side.protected([topic])
        assert drkit(file, "status").data["flows"][0]["pair"]["state"] == "protected"
    finally:
        side.close()
