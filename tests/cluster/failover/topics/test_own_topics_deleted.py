"""All topics of drkit on the standby are deleted while a run is fenced: the source has its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drkit.failover.core.request import RunRequest
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_names
from tests.support.failover.command import Said, drkit
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.orchestrator_parent import AFTER
from tests.support.failover.settings_file import written
from tests.support.failover.world import World
from tests.support.flows.produce import answers

pytestmark = pytest.mark.wide


@pytest.mark.parametrize("planned", [False, True])
def test_the_status_names_the_fence_and_a_command_lifts_it(
    world: World, tmp_path: Path, *, planned: bool
) -> None:
    topic, _ = world.copy_orders()
    request = RunRequest(planned=True) if planned else RunRequest(accept_data_loss="test")
    more: dict[str, Any] = {"groups": [], "request": request.to_json()}
    kill = Kill("DRAIN  intent", AFTER)
    with Orchestrators() as orchestrators:
        assert orchestrators.run(world.plain(), "begin", kill=kill, **more).killed
    world.stop_replicating()
    for name in topic_names(Cluster.connect(world.target)):
        if name.startswith("drkit-") and world.source.alias in name:
            world.delete(world.target, name)
    file, flow = written(world, tmp_path), world.settings.flows[0].name

    def typed(*words: str) -> Said:
        return drkit(file, *words, "--flow", flow)

    def closed() -> list[str]:
        faults = typed("status").data["flows"][0]["faults"]
        return [fault["text"] for fault in faults if fault["code"] == "both_closed"]

    [text] = closed()
    assert topic in text
    lift = f"drkit fence lift --flow '{flow}' --accept-divergence"
    assert text.endswith(f'{lift} "REASON"'), text
    [shown] = typed("fence", "show").data["topics"]
    assert (shown["topic"], shown["takes_writes"]) == (topic, "no")
    refused = typed("fence", "lift", "--yes")
    assert (refused.code, refused.error) == (3, "lift_opens_both"), refused
    assert answers(world.source, topic, [b"refused"]) != [None]
    lifted = typed("fence", "lift", "--yes", "--accept-divergence", "the standby takes no writes")
    assert lifted.data["lifted"] == [topic], lifted
    assert answers(world.source, topic, [b"accepted"]) == [None]
    assert closed() == []
