"""Another producer writes to the target or fences drkit, or the target refuses: one named partition stops."""

from __future__ import annotations

import random

from kafka.protocol.producer.transaction import WriteTxnMarkersRequest
import pytest

from drkit.offsets.takeup import FROZEN_EPOCH
from tests.support.circles import in_soak
from tests.support.flows.compare import FOREIGN, check_copy, read
from tests.support.flows.flow import DAY_MS, Flow, partition_states
from tests.support.flows.produce import Load, aged, fill, fill_transactions, now_ms, producer, put
from tests.support.waiting import eventually


def _intrude(flow: Flow, topic: str, records: int, **more: int) -> None:
    out = producer(flow.target)
    for i in range(records):
        put(out, topic, b"x%d" % i, FOREIGN + b"%d" % i, **more)
    assert out.flush(30) == 0


@pytest.mark.parametrize("age_ms", [0, in_soak(2 * DAY_MS)], ids=["live", "bulk"])
def test_foreign_writer_between_epochs(flow: Flow, topic_name: str, age_ms: int) -> None:
    flow.create_both(topic_name, 2, retention_ms="-1")
    for turn in range(4):
        fill(flow.source, topic_name, 400, first=400 * turn, timestamp=aged(age_ms))
        fill_transactions(flow.source, [topic_name], 200, seed=turn, timestamp=aged(age_ms), most=30)
        flow.copy(topic_name)
        check_copy(flow, topic_name, uncommitted=not age_ms)
        _intrude(flow, topic_name, 7 + turn)
        check_copy(flow, topic_name, uncommitted=not age_ms)
    flow.copy(topic_name)
    check_copy(flow, topic_name, uncommitted=not age_ms)
    found = flow.events("foreign_writer")
    assert {e["partition"] for e in found} == {0, 1}
    assert all(e["topic"] == topic_name for e in found)


@pytest.mark.soak
@pytest.mark.parametrize("age_ms", [in_soak(0), 2 * DAY_MS], ids=["live", "bulk"])
def test_foreign_writer_while_copying(flow: Flow, topic_name: str, age_ms: int) -> None:
    chance = random.Random(8)
    flow.create_both(topic_name, 2, retention_ms="-1")
    with Load(flow.source, [topic_name], per_second=4000, timestamp=aged(age_ms)):
        task = flow.start(topic_name, once=False, seconds=5)
        flow.grown(topic_name, 1000)
        while task.running:
            _intrude(flow, topic_name, chance.randint(1, 5))
            task.ended_within(chance.uniform(0.02, 0.4))
        states = partition_states(task.report())
    assert {state for state, _ in states.values()} <= {"live", "bulk", "resolving"}
    flow.copy(topic_name)
    check_copy(flow, topic_name, uncommitted=not age_ms)
    assert flow.events("foreign_writer")


@pytest.mark.wide
def test_a_target_that_was_not_empty(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name)
    _intrude(flow, topic_name, 50)
    fill(flow.source, topic_name, 500)
    flow.copy(topic_name)
    fill(flow.source, topic_name, 500, first=500)
    flow.copy(topic_name)
    check_copy(flow, topic_name)
    assert flow.events("foreign_writer")


@pytest.mark.wide
def test_a_foreign_transaction_that_stays_open(flow: Flow, topic_name: str) -> None:
    """Live mode reads past it; what we append is there for readers once it ends."""
    flow.create_both(topic_name)
    fill(flow.source, topic_name, 100)
    flow.copy(topic_name)
    out = producer(flow.target, transactional_id=f"foreign-{topic_name}")
    out.init_transactions(30)
    for turn, end in enumerate((out.abort_transaction, out.commit_transaction)):
        out.begin_transaction()
        put(out, topic_name, b"x", FOREIGN)
        out.flush(30)
        fill(flow.source, topic_name, 100, first=100 + 100 * turn)
        assert flow.copy(topic_name, seconds=20).ended == "once"
        end(30)
        check_copy(flow, topic_name, uncommitted=False)
    flow.copy(topic_name)
    check_copy(flow, topic_name, uncommitted=False)


