"""A topic that is deleted, and created again on the old primary, in the middle of a switchover."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from drkit.errors import Refused
from drkit.failover.core.context import StepProgress
from drkit.failover.core.request import RunRequest
from drkit.failover.fencing.methods import SIZE
from drkit.journal.machine import RunState, StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import delete_topics, topic_configs, topic_names
from drkit.local.cluster import LocalCluster
from drkit.topology.topic_configs import NOTHING_PASSES
from tests.support.errors import coded
from tests.support.failback.pair import CUT
from tests.support.failover.truth import values
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.waiting import eventually

pytestmark = pytest.mark.wide


@pytest.fixture
def world(source: LocalCluster, target: LocalCluster, tmp_path: Path) -> Iterator[World]:
    with closing(World(source, target, tmp_path / "journal")) as found:
        yield found


def _size(world: World, topic: str) -> str | None:
    found = topic_configs(Cluster.connect(world.source), [topic])[topic][SIZE]
    return found.value if found.is_set_on_topic else None


def _delete(world: World, topic: str) -> None:
    assert not delete_topics(Cluster.connect(world.source), [topic])
    eventually(lambda: topic not in topic_names(Cluster.connect(world.source)), what="deleted")


@pytest.mark.parametrize("step", [StepName.DRAIN, StepName.TRANSLATE])
def test_a_topic_that_comes_back_holds_the_switchover_by_name(world: World, step: StepName) -> None:
    """Created before the last look at what is missing, or after it, when it is fenced first."""
    topics = _, again = [world.name(name) for name in ("orders", "again")]
    for name in topics:
        world.create(world.source, name, 2, {"retention.ms": "-1"})
        fill(world.source, name, 40)
    world.failover_fields["drain_seconds"] = 600.0
    world.replicate()
    world.copied(topics)
    copied = {p: values(r) for p, r in world.records(world.target, again).items()}
    _delete(world, again)

    def comes_back(progress: StepProgress) -> None:
        if progress.step is step and again not in topic_names(Cluster.connect(world.source)):
            world.create(world.source, again, 2, {})
            fill(world.source, again, 5, first=7000)

    request = RunRequest(planned=True, clients_cut=CUT)
    with (
        world.desk(tell=comes_back) as desk,
        pytest.raises(Refused, check=coded("recreated_on_old_primary")) as refused,
    ):
        desk.begin([], request)
    assert again in refused.value.where
    assert "drkit failover --resume" in refused.value.hint
    assert world.run_log().state is RunState.HELD
    assert _size(world, again) == (NOTHING_PASSES if step is StepName.TRANSLATE else None)
    with world.desk() as desk, pytest.raises(Refused, check=coded("not_copied")) as refused:
        desk.resume(request)
    assert "1 topic" in str(refused.value)
    assert "created again on the source" in refused.value.evidence
    _delete(world, again)
    with world.desk() as desk:
        assert desk.resume(request)["state"] == "done"
    assert {p: values(r) for p, r in world.records(world.target, again).items()} == copied
