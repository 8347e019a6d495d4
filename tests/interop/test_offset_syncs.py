"""Offset syncs between real brokers, judged by MirrorMaker 2's own reader of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from drkit.flow_state.records import GenerationRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.mm2_topics.offset_syncs import OffsetSyncs
from drkit.offsets.mm2_records import Checkpoint, Heartbeat, OffsetSync
from drkit.offsets.translation import Exact, PartitionPosition
from tests.support.circles import in_soak, in_wide
from tests.support.flows.compare import not_foreign, read
from tests.support.flows.exactness import first, places
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.known_flow import remember
from tests.support.flows.produce import aged, fill, fill_transactions, producer, put
from tests.support.mm2.mm2_java import KafkaJava, OffsetSyncStore, task_properties

PARTITIONS = 2


@contextmanager
def syncs_of(flow: Flow) -> Iterator[OffsetSyncs]:
    """The writer of offset syncs as `drkit replicate` runs it; a new one remembers nothing."""
    clusters = Cluster.connect(flow.source), Cluster.connect(flow.target)
    with StateTopic(flow.target, flow.source.alias) as state:
        state.load()
        made = OffsetSyncs(clusters, flow.settings, state)
        try:
            yield made
        finally:
            made.close()


def stored(flow: Flow, syncs: OffsetSyncs) -> list[OffsetSync]:
    """All syncs of the topic, in their order."""
    home = flow.source if flow.settings.offset_syncs_topic_location == "source" else flow.target
    return [OffsetSync.decode(s.key or b"", s.value or b"") for s in read(home, syncs.topic)[0]]


def judged(flow: Flow, java: KafkaJava, topic: str, *, history: bool = True) -> int:
    """Every committed offset through MirrorMaker 2's store; returns how many it translated.

    Nothing may be skipped: the first record read there is the next one, or one before it.
    """
    exact, on_target = places(flow, topic), read(flow.target, topic)
    translated = 0
    with OffsetSyncStore(
        java, task_properties(flow.source, flow.target, flow.settings), history=history
    ) as s:
        for p, place in exact.items():
            assert isinstance(place, PartitionPosition)
            assert place.frontier is not None
            for upstream in range(place.frontier + 1):
                found, wanted = s.translate(topic, p, upstream), place.forward(upstream)
                assert isinstance(wanted, Exact)
                if found is None or found < 0:
                    continue
                translated += 1
                assert found <= wanted.offset, f"{topic}-{p}: {upstream} → {found}, exact {wanted}"
            found = s.translate(topic, p, place.frontier)
            assert found is not None
            assert first(not_foreign(on_target[p]), found) is None, "a group that read all has records left"
    return translated


@pytest.mark.parametrize("home", [in_wide("target"), in_soak("source")])
def test_mm2s_store_never_leads_a_group_past_a_record(
    flow_factory, source, target, java: KafkaJava, topic_name: str, home: str
) -> None:
    """P30: whatever makes offsets differ, what its reader makes of our syncs is exact or earlier."""
    flow: Flow = flow_factory(
        source, target, bulk_commit_seconds=0.3, offset_lag_max=10, offset_syncs_topic_location=home
    )
    flow.create_both(topic_name, PARTITIONS, retention_ms="-1")
    remember(flow, topic_name)
    written = 0
    for turn, age_ms in enumerate((0, 3 * DAY_MS, 0)):
        fill_transactions(
            flow.source, [topic_name], 120, most=9, seed=turn, timestamp=aged(age_ms), partitioner="random"
        )
        fill(flow.source, topic_name, 60, first=turn * 1000, timestamp=aged(age_ms), partitioner="random")
        flow.copy(topic_name)
        if turn == 1:
            out = producer(flow.target)
            for p in range(PARTITIONS):
                put(out, topic_name, b"x", b"foreign-", partition=p)
            assert out.flush(30) == 0
        with syncs_of(flow) as syncs:  # a new process each time
            looked = syncs.look()
            assert 0 < looked <= 20
            assert syncs.look() == 0, "at rest nothing is written"
            written += looked
            assert len(stored(flow, syncs)) == written
        answered = judged(flow, java, topic_name)
        assert answered > 100 * (turn + 1)
        assert judged(flow, java, topic_name, history=False) < answered


@pytest.mark.wide
def test_another_topic_of_the_same_name(flow: Flow, java: KafkaJava, topic_name: str) -> None:
    """The copy began again, and its records have other offsets: the reader learns of that first."""
    flow.create_both(topic_name)
    remember(flow, topic_name)
    fill(flow.source, topic_name, 300)
    flow.copy(topic_name)
    with syncs_of(flow) as syncs:
        syncs.look()
        assert judged(flow, java, topic_name) > 250
        flow.delete_records(topic_name, 0, 200)
        flow.delete(flow.target, topic_name)
        flow.create(flow.target, topic_name, 1, {"retention.ms": "-1"})
        remember(flow, topic_name)
        fill(flow.source, topic_name, 200, first=300)
        flow.copy(topic_name)
    with syncs_of(flow) as syncs:
        syncs.look()
        before, *after = (s for s in stored(flow, syncs) if s.downstream != s.upstream)
        assert (before.upstream, before.downstream) == (200, 0)
        assert after[-1].downstream == 299
        assert judged(flow, java, topic_name) > 250


@pytest.mark.wide
def test_a_topic_that_comes_back_under_its_name_meanwhile(
    flow: Flow, java: KafkaJava, topic_name: str
) -> None:
    """Its earlier syncs were forgotten with it, and the reader still has them."""
    other = flow.create_both(f"{topic_name}-other")
    flow.create_both(topic_name)
    for topic in (topic_name, other):
        remember(flow, topic)
        fill(flow.source, topic, 300)
    flow.copy(topic_name, other)
    with syncs_of(flow) as syncs, StateTopic(flow.target, flow.source.alias) as state:
        syncs.look()
        assert {at.topic for at in syncs._held} == {topic_name, other}
        state.delete(GenerationRecord, topic_name)
        syncs._state.load()
        syncs.look()
        assert {at.topic for at in syncs._held} == {other}

        flow.delete_records(topic_name, 0, 200)
        flow.delete(flow.target, topic_name)
        flow.create(flow.target, topic_name, 1, {"retention.ms": "-1"})
        remember(flow, topic_name)
        fill(flow.source, topic_name, 200, first=300)
        flow.copy(topic_name)
        syncs._state.load()
        syncs.look()
        before, *after = (s for s in stored(flow, syncs) if s.downstream != s.upstream)
        assert (before.topic, before.upstream, before.downstream) == (topic_name, 200, 0)
        assert after[-1].downstream == 299
    assert judged(flow, java, topic_name) > 250


@pytest.mark.wide
def test_a_deleted_topic_is_reported_and_filled_again(flow: Flow, topic_name: str) -> None:
    """While drkit runs, and between two runs."""
    flow.create_both(topic_name)
    remember(flow, topic_name)
    fill(flow.source, topic_name, 50)
    flow.copy(topic_name)
    with syncs_of(flow) as syncs:
        syncs.look()
        all_of_it = stored(flow, syncs)
        flow.delete(flow.target, syncs.topic)
        with capture_logs() as said:
            syncs.look()
        (event,) = said
        assert (event["event"], event["topic"], event["log_level"]) == (
            "internal_topic_remade", syncs.topic, "warning",
        )  # fmt: skip
        assert event["old_id"] != event["new_id"] == str(flow.topic(flow.target, syncs.topic).topic_id)
        assert stored(flow, syncs) == all_of_it
        flow.delete(flow.target, syncs.topic)
    with syncs_of(flow) as syncs:
        syncs.look()
        assert stored(flow, syncs) == all_of_it


@pytest.mark.wide
def test_a_corrupt_record_is_reported_and_hides_nothing(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name)
    remember(flow, topic_name)
    fill(flow.source, topic_name, 50)
    flow.copy(topic_name)
    with syncs_of(flow) as syncs:
        syncs.look()
        good = stored(flow, syncs)
    out = producer(flow.target)
    put(out, syncs.topic, b"\x00\x01", good[-1].key, partition=0)
    put(out, syncs.topic, b"", b"\xff", partition=0)
    assert out.flush(30) == 0
    fill(flow.source, topic_name, 5, first=50)
    flow.copy(topic_name)
    with capture_logs() as said, syncs_of(flow) as syncs:
        assert syncs.look() == 1
    (event,) = said
    assert (event["event"], event["topic"], event["records"], event["offset"]) == (
        "internal_topic_unreadable", syncs.topic, 2, len(good),
    )  # fmt: skip
    assert "2 bytes end too early" in event["reason"]
    assert f"delete {syncs.topic}" in event["hint"]
    *_, bad, other, last = read(flow.target, syncs.topic)[0]
    assert (bad.value, other.key) == (b"\x00\x01", b"\xff"), "the foreign records are still there"
    newest = OffsetSync.decode(last.key or b"", last.value or b"")
    assert newest.upstream == newest.downstream == 54


@pytest.mark.wide
def test_a_topic_is_compacted_and_a_missing_right_is_reported(flow_factory, source, target, topic_name: str):
    flow: Flow = flow_factory(source, target, offset_syncs_topic_replication_factor=-1)
    flow.create_both(topic_name)
    remember(flow, topic_name)
    fill(flow.source, topic_name, 10)
    flow.copy(topic_name)
    with syncs_of(flow) as syncs:
        syncs.look()
        assert syncs.topic == f"mm2-offset-syncs.{flow.source.alias}.internal"
        found = flow.topic(flow.target, syncs.topic)
        assert len(found.leaders) == 1
    # Nothing is copied yet, or it is unknown what: no offset is invented.
    other: Flow = flow_factory(source, target)
    with syncs_of(other) as syncs:
        assert syncs.look() == 0
        assert other.topic(other.target, syncs.topic).error == 3


@pytest.mark.parametrize("names", [("orders", "g1"), ("ü.é-_", "große Gruppe"), ("t" * 249, "g" * 3000)])
@pytest.mark.parametrize("offsets", [(100, 42), (0, 0), (1 << 40, (1 << 62) - 1), (-1, -1)])
def test_our_bytes_are_those_of_kafkas_classes(
    java: KafkaJava, names: tuple[str, str], offsets: tuple[int, int]
) -> None:
    """P30: key and value of syncs, checkpoints and heartbeats, byte for byte."""
    (topic, group), at = names, java.partition(names[0], 3)
    sync, checkpoint = OffsetSync(topic, 3, *offsets), Checkpoint(group, topic, 3, *offsets, "meta")
    beat = Heartbeat(group, topic, offsets[0])
    up, down = (java.jvm.java.lang.Long(str(n)) for n in offsets)
    theirs = (
        (sync, java.mirror("OffsetSync")(at, up, down)),
        (checkpoint, java.mirror("Checkpoint")(group, at, up, down, "meta")),
        (beat, java.mirror("Heartbeat")(group, topic, up)),
    )
    for ours, other in theirs:
        assert ours.key == bytes(java.call(other, "recordKey", {}))
        assert ours.value == bytes(java.call(other, "recordValue", {}))
