"""A run was killed when it had begun to open the target: its fence is not lifted by the way."""

from __future__ import annotations

import pytest

from drkit.errors import Refused
from drkit.failover import pending_fences
from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.orchestrator_parent import AFTER
from tests.support.flows.produce import answers


@pytest.mark.wide
def test_a_fence_is_not_lifted_without_a_reason_once_the_target_may_open(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster
) -> None:
    world = world_factory(source, target)
    topic, _ = world.copy_orders()
    with Orchestrators() as others:
        planned = RunRequest(planned=True).to_json()
        at = Kill("OPEN  intent", AFTER)
        assert others.run(world.plain(), "begin", groups=[], request=planned, kill=at).killed
    with world.desk() as desk, pytest.raises(Refused, check=coded("lift_opens_both")):
        pending_fences.lift(desk, [], "")
    with world.desk() as desk:
        assert desk.resume(RunRequest())["state"] == "done"
    assert answers(world.source, topic, [b"x"]) == ["MSG_SIZE_TOO_LARGE"]
    assert answers(world.target, topic, [b"y"]) == [None]
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        state.delete_all(RoleRecord, [topic])
    with world.desk() as desk, pytest.raises(Refused, check=coded("lift_opens_both")):
        pending_fences.lift(desk, [], "")  # the source has a record that the target was opened
