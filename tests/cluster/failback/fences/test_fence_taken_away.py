"""Somebody lifts the fence of the old primary while it comes home: what the refusal says leads out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.errors import Refused
from drkit.failover.core.context import StepProgress
from drkit.failover.fencing.methods import SIZE
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.tail import Case, DeadPrimary, dead_primary
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    with dead_primary(primary, target, tmp_path, {"orders": Case("discard", tail=6)}) as found:
        yield found


@pytest.mark.wide
def test_resumed_as_the_refusal_says_it_is_fenced_again(home: DeadPrimary, tmp_path: Path) -> None:
    side, [topic] = home.side, home.topics

    def lift(progress: StepProgress) -> None:
        if progress.step is StepName.DEMOTE:
            alter_topic_configs(Cluster.connect(side.source), {topic: {SIZE: None}})
            fill(side.source, topic, 5, first=9000)

    request = home.request(tmp_path / "saved")
    with (
        side.desk(tell=lift) as desk,
        pytest.raises(Refused, check=coded("old_primary_takes_writes")) as refused,
    ):
        desk.begin_return(request)
    assert "2 partitions" in str(refused.value)
    assert "drkit reprotect --resume, which fences it again" in refused.value.hint
    with side.desk() as desk:
        report = desk.resume(request)
    assert report["state"] == "done", report
    home.turned()
    home.copied_back()
    home.nothing_is_lost()
