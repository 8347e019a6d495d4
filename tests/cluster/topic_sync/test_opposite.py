"""What a flow does before it writes with a new producer id: the flow in the other direction must know it."""

from __future__ import annotations

from collections.abc import Iterator
import dataclasses
import json
import threading
import uuid

import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.copy_task.core.assignment import PartitionAssignment, TaskAssignment
from drkit.errors import Refused
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.lease.run_lease import FlowLease
from drkit.flow_state.names import state_topic
from drkit.flow_state.producer_ids import on_record
from drkit.flow_state.records import (
    BulkProducerRecord,
    ClustersRecord,
    GenerationRecord,
    PendingFence,
    Role,
    RoleRecord,
)
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, describe_topics, topic_names
from drkit.local.cluster import LocalCluster
from drkit.pair.reverse_flow import NotAcknowledged, OppositeFlows
from drkit.replicate.epochs import Epochs
from drkit.replicate.planner import PlacedPartition, Rates
from drkit.topic_sync.sync import TopicSync
from tests.support.errors import sentence
from tests.support.flows.compare import read
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.produce import aged, producer, put
from tests.support.stored import put as put_record
from tests.support.waiting import eventually

STRANGERS = 40


class Sides:
    """The state of a flow X→Y and of one Y→X, whose owners call the clusters by other names."""

    def __init__(self, x: LocalCluster, y: LocalCluster) -> None:
        tag = uuid.uuid4().hex[:8]
        ours = [
            ClusterSettings(alias=n + tag, bootstrap_servers=c.bootstrap()) for n, c in (("x", x), ("y", y))
        ]
        theirs = [
            ClusterSettings(alias=f"other{s.alias}", bootstrap_servers=s.bootstrap_servers) for s in ours
        ]
        # Each is named by what the other's configuration calls its source.
        self.forward = FlowSettings(
            source=ours[0].alias, target=ours[1].alias, opposite_flows=(theirs[1].alias,)
        )
        self.backward = FlowSettings(
            source=theirs[1].alias, target=theirs[0].alias, opposite_flows=(ours[0].alias,)
        )
        self.ours = [Cluster.connect(c) for c in ours]
        self.theirs = [Cluster.connect(c) for c in theirs]
        ensure_state_topic(self.ours[1], self.forward)
        ensure_state_topic(self.theirs[0], self.backward)
        self.state = StateTopic(ours[1], self.forward.source)
        self.their_state = StateTopic(theirs[0], self.backward.source)
        self.lease = FlowLease(theirs[0], self.backward, self.their_state, "theirs", ttl_seconds=3)

    def asking(self, **changed: object) -> OppositeFlows:
        flow = self.forward.model_copy(update=changed)
        return OppositeFlows(self.ours[0], self.ours[1], flow, self.state, 5.0)

    def their_side(self) -> OppositeFlows:
        return OppositeFlows(self.theirs[1], self.theirs[0], self.backward, self.their_state, 5.0)


@pytest.fixture
def sides(source: LocalCluster, target: LocalCluster) -> Iterator[Sides]:
    made = Sides(source, target)
    yield made
    made.lease.release()
    made.state.close()
    made.their_state.close()


def test_new_ids_wait_until_a_running_opposite_flow_leaves_them_out(sides: Sides):
    opposite, them = sides.asking(), sides.their_side()
    opposite.introduce()
    them.introduce()
    ids = (4001, 4002)
    put_record(sides.state, "producer-ids", {"current": [4001, 0], "all": [4001]})
    sides.state.put(BulkProducerRecord(0), "4002")
    opposite.read_all()
    assert opposite.allow(ids), "it does not run"

    sides.lease.acquire()
    opposite.read_all()
    assert not opposite.allow(ids), "it runs and has not said anything"
    them.declare((4001,))
    opposite.follow()
    assert not opposite.allow(ids), "one id of two"
    with pytest.raises(NotAcknowledged) as refused:
        opposite.wait_until_allowed(ids, lambda _seconds: False, patience_seconds=0.5)
    assert "4002" in refused.value.evidence
    assert "naming" in refused.value.hint

    them.read_all()
    assert set(ids) <= set(them.ids), "found although its aliases are others"
    them.declare(them.ids)
    opposite.wait_until_allowed(ids, lambda _seconds: False, patience_seconds=5)

    sides.state.put(BulkProducerRecord(0), "4003")
    opposite.follow()
    assert not opposite.allow((*ids, 4003))
    sides.lease.release()
    opposite.follow()
    assert opposite.allow((*ids, 4003)), "it ended; the next run reads all ids before it copies"
    for each in (opposite, them):
        each.close()


