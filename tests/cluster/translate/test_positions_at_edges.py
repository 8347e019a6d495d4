"""Positions where nothing more is, nothing any more, or never anything was: where to, and what is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConsumerPartition
import pytest

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.kafka.groups.requests import Committed, Groups
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.translate.positions import Line, PositionQuestion, translate
from tests.support.flows.compare import read
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import Flow
from tests.support.flows.known_flow import remember
from tests.support.flows.produce import producer, put, wait_for_markers

EMPTY, AT_END, LOST_THERE, LOST_HERE, ABORTED = range(5)
RECORDS = 30


@pytest.fixture
def flow(source: LocalCluster, target: LocalCluster, flow_factory: FlowFactory) -> Flow:
    return flow_factory(source, target)


@pytest.fixture
def topic(flow: Flow, topic_name: str) -> str:
    """Five partitions: one empty, three with records, one with nothing but an aborted transaction."""
    flow.create_both(topic_name, 5)
    out = producer(flow.source)
    for p in (AT_END, LOST_THERE, LOST_HERE):
        for i in range(RECORDS):
            put(out, topic_name, b"%d" % i, b"k", partition=p)
    assert out.flush(30) == 0
    atomic = producer(flow.source, transactional_id=topic_name)
    atomic.init_transactions(30)
    atomic.begin_transaction()
    put(atomic, topic_name, b"never", partition=ABORTED)
    atomic.flush(30)
    atomic.abort_transaction(30)
    wait_for_markers(flow.source, topic_name)
    flow.copy(topic_name)
    remember(flow, topic_name)
    return topic_name


def lines(
    flow: Flow, group: str, *, reverse: bool = False, inexact: frozenset[int] = frozenset()
) -> dict[int, Line]:
    settings = FlowSettings(source=flow.source.alias, target=flow.target.alias)
    clusters = {c.alias: c for c in (flow.source, flow.target)}
    found = translate(
        Settings(clusters=clusters, flows=(settings,)), settings, PositionQuestion(group, reverse=reverse)
    )
    assert {x.partition: x.answer for x in found if x.answer != "exact"} == dict.fromkeys(
        inexact, "unavailable"
    )
    return {x.partition: x for x in found}


def commit(flow: Flow, side: ClusterSettings, group: str, topic: str, offsets: dict[int, int]) -> None:
    positions = {TopicPartition(topic, p): Committed(o) for p, o in offsets.items()}
    stored = flow.ask(side, lambda raw: Groups(raw).alter({group: positions}))
    assert set(stored[group].value.values()) == {0}


@contextmanager
def consumer(cluster: ClusterSettings, topic: str, offsets: dict[int, int]) -> Iterator[Consumer]:
    made = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "edges",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    made.assign([ConsumerPartition(topic, p, o) for p, o in offsets.items()])
    try:
        yield made
    finally:
        made.close()


def test_each_edge_has_its_position_and_its_note(flow: Flow, topic: str) -> None:
    flow.delete_records(topic, LOST_THERE, 12, flow.target)
    flow.delete_records(topic, LOST_HERE, 12)
    ends = flow.offsets(flow.source, topic)
    at = {EMPTY: 0, AT_END: ends[AT_END], LOST_THERE: 5, LOST_HERE: 5, ABORTED: ends[ABORTED]}
    commit(flow, flow.source, f"g-{topic}", topic, at)

    found = lines(flow, f"g-{topic}", inexact=frozenset({LOST_THERE}))

    here, there = flow.starts(flow.target, topic), flow.offsets(flow.target, topic)
    to = {p: x.to_offset for p, x in found.items()}
    assert to == {
        EMPTY: here[EMPTY],
        AT_END: there[AT_END],
        LOST_THERE: None,
        LOST_HERE: 5,
        ABORTED: here[ABORTED],
    }
    assert {p: x.note for p, x in found.items()} == {
        EMPTY: "empty: the log start",
        AT_END: "at the end",
        LOST_THERE: "behind retention: the target begins at 12, 7 offsets later; the target has removed"
        " source offsets 5 to 11, which the source may keep",
        LOST_HERE: "behind retention: the source begins at 12, the target has more",
        ABORTED: "empty: the log start",
    }
    # What a consumer gets there first: what is left, and after that what is new.
    to[LOST_THERE] = here[LOST_THERE]
    out = producer(flow.source)
    for p in at:
        put(out, topic, b"new", b"k", partition=p)
    assert out.flush(30) == 0
    flow.copy(topic)
    first = {
        p: next(s.value for s in read(flow.target, topic)[p] if s.offset >= (o or 0)) for p, o in to.items()
    }
    assert first == {EMPTY: b"new", AT_END: b"new", LOST_THERE: b"12", LOST_HERE: b"5", ABORTED: b"new"}
    with consumer(flow.target, topic, {p: o or 0 for p, o in to.items()}) as reading:
        got: dict[int, bytes | None] = {}
        while len(got) < len(at):
            message = reading.poll(10)
            assert message is not None
            assert message.error() is None, message.error()
            got.setdefault(message.partition() or 0, message.value())
    assert got == first


def test_the_same_edges_on_the_way_back(flow: Flow, topic: str) -> None:
    flow.delete_records(topic, LOST_HERE, 12)
    ends = flow.offsets(flow.target, topic)
    commit(flow, flow.target, f"g-{topic}", topic, {EMPTY: 0, AT_END: ends[AT_END], LOST_HERE: 5})
    found = lines(flow, f"g-{topic}", reverse=True)
    assert {p: (x.to_offset, x.note) for p, x in found.items()} == {
        EMPTY: (0, "empty: the source's log start"),
        AT_END: (flow.offsets(flow.source, topic)[AT_END], "at the end"),
        LOST_HERE: (12, "behind retention: the source begins at 12"),
    }
