"""A chain of three clusters: a pair turns, and one of its clusters is the source of a flow to a third one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from drkit.config import ClusterSettings
from drkit.errors import Refused
from drkit.failover.core.request import Disposition, Method, RunRequest
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.errors import coded
from tests.support.failback.pair import CUT, Pair
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

PARTITIONS = 2
BATCH = 200
TURNS = 3


def values(world: World, cluster: ClusterSettings, topic: str) -> dict[int, list[bytes | None]]:
    return {p: [seen.value for seen in found] for p, found in world.records(cluster, topic).items()}


def next_values(world: World, cluster: ClusterSettings, topic: str, group: str) -> dict[int, bytes | None]:
    """Return the value that the group reads next in each partition; None: it has read all."""
    records = world.records(cluster, topic)
    return {
        at.partition: next((r.value for r in records[at.partition] if r.offset >= c.offset), None)
        for at, c in world.committed(cluster, group).items()
    }


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_end_of_a_chain_has_the_records_and_positions_of_the_active_cluster(
    source: LocalCluster, module_cluster: ModuleClusters, tmp_path: Path, seed: int
) -> None:
    """Planned switchovers there and back, kills of both replicators, records and commits in between."""
    draw = Random(seed)
    middle = module_cluster("middle")
    pair = Pair(source, middle, tmp_path / "journal")
    end = World(middle, module_cluster("end"), tmp_path / "end", tag=pair.now.tag, sides="bc")
    topic, group = pair.now.name("orders"), pair.now.name("shop")
    written = 0

    def write() -> None:
        nonlocal written
        fill(pair.now.source, topic, BATCH, first=written)
        written += BATCH
        offsets = pair.now.offsets(pair.now.source, topic)
        read = {TopicPartition(topic, p): draw.randint(0, offset) for p, offset in offsets.items()}
        pair.now.commit(pair.now.source, group, read)

    def equal() -> bool:
        active, last = (pair.now, pair.now.source), (end, end.target)
        return values(*last, topic) == values(*active, topic) and (
            next_values(*last, topic, group) == next_values(*active, topic, group)
        )

    try:
        pair.now.create(pair.now.source, topic, PARTITIONS, {"retention.ms": "-1"})
        write()
        pair.now.replicate()
        pair.now.copied([topic], {group: None})
        end.replicate()
        for turn in range(TURNS):
            for world in draw.sample([pair.now, end], draw.randint(0, 2)):
                world.stop_replicating()
                world.replicate()
            write()
            pair.now.copied([topic], {group: None})
            pair.now.protected([topic])
            assert pair.switch()["state"] == "done"
            assert pair.reprotect()["state"] == "done"
            end.stop_replicating()
            write()
            pair.now.replicate()
            pair.now.copied([topic], {group: None})
            end.replicate()
            eventually(equal, 120, f"turn {turn} of seed {seed}: {end.said()}")
        assert sum(map(len, values(end, end.target, topic).values())) == written
    finally:
        end.close()
        pair.close()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_middle_of_a_chain_is_not_rebuilt_and_keeps_its_own_records_once(
    source: LocalCluster, module_cluster: ModuleClusters, tmp_path: Path
) -> None:
    """An unplanned failover leaves records on the middle that the end has, and the new primary has not."""
    middle = module_cluster("middle")
    pair = Pair(source, middle, tmp_path / "journal")
    end = World(middle, module_cluster("end"), tmp_path / "end", tag=pair.now.tag, sides="bc")
    topic = pair.now.name("orders")
    try:
        pair.now.create(pair.now.source, topic, PARTITIONS, {"retention.ms": "-1"})
        fill(pair.now.source, topic, BATCH)
        pair.now.replicate()
        pair.now.copied([topic])
        pair.now.protected([topic])
        assert pair.switch()["state"] == "done"
        assert pair.reprotect()["state"] == "done"
        end.replicate()
        pair.now.replicate()
        pair.now.copied([topic])
        pair.now.stop_replicating()
        fill(middle_side := pair.now.source, topic, BATCH, first=BATCH)
        end.copied([topic])
        with pair.now.desk() as desk:
            lost = RunRequest(accept_data_loss="test", despite_signs_of_life="test")
            assert desk.begin([], lost)["state"] == "done"
        fill(pair.now.target, topic, BATCH, first=2 * BATCH)
        saved = RunRequest(clients_cut=CUT, reason="test", export_to=str(tmp_path / "saved"))
        rebuild = saved._replace(dispositions={topic: Disposition.DISCARD}, methods={topic: Method.REBUILD})
        with pair.now.desk() as desk, pytest.raises(Refused, check=coded("other_flow_reads")) as refused:
            desk.begin_return(rebuild)
        assert f"{end.source.alias}->{end.target.alias}" in refused.value.evidence
        kept = rebuild._replace(dispositions={topic: Disposition.REPLAY}, methods={topic: Method.KEEP})
        with pair.now.desk() as desk:
            assert desk.begin_return(kept)["state"] == "done"
        pair.now, pair.other = pair.other, pair.now
        pair.now.replicate()
        pair.now.copied([topic])
        end.copied([topic])
        for world, cluster in ((pair.now, pair.now.source), (pair.now, middle_side), (end, end.target)):
            log = world.records(cluster, topic).values()
            found = Counter(record.content for records in log for record in records)
            assert len(found) == found.total() == 3 * BATCH, cluster.alias
    finally:
        end.close()
        pair.close()