@pytest.mark.parametrize(
    "what", [RoleRecord(Role.PROMOTED, 1, "run", 1), PendingFence("run", 1, 1, "x", ("t",))]
)
def test_another_cluster_does_not_take_the_place_of_one_that_a_failover_has_left(
    sides: Sides, what: RoleRecord | PendingFence
):
    """Any attempt recorded its id: `drkit fence pay` fenced it, and the old primary came back open."""
    opposite, left = sides.asking(), ClustersRecord("the old primary", sides.ours[1].cluster_id)
    sides.state.put(left)
    sides.state.put(what, "t" if isinstance(what, RoleRecord) else "")
    with pytest.raises(Refused) as refused:
        opposite.introduce()
    assert sides.state.get(ClustersRecord) == left
    named = f"--new-primary {sides.ours[0].cluster_id}"
    assert refused.value.hint.endswith(f"drkit reprotect --flow '{sides.forward.name}' {named}")
    sides.state.delete(type(what), "t" if isinstance(what, RoleRecord) else "")
    opposite.introduce()
    assert sides.state.get(ClustersRecord) == dataclasses.replace(left, source=sides.ours[0].cluster_id)


@pytest.mark.wide
def test_a_flow_that_is_not_named_is_not_believed_and_its_topics_wait_for_a_word(sides: Sides):
    """A writer of a state topic on the source must not make drkit leave out records in silence."""
    topic = f"{sides.forward.source}-orders"
    assert not create_topics(sides.ours[0], [TopicPlan(topic, 1, 1)])
    eventually(lambda: topic in topic_names(sides.ours[0]), what=topic)
    topic_id = describe_topics(sides.ours[0], [topic])[topic].topic_id
    sides.their_side().introduce()
    sides.their_state.put(BulkProducerRecord(0), "77")
    sides.their_state.put(GenerationRecord(topic, uuid.uuid4(), topic_id), "theirs")
    sides.lease.acquire()
    ids = {topic: topic_id}

    unnamed = sides.asking(opposite_flows=None)
    unnamed.read_all()
    assert unnamed.ids == ()
    assert unnamed.allow((1,)), "it waits for no other flow"
    claim = unnamed.claims(ids)[topic]
    assert claim.hint.startswith(
        f'if that flow is yours: opposite_flows = ["{sides.backward.source}"] leaves'
    )
    assert sides.their_state.name in claim.where
    assert unnamed.claims({topic: uuid.uuid4()}) == {}, "of a topic that was deleted since"
    sync = TopicSync(
        sides.ours[0], sides.ours[1], sides.forward, sides.state, effects=False, claims=unnamed.claims
    )
    assert sentence("opposite_flow_unnamed") in sync.look().left_out[topic]

    none = sides.asking(opposite_flows=())
    none.read_all()
    assert (none.ids, none.claims(ids), none.allow((1,))) == ((), {}, True)
    prefixed = sides.asking(opposite_flows=None, naming="prefix")
    prefixed.read_all()
    assert (prefixed.ids, prefixed.claims(ids)) == ((), {})
    named = sides.asking()
    named.read_all()
    assert (named.ids, named.claims(ids), named.allow((1,))) == ((77,), {}, False)
    for each in (unnamed, none, prefixed, named):
        each.close()


def test_strangers_cost_one_look_and_no_more(sides: Sides):
    strangers = [f"c{uuid.uuid4().hex[:8]}" for _ in range(STRANGERS)]
    plans = [TopicPlan(state_topic(a), 1, 1, {"cleanup.policy": "compact"}) for a in strangers]
    assert not create_topics(sides.ours[0], plans)
    eventually(lambda: {p.name for p in plans} <= set(topic_names(sides.ours[0])), what="their topics")
    out = producer(sides.ours[0].settings)
    for plan in plans[1:]:
        put(
            out,
            plan.name,
            json.dumps({"source": "another", "target": "cluster"}).encode(),
            ClustersRecord.KEY.encode(),
        )
    assert out.flush(30) == 0
    opposite, them = sides.asking(opposite_flows=(sides.backward.source, strangers[0])), sides.their_side()
    them.introduce()
    sides.their_state.put(BulkProducerRecord(0), "77")

    opposite.read_all()
    assert list(opposite.ids) == [77]

    # What has not introduced itself yet may do so later; it is read again, and found.
    clusters = {"source": sides.ours[1].cluster_id, "target": sides.ours[0].cluster_id}
    put(out, plans[0].name, json.dumps(clusters).encode(), ClustersRecord.KEY.encode())
    put(out, plans[0].name, json.dumps({"bucket": 0}).encode(), b"producer-ids/bulk/78")
    assert out.flush(30) == 0
    opposite.find()
    assert list(opposite.ids) == [77, 78]
    for each in (opposite, them):
        each.close()


