"""A partition of the map whose records are gone without a trace: nothing is copied a second time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

from drkit.kafka.raw import RawCluster
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offset_map import settling
from drkit.offset_map.scan import scan
from drkit.offsets import History, Intent, MapKey, Unavailable
from drkit.offsets.map_codec import encode_intent, mark_key
from drkit.offsets.map_record import Mode
from tests.support.flow_state.keys import KEYS
from tests.support.flows.compare import FOREIGN, check_copy
from tests.support.flows.exactness import places
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import DAY_MS, Flow, partition_states
from tests.support.flows.produce import aged, fill, producer, put
from tests.support.kafka.attacks import stored
from tests.support.waiting import eventually

CLEANED_AT_ONCE: Final = {
    "segment.ms": "50",
    "min.cleanable.dirty.ratio": "0",
    "max.compaction.lag.ms": "1",
    "delete.retention.ms": "1",
}
"""As after a day in which no process has read the map."""


def erase(flow: Flow, keys: Iterable[bytes | None]) -> None:
    """Write tombstones into the map, without the control key, and wait for the log cleaner."""
    erased = {key for key in keys if key}
    out = producer(flow.target)
    for key in erased:
        out.produce(flow.map_topic, None, key, partition=0)
    assert out.flush(30) == 0
    compact(flow, lambda: not erased & {record.key for record in stored(flow.target, flow.map_topic)})


def compact(flow: Flow, is_done: Callable[[], bool]) -> None:
    """Have the log cleaner compact the map until records are gone."""
    for name, value in CLEANED_AT_ONCE.items():
        flow.configure(flow.target, flow.map_topic, name, value)
    out = producer(flow.target)

    def is_gone() -> bool:
        out.produce(flow.map_topic, None, b"another segment", partition=0)
        assert out.flush(30) == 0
        return is_done()

    eventually(is_gone, seconds=120, what="the log cleaner")


def test_a_copy_without_a_map_is_stopped_and_named(
    flow_factory: FlowFactory, source: LocalCluster, target: LocalCluster, topic_name: str
) -> None:
    """The copies begin with records of either mode, or with those of another producer."""
    flow = flow_factory(source, target, buckets=1, control=KEYS)
    ages = {f"{topic_name}-live": 0, f"{topic_name}-bulk": 2 * DAY_MS, f"{topic_name}-after": 0}
    for topic in ages:
        flow.create_both(topic, retention_ms="-1")
    out = producer(flow.target)
    put(out, f"{topic_name}-after", b"x", FOREIGN)
    assert out.flush(30) == 0
    for first in range(0, 600, 200):
        for topic, age_ms in ages.items():
            fill(flow.source, topic, 200, first=first, timestamp=aged(age_ms))
        flow.copy(*ages)
    for topic in ages:
        check_copy(flow, topic, uncommitted=False)

    erase(flow, (record.key for record in stored(flow.target, flow.map_topic)))
    ends = {topic: flow.offsets(flow.target, topic) for topic in ages}
    empty = flow.create_both(f"{topic_name}-empty")
    for topic in (*ages, empty):
        fill(flow.source, topic, 200, first=600)
    states = partition_states(flow.copy(*ages, empty))

    assert {topic: flow.offsets(flow.target, topic) for topic in ages} == ends, "nothing is copied twice"
    check_copy(flow, empty)
    for topic, age_ms in ages.items():
        assert states[topic, 0][0] == "stopped"
        (event,) = [e for e in flow.events("map_unreadable") if e["topic"] == topic]
        assert event["stopped"]
        assert f"the offset map {flow.map_topic}-0 has lost records of this partition" in event["reason"]
        assert f"delete {topic}" in event["hint"]
        if not age_ms:  # the flow's state here does not name the producer ids of bulk mode
            assert isinstance(places(flow, topic)[0], Unavailable)

    for topic in ages:
        flow.delete(flow.target, topic)
        flow.create(flow.target, topic, 1, flow.passive({}))
        flow.copy(topic)
        check_copy(flow, topic, uncommitted=False)


def test_claims_replaced_by_records_of_very_many_headers_stop_the_partition(
    flow_factory: FlowFactory, source: LocalCluster, target: LocalCluster, topic_name: str
) -> None:
    """200 KB each, without compression, so brokers take them; the log cleaner keeps them, not the claims."""
    flow = flow_factory(source, target, buckets=1, control=KEYS)
    flow.create_both(topic_name, retention_ms="-1")
    for first in range(0, 60, 20):
        fill(flow.source, topic_name, 20, first=first)
        flow.copy(topic_name)
    ids = [flow.topic(side, topic_name).topic_id for side in (flow.source, flow.target)]
    mark = mark_key(MapKey(ids[0], ids[1], 0))
    found = [r.key for r in stored(flow.target, flow.map_topic) if r.key and r.key.startswith(mark[:-1])]
    claims = {key for key in found if key != mark} - {max(found)}
    out = producer(flow.target)
    for key in claims:
        out.produce(flow.map_topic, b"?", key, partition=0, headers=[("", None)] * 100_001)
    assert out.flush(30) == 0
    replaced = {(key, b"?") for key in claims}
    compact(
        flow,
        lambda: (
            {(r.key, r.value) for r in stored(flow.target, flow.map_topic) if r.key in claims} == replaced
        ),
    )

    end = flow.offsets(flow.target, topic_name)
    assert isinstance(places(flow, topic_name)[0], Unavailable)
    assert partition_states(flow.copy(topic_name))[topic_name, 0][0] == "stopped"
    assert flow.offsets(flow.target, topic_name) == end


def test_a_damaged_map_is_named_before_the_log_is_read(
    flow_factory: FlowFactory, source: LocalCluster, target: LocalCluster, topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    flow = flow_factory(source, target, buckets=1)
    flow.create_both(topic_name, retention_ms="-1")
    fill(flow.source, topic_name, 20)
    flow.copy(topic_name)
    source_id, target_id = (flow.topic(side, topic_name).topic_id for side in (flow.source, flow.target))
    claim = Intent(Mode.LIVE, 1, History(7, 0), 0, 20, 20, 0, ((20, 1),))
    out = producer(flow.target)
    put(out, topic_name, b"x", FOREIGN)  # so that numbers do not settle it
    out.produce(flow.map_topic, b"?", encode_intent(MapKey(source_id, target_id, 0), claim)[0], partition=0)
    assert out.flush(30) == 0
    read: list[TopicPartition] = []

    async def scanned(cluster: RawCluster, node: int, at: TopicPartition, *rest: Any, **more: Any) -> Any:
        read.append(at)
        return await scan(cluster, node, at, *rest, **more)

    monkeypatch.setattr(settling, "scan", scanned)
    states = partition_states(flow.copy(topic_name))
    assert states[topic_name, 0][0] == "stopped"
    assert "a record of the offset map is damaged" in flow.events("map_unreadable")[0]["reason"]
    assert isinstance(places(flow, topic_name)[0], Unavailable)
    assert not read


def test_a_copy_whose_map_has_lost_its_newest_records_is_stopped(
    flow_factory: FlowFactory, source: LocalCluster, target: LocalCluster, topic_name: str
) -> None:
    """The last transaction is visible, and the map ends before it."""
    flow = flow_factory(source, target, buckets=1, control=KEYS)
    flow.create_both(topic_name, retention_ms="-1")
    fill(flow.source, topic_name, 200, timestamp=aged(2 * DAY_MS))
    flow.copy(topic_name)
    earlier = {record.key for record in stored(flow.target, flow.map_topic)}
    fill(flow.source, topic_name, 200, first=200, timestamp=aged(2 * DAY_MS))
    flow.copy(topic_name)
    ids = [flow.topic(side, topic_name).topic_id for side in (flow.source, flow.target)]
    mark = mark_key(MapKey(ids[0], ids[1], 0))

    erase(flow, {record.key for record in stored(flow.target, flow.map_topic)} - earlier | {mark})
    end = flow.offsets(flow.target, topic_name)
    states = partition_states(flow.copy(topic_name))
    assert flow.offsets(flow.target, topic_name) == end, "nothing is copied twice"
    assert states[topic_name, 0][0] == "stopped"
    assert "has lost records of this partition" in flow.events("map_unreadable")[0]["reason"]
