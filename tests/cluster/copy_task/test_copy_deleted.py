"""What the offset map says of a copy ends when the copy is deleted, and never before."""

from __future__ import annotations

from uuid import UUID

from drkit.copy_task.target.deleted import unknown_ids
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import metadata
from drkit.kafka.topics import delete_topics
from drkit.local.cluster import LocalCluster
from drkit.offset_map.bucket import MapBucket
from drkit.offset_map.reading import load
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import Flow
from tests.support.flows.produce import fill, fill_transactions
from tests.support.waiting import eventually


def bucket(flow: Flow) -> MapBucket:
    return load(flow._loop, flow._raw[flow.target.alias], flow.map_topic, [0])[0]


def copies(flow: Flow) -> set[UUID]:
    return {where.target_id for where in bucket(flow).partitions}


def mapped(flow: Flow, topic: str) -> list[object]:
    return [(p, segments.triples(), end) for p, (segments, end) in sorted(flow.settled(topic).items())]


def test_the_map_of_a_deleted_copy_is_deleted(
    flow_factory: FlowFactory, source: LocalCluster, target: LocalCluster, topic_name: str
) -> None:
    flow = flow_factory(source, target, buckets=1)
    kept, left_out, deleted = (flow.create_both(f"{topic_name}-{n}", 2) for n in ("kept", "out", "deleted"))
    for topic in (kept, left_out, deleted):
        fill_transactions(flow.source, [topic], 20, most=4)
        fill(flow.source, topic, 20)
    flow.copy(kept, left_out, deleted)
    ids = {topic: flow.topic(flow.target, topic).topic_id for topic in (kept, left_out, deleted)}
    assert copies(flow) == set(ids.values())
    before = mapped(flow, kept), mapped(flow, left_out)

    delete_topics(Cluster.connect(flow.target), [deleted])
    eventually(lambda: flow.ask(flow.target, metadata, [deleted])[deleted].error, what="the end of a copy")
    assert flow.ask(flow.target, unknown_ids, ids.values()) == {ids[deleted]}

    def is_forgotten() -> bool:
        flow.copy(kept)
        return copies(flow) == {ids[kept], ids[left_out]}

    eventually(is_forgotten, what="the end of its map")
    assert {where.target_id for where in bucket(flow).keys} == {ids[kept], ids[left_out]}
    assert (mapped(flow, kept), mapped(flow, left_out)) == before