def test_two_flows_that_start_at_once_do_not_wait_for_each_other_for_ever(sides: Sides):
    opposite, them = sides.asking(), sides.their_side()
    lease = FlowLease(sides.ours[1].settings, sides.forward, sides.state, "ours", ttl_seconds=3)
    for each in (opposite, them):
        each.introduce()
    lease.acquire()
    sides.lease.acquire()
    put_record(sides.state, "producer-ids", {"current": [1, 0], "all": [1]})
    put_record(sides.their_state, "producer-ids", {"current": [2, 0], "all": [2]})
    failed: list[BaseException] = []

    def wait(one: OppositeFlows, ids: tuple[int, ...]) -> None:
        try:
            one.wait_until_allowed(ids, lambda s: threading.Event().wait(s), patience_seconds=60)
        except NotAcknowledged as error:
            failed.append(error)

    threads = [threading.Thread(target=wait, args=a) for a in ((opposite, (1,)), (them, (2,)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    lease.release()
    assert not failed
    assert 2 in opposite.ids
    assert 1 in them.ids
    for each in (opposite, them):
        each.close()


def test_bulk_mode_records_a_new_id_and_waits_for_a_lease_that_has_it(flow: Flow, topic_name: str):
    flow.create_both(topic_name, retention_ms="-1")
    out = producer(flow.source)
    for i in range(50):
        put(out, topic_name, b"%d" % i, timestamp=aged(2 * DAY_MS)(i))
    assert out.flush(30) == 0
    lease = flow.lease(topic_name, once=False, seconds=2)
    flow.copy(lease=dataclasses.replace(lease, bulk_producer_ids=(1,)))
    assert read(flow.target, topic_name) == {0: []}
    records = {s.key: s.value for s in read(flow.target, flow.state_topic)[0] if s.key and s.value}
    ids = on_record(FlowState.of(records))
    assert ids

    flow.copy(lease=dataclasses.replace(flow.lease(topic_name), bulk_producer_ids=ids))
    assert len(read(flow.target, topic_name)[0]) == 50


def test_a_producer_counts_as_left_out_when_no_older_task_is_left(
    frame: TaskAssignment, placed: PlacedPartition
):
    epochs = Epochs(frame, 1, Rates())
    assert not epochs.reframe(skip=(1,), bulk=())
    assert list(epochs.skips) == [1], "nothing runs yet"

    epochs.update([placed])
    assert not epochs.reframe(skip=(1,), bulk=(8,))
    assert [lease.bulk_producer_ids for lease in epochs.begin()] == [(8,)]
    assert epochs.reframe(skip=(1, 2), bulk=(9,))
    assert list(epochs.skips) == [1], "tasks without it run"
    assert not epochs.reframe(skip=(1, 2), bulk=(9,)), "nothing new"
    epochs.epoch_ended([], last=False)
    assert list(epochs.skips) == [1, 2]
    assert [lease.skip_producer_ids for lease in epochs.begin()] == [(1, 2)]

    epochs.update([])
    assert epochs.reframe(skip=(1, 2, 3), bulk=(9,))
    assert list(epochs.skips) == [1, 2], "the tasks of the last plan may still be at it"
    epochs.epoch_ended([], last=False)
    assert list(epochs.skips) == [1, 2, 3]
    assert not epochs.reframe(skip=(1, 2, 3, 4), bulk=(9,))
    assert list(epochs.skips) == [1, 2, 3, 4]


@pytest.fixture
def frame() -> TaskAssignment:
    return TaskAssignment("x->y", "run", 0, 0, 0, 7, 0, (7,), (), "map", "state", 5.0, 1.0, 1000, ())


@pytest.fixture
def placed() -> PlacedPartition:
    ids = str(uuid.uuid4()), str(uuid.uuid4())
    return PlacedPartition(PartitionAssignment("t", ids[0], "t", ids[1], 0, 0), 1)
