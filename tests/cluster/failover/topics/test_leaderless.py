"""A partition of the primary without a leader: what it has that is not copied is unknown, not nothing."""

from __future__ import annotations

from pathlib import Path
import signal

import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from tests.support.errors import coded
from tests.support.failover.command import drkit
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.settings_file import written
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

LATE = 60


@pytest.mark.wide
def test_a_switchover_is_refused_before_anything_is_fenced(
    module_cluster: ModuleClusters, world_factory: WorldFactory, tmp_path: Path
) -> None:
    primary = module_cluster("three", brokers=3)
    world = world_factory(primary, module_cluster("standby"), replication_factor=1, heartbeats_replication=1)
    topic = world.name("orders")
    world.create(world.source, topic, 3, {"retention.ms": "-1"})
    fill(world.source, topic, 30)
    world.replicate()
    world.copied([topic])
    world.protected([topic])
    heartbeats = world.topic(world.source, "heartbeats").leaders[0].node
    leaders = {n: p.node for n, p in world.topic(world.source, topic).leaders.items()}
    number, victim = next((n, node) for n, node in leaders.items() if node != heartbeats)
    assert world._replicator is not None
    world._replicator.send_signal(signal.SIGSTOP)
    fill(world.source, topic, LATE)
    primary.broker(victim).kill()
    world._replicator.send_signal(signal.SIGCONT)
    eventually(lambda: world.topic(world.source, topic).leaders[number].node == -1, 60, "no leader")

    found = drkit(written(world, tmp_path), "status")
    status = found.data["flows"][0]
    assert (found.code, status["loss"]["records"], status["loss"]["exact"]) == (1, None, False)
    [text] = [f["text"] for f in status["faults"] if f["code"] == "lag_unknown"]
    assert text.endswith("it has no leader on the source that answers")
    assert [t["state"] for t in status["pair"]["topics"] if t["topic"] == topic] == ["unprotected"]

    with world.desk() as desk, pytest.raises(Refused, check=coded("source_unreachable")) as refused:
        desk.begin([], RunRequest(planned=True))
    assert refused.value.evidence == f"it does not return the ends of 1 topic: {topic}"
    assert not world.steps_begun()