def _fence(flow: Flow, topic: str, partition: int) -> None:
    """Raise the epoch of drkit's own producer in one partition, as FREEZE does."""
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    request = WriteTxnMarkersRequest(
        markers=[
            marker(
                producer_id=flow.producer.id,
                producer_epoch=FROZEN_EPOCH,
                transaction_result=False,
                topics=[marker.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
                coordinator_epoch=0,
            )
        ]
    )
    node = flow.topic(flow.target, topic).leaders[partition].node

    async def send(cluster):
        return await cluster.send(request, node)

    flow.ask(flow.target, send)


@pytest.mark.soak
@pytest.mark.parametrize("when", [in_soak("before"), "while"])
def test_own_epoch_refused_stops_the_partition_alone(flow: Flow, topic_name: str, when: str) -> None:
    flow.create_both(topic_name, 3)
    fill(flow.source, topic_name, 3000)
    flow.copy(topic_name)
    ends = flow.offsets(flow.target, topic_name)
    with Load(flow.source, [topic_name], per_second=3000):
        if when == "before":
            _fence(flow, topic_name, 1)
        task = flow.start(topic_name, once=False, seconds=5)
        eventually(lambda: flow.offsets(flow.target, topic_name)[0] > ends[0] + 500)
        if when == "while":
            ends = flow.offsets(flow.target, topic_name)
            _fence(flow, topic_name, 1)
        states = partition_states(task.report())
    assert states[topic_name, 1][0] == "stopped"
    assert {states[topic_name, p][0] for p in (0, 2)} == {"live"}
    assert [e["partition"] for e in flow.events("own_epoch_refused")] == [1]
    flow.copy(topic_name, seconds=20)
    check_copy(flow, topic_name, skip=[1])
    # The fenced partition holds a beginning of the source, and nothing after the fence.
    on_target, on_source = read(flow.target, topic_name)[1], read(flow.source, topic_name)[1]
    assert [s.content for s in on_target] == [s.content for s in on_source[: len(on_target)]]
    fenced = flow.offsets(flow.target, topic_name)[1]
    flow.copy(topic_name, seconds=20)
    assert flow.offsets(flow.target, topic_name)[1] == fenced
    assert len(on_target) < len(on_source)


@pytest.mark.parametrize("age_ms", [0, in_soak(2 * DAY_MS)], ids=["live", "bulk"])
def test_an_oversized_record_stops_its_partition_alone(flow: Flow, topic_name: str, age_ms: int) -> None:
    flow.create_both(topic_name, 3, retention_ms="-1", target_config={"max.message.bytes": "200000"})
    stamp = {"timestamp": now_ms() - age_ms}
    out = producer(flow.source)
    for partition in range(3):
        for i in range(300):
            put(out, topic_name, b"v%d" % i * 100, b"k", partition=partition, **stamp)
    out.flush(30)
    flow.copy(topic_name, max_message_bytes=200_000)
    put(out, topic_name, random.Random(1).randbytes(300_000), b"big", partition=1, **stamp)
    out.flush(30)
    for partition in range(3):
        for i in range(300):
            put(out, topic_name, b"w%d" % i * 100, b"k", partition=partition, **stamp)
    out.flush(30)
    for _ in range(2):
        states = partition_states(flow.copy(topic_name, max_message_bytes=200_000, seconds=20))
        assert states[topic_name, 1][0] == "stopped"
        assert "max.message.bytes" in states[topic_name, 1][1]
    for event in flow.events("oversized"):
        assert (event["partition"], event["max_message_bytes"]) == (1, 200_000)
        assert event["batch_bytes"] > 300_000
    assert len(flow.events()) == 2
    check_copy(flow, topic_name, uncommitted=not age_ms, skip=[1])
    on_target, on_source = read(flow.target, topic_name)[1], read(flow.source, topic_name)[1]
    assert [s.content for s in on_target] == [s.content for s in on_source[:300]]
    flow.configure(flow.target, topic_name, "max.message.bytes", "400000")
    flow.copy(topic_name, max_message_bytes=400_000)
    check_copy(flow, topic_name, uncommitted=not age_ms)


@pytest.mark.wide
def test_batches_larger_than_the_target_takes_are_split(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name, target_config={"max.message.bytes": "20000"})
    fill(flow.source, topic_name, 5000, size=300, compression_type="gzip", linger_ms=200)
    flow.copy(topic_name, max_message_bytes=20_000)
    check_copy(flow, topic_name)


@pytest.mark.wide
def test_a_target_that_was_filled_and_trimmed_by_others(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name)
    _intrude(flow, topic_name, 50)
    flow.delete_records(topic_name, 0, 30, cluster=flow.target)
    fill(flow.source, topic_name, 500)
    assert flow.copy(topic_name, seconds=20).ended == "once"
    check_copy(flow, topic_name)
    assert flow.events("foreign_writer")
