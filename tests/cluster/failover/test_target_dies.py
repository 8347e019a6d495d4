"""The target of a switchover is killed behind FENCE: the source alone is opened again, and the run ends.

As a person types it: status names the command, and it needs no other cluster.
"""

from __future__ import annotations

from pathlib import Path
import sys

import pytest

from drkit.journal.machine import RunState
from drkit.local.cluster import LocalCluster
from tests.support.failover.command import Said, drkit
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.settings_file import written
from tests.support.failover.world import World
from tests.support.flows.produce import answers
from tests.support.shared_clusters import own_cluster

DRAIN = Kill(11, "after")
"""The intent of DRAIN: the fence is proven."""


def faults(said: Said) -> dict[str, str]:
    (flow,) = said.data["flows"]
    return {f["code"]: f["text"] for f in flow["faults"]}


@pytest.mark.soak
def test_the_target_dies_behind_the_fence(
    source: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # no one answers a question
    standby = own_cluster("standby").start()
    world = World(source, standby, tmp_path / "journal")
    try:
        told(world, standby, written(world, tmp_path))
    finally:
        world.close()
        standby.stop()


def told(world: World, standby: LocalCluster, file: Path) -> None:
    topic, group = world.copy_orders()
    with Orchestrators() as orchestrators:
        begun = orchestrators.run(
            world.plain(), "begin", groups=[group], kill=DRAIN, request={"planned": True}
        )
        assert begun.killed, begun
    world.stop_replicating()
    standby.kill()
    assert answers(world.source, topic, [b"refused"])[0] is not None
    away = drkit(file, "status")
    assert "drkit failover --abort" in faults(away)["both_closed"], away
    unasked = drkit(file, "failover", "--abort")
    assert unasked.code == 2, unasked
    assert answers(world.source, topic, [b"refused"])[0] is not None
    done = drkit(file, "failover", "--abort", "--yes")
    assert done.code == 0, done
    assert done.data["lifted"] == [topic]
    assert answers(world.source, topic, [b"late"]) == [None]
    assert set(faults(drkit(file, "status"))) >= {"aborted_at_source", "target_unreachable"}
    standby.restart()
    assert "drkit failover --abort" in faults(drkit(file, "status"))["aborted_at_source"]
    resumed = drkit(file, "failover", "--resume")
    assert resumed.code == 3, resumed
    assert resumed.error == "aborted_at_source", resumed
    needless = drkit(file, "failover", "--abort", "--target-lost", "gone")
    assert needless.code == 2, needless
    ended = drkit(file, "failover", "--abort")
    assert ended.code == 0, ended
    assert world.run_log().state is RunState.ABORTED
    assert "aborted_at_source" not in faults(drkit(file, "status"))
    world.replicate()
    world.copied([topic], {group: None})
    assert [s.value for s in world.records(world.target, topic)[0]][-1] == b"late"
