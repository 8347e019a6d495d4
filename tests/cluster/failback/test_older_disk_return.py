"""A primary comes home from an older disk: it gives its clients producer ids that drkit has used there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import shutil

import pytest

from drkit.export.check import exported_records
from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import SkipsRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.machine import StepName
from drkit.local.cluster import LocalCluster
from tests.support.failback.pair import CUT, Pair
from tests.support.failback.tail import REASON
from tests.support.failover.truth import values
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

USED = tuple(range(5000))
"""Producer ids of drkit, as far as the flow's state says."""
FIRST, LATER, OTHERS = 40, 10, 15


@pytest.fixture
def pair(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[Pair]:
    found = Pair(module_cluster("primary"), target, tmp_path / "journal")
    yield found
    found.close()


@pytest.mark.wide
def test_what_clients_wrote_with_such_ids_is_saved_before_it_is_emptied(pair: Pair, tmp_path: Path) -> None:
    side, broker = pair.now, pair.now.brokers[0].brokers[0]
    topic, data = side.name("grown"), broker.folder / "data"
    side.create(side.source, topic, 1, {"retention.ms": "-1"})
    fill(side.source, topic, FIRST)
    side.replicate()
    side.copied([topic])
    broker.freeze()
    shutil.copytree(data, tmp_path / "older")
    broker.resume()
    fill(side.source, topic, LATER, first=FIRST)
    side.copied([topic])
    side.stop_replicating()
    broker.kill()
    with side.desk() as desk:
        assert desk.begin([], RunRequest(accept_data_loss="for the test"))["state"] == "done"
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        state.put(SkipsRecord(USED, 0))
    shutil.rmtree(data)
    shutil.move(tmp_path / "older", data)
    broker.restart()
    eventually(lambda: side.offsets(side.source, topic)[0] == FIRST, what="the older disk")
    fill(side.source, topic, OTHERS, first=1000, enable_idempotence=True)
    only_there = values(side.records(side.source, topic)[0])[FIRST:]
    request = RunRequest(
        clients_cut=CUT, dispositions={"*": "discard"}, reason=REASON, export_to=str(tmp_path / "saved")
    )
    with side.desk() as desk:
        assert desk.begin_return(request)["state"] == "done"
    found = side.run_log().results[StepName.EXPORT]["evidence"]
    assert not side.records(side.source, topic)[0], "it is emptied"
    assert [r.value or b"" for r in exported_records(found["manifest"], topic, 0)] == only_there
    assert found["records"] == OTHERS
