"""A flow from the old primary to a third cluster would copy rebuilt records twice: the return is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.clock import wall_ms
from drkit.errors import Refused
from drkit.failover.core.request import Method
from drkit.local.cluster import LocalCluster
from drkit.mm2_topics.heartbeats import TOPIC
from drkit.offsets.mm2_records import Heartbeat
from tests.support.errors import coded
from tests.support.failback.tail import Case, dead_primary
from tests.support.flows.produce import producer, put
from tests.support.shared_clusters import ModuleClusters


@pytest.mark.wide
@pytest.mark.timeout(400)
def test_a_flow_that_runs_by_its_heartbeats_is_named(
    module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path
) -> None:
    """Its target is on another machine's configuration alone."""
    with dead_primary(module_cluster("primary"), target, tmp_path, {"pay": Case(tail=3)}) as home:
        (topic,) = home.topics
        source = home.side.source
        beat = Heartbeat(source.alias, "reports", wall_ms())
        out = producer(source)
        put(out, TOPIC, beat.value, beat.key)
        assert out.flush(30) == 0
        request = home.request(tmp_path / "saved", [topic])
        with home.side.desk() as desk, pytest.raises(Refused, check=coded("other_flow_reads")) as refused:
            desk.rehearse_return(request._replace(methods={topic: Method.REBUILD}), (topic,))
        assert f"{source.alias}->reports runs" in refused.value.evidence
