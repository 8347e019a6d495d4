"""The replicator dies in a bulk transaction that misses markers, then a failover fences its producer.

The marker that fences it ends the transaction: with the outcome that the offset map and the copies show.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

from drkit.errors import Failed
from drkit.failover.core.request import RunRequest
from drkit.flow_state.names import bulk_transactional_id
from drkit.journal.machine import StepName
from drkit.kafka.transactions import open_on
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offset_map.topic import bucket_of
from tests.support.circles import in_wide
from tests.support.errors import coded
from tests.support.failover.fixtures import WorldFactory
from tests.support.flows.earlier_task import DATA, MAP, UNVERIFIED, EarlierTask
from tests.support.flows.produce import aged, fill
from tests.support.shared_clusters import ModuleClusters

OLD = aged(3 * 365 * 86_400_000)
COPIED, OPEN = 10, 5


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("known", "lost", "in_freeze"),
    [({MAP}, 0, {"committed"}), in_wide({DATA}, 0, set()), in_wide(set(), OPEN, {"aborted"})],
    ids=["data-open", "map-open", "both-open"],
)
def test_what_the_map_has_is_there_after_a_failover(
    source: LocalCluster,
    module_cluster: ModuleClusters,
    world_factory: WorldFactory,
    known: Collection[str],
    lost: int,
    in_freeze: Collection[str],
) -> None:
    world = world_factory(source, module_cluster("standby", properties=UNVERIFIED))
    world.failover_fields |= {"rpo_seconds": 1000.0, "fence": {"means": "none"}}
    topic, group = world.name("orders"), world.name("shop")
    world.create(world.source, topic, 1, {"retention.ms": "-1"})
    fill(world.source, topic, COPIED, timestamp=OLD, linger_ms=200)
    world.commit(world.source, group, {TopicPartition(topic, 0): COPIED})
    world.replicate()
    world.copied([topic], {group: None})
    world.stop_replicating()
    fill(world.source, topic, OPEN, first=COPIED, timestamp=OLD, linger_ms=200)
    EarlierTask(world, world.settings.flows[0], topic, COPIED).works(known)
    world.commit(world.source, group, {TopicPartition(topic, 0): COPIED + 2})

    with world.desk() as desk:
        report = desk.begin([], RunRequest(accept_data_loss="the replicator died"))
    there, here = (world.records(c, topic)[0] for c in (world.source, world.target))
    loss, kept = report["loss"], COPIED + OPEN - lost
    assert (report["state"], len(here), loss["records"]) == ("done", kept, lost), loss["statement"]
    assert [s.content for s in here] == [s.content for s in there[:kept]], "each once, in order"
    position = world.committed(world.target, group)[TopicPartition(topic, 0)].offset
    unread = [s.content for s in here if s.offset >= position]
    assert unread == [s.content for s in there[COPIED + 2 : kept]]
    assert not world.ask(world.target, open_on, [topic, f"drkit-offset-map.{world.source.alias}.internal"])
    ended = world.run_log().effects[StepName.FREEZE]["writers"]["result"]["ended"]
    assert set(ended.values()) == in_freeze, "DRAIN has ended what was open on the map"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("request_", [in_wide(RunRequest()), RunRequest(planned=True)])
def test_a_dry_run_names_at_once_what_hides_the_map(
    source: LocalCluster, module_cluster: ModuleClusters, world_factory: WorldFactory, request_: RunRequest
) -> None:
    world = world_factory(source, module_cluster("standby", properties=UNVERIFIED))
    topic, flow = world.name("orders"), world.settings.flows[0]
    world.create(world.source, topic, 1, {"retention.ms": "-1"})
    fill(world.source, topic, COPIED, timestamp=OLD, linger_ms=200)
    world.replicate()
    world.copied([topic])
    world.stop_replicating()
    fill(world.source, topic, OPEN, first=COPIED, timestamp=OLD, linger_ms=200)
    EarlierTask(world, flow, topic, COPIED).works({DATA})
    with world.desk() as desk, pytest.raises(Failed, check=coded("map_unreadable")) as failed:
        desk.rehearse([], request_)
    bucket = bucket_of(topic, 0, flow.buckets)
    hidden = f"{bulk_transactional_id(flow.source, flow.target, bucket)} misses its marker"
    assert hidden in failed.value.evidence
