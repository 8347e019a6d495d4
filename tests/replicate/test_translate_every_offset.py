"""Every possible committed offset, on a topic with everything that makes offsets differ."""

from __future__ import annotations

from bisect import bisect_left
import random

import pytest

from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offsets import Unavailable
from drkit.offsets.translation import BEHIND_COPY, Exact, Place
from drkit.replicate.known import CopiedPartition, Producers
from drkit.replicate.places import Places
from tests.conftest import ClusterFactory
from tests.replicate.compare import FOREIGN, Seen, not_foreign, read
from tests.replicate.conftest import FlowFactory
from tests.replicate.flow import DAY_MS, Flow
from tests.replicate.process import eventually
from tests.replicate.produce import aged, now_ms, producer, put, wait_for_markers

PARTITIONS = 2
COMPACT = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
    "delete.retention.ms": "3600000",
}


def places(flow: Flow, topic: str, *, source_lives: bool = True) -> dict[int, Place | Unavailable]:
    """What one who has only the two clusters says of all partitions."""
    theirs, ours = flow.topic(flow.source, topic), flow.topic(flow.target, topic)
    wanted = [
        CopiedPartition(TopicPartition(topic, p), TopicPartition(topic, p), theirs.topic_id, ours.topic_id)
        for p in ours.leaders
    ]
    producers = Producers(flow.producer.id, frozenset({flow.producer.id}))
    source = flow._raw[flow.source.alias] if source_lives else None

    async def look(target):
        return await Places(target, flow.source.alias).look(wanted, producers, source)

    return {at.partition: p for at, p in flow.ask(flow.target, look).items()}


def first(records: list[Seen], offset: int) -> Seen | None:
    """What a consumer reads first from an offset on."""
    i = bisect_left([s.offset for s in records], offset)
    return records[i] if i < len(records) else None


def every_offset(flow: Flow, topic: str, *, source_lives: bool = True) -> int:
    """Check all offsets of the source up to the frontier, and all of the target; returns how many."""
    found, checked = places(flow, topic, source_lives=source_lives), 0
    theirs, ours = read(flow.source, topic), read(flow.target, topic)
    starts = flow.starts(flow.source, topic)
    for p, place in found.items():
        assert isinstance(place, Place)
        assert place.frontier is not None
        copied = not_foreign(ours[p])
        # A transaction's marker may have come since: it moves the end, and nothing else.
        assert place.end >= place.copied_end == copied[-1].offset + 1
        original = {c.offset: s for c, s in zip(copied, theirs[p], strict=False)}
        assert [c.content for c in copied] == [s.content for s in theirs[p][: len(copied)]]
        for upstream in range(starts[p], place.frontier + 1):
            answer = place.forward(upstream)
            assert isinstance(answer, Exact), f"{topic}-{p} {upstream}: {answer}"
            wanted = first(theirs[p], upstream)
            if wanted is not None and wanted.offset < place.frontier:
                got = first(ours[p], answer.offset)
                assert got is not None
                assert got.content == wanted.content, f"{topic}-{p}: {upstream} → {answer}"
            else:
                assert first(copied, answer.offset) is None
                assert answer.offset <= place.end
        for downstream in range(place.end + 1):
            back = place.backward(downstream)
            assert isinstance(back, Exact), f"{topic}-{p} back from {downstream}: {back}"
            copy = first(copied, downstream)
            got = first(theirs[p], back.offset)
            if copy is not None:
                assert got is original[copy.offset], f"{topic}-{p}: back from {downstream} → {back}"
            else:
                assert back.offset == place.frontier
                assert got is None or got.offset >= place.frontier
        checked += place.frontier - starts[p] + place.end
    return checked


def mixed(flow: Flow, topic: str, count: int, *, seed: int, age_ms: int) -> None:
    """Overwritten keys, tombstones, single records between transactions of which some abort."""
    chance = random.Random(seed)
    plain = producer(flow.source)
    atomic = producer(flow.source, transactional_id=f"{topic}-{seed}")
    atomic.init_transactions(30)
    for i in range(count):
        key = b"k%d" % chance.randrange(40)
        value = None if chance.random() < 0.1 else b"%d-%d" % (seed, i)
        if i % 20 == 0:
            plain.flush(30)
            atomic.begin_transaction()
        out = atomic if i % 20 < 9 else plain
        put(out, topic, value, key, partition=i % PARTITIONS, timestamp=aged(age_ms)(i))
        if i % 20 == 9:
            atomic.flush(30)
            (atomic.abort_transaction if chance.random() < 0.4 else atomic.commit_transaction)(30)
    assert plain.flush(30) == 0
    if count % 20 in range(1, 10):
        atomic.commit_transaction(30)
    wait_for_markers(flow.source, f"{topic}-{seed}")


def compacted(flow: Flow, topic: str) -> None:
    """Wait until the cleaner has made holes, then let it be: what the source would give must stand still."""

    def count() -> int:
        return sum(map(len, read(flow.source, topic).values()))

    before = count()
    out = producer(flow.source)
    for p in range(PARTITIONS):
        put(out, topic, b"roll", b"roll", partition=p, timestamp=now_ms() + 2000)
    out.flush(30)
    eventually(lambda: count() < before, what="compaction")
    flow.configure(flow.source, topic, "cleanup.policy", "delete")


def intrude(flow: Flow, topic: str) -> None:
    out = producer(flow.target)
    for i in range(5):
        put(out, topic, b"x%d" % i, FOREIGN + b"%d" % i, partition=i % PARTITIONS)
    assert out.flush(30) == 0


@pytest.fixture
def flow(cluster_factory: ClusterFactory, target: LocalCluster, flow_factory: FlowFactory) -> Flow:
    """A flow from a source whose cleaner runs all the time."""
    source = cluster_factory("compacting", properties={"log.cleaner.backoff.ms": "200"})
    return flow_factory(source, target, bulk_commit_seconds=0.3)


def test_every_committed_offset_both_ways(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name, PARTITIONS, retention_ms="-1", config=COMPACT)
    mixed(flow, topic_name, 300, seed=0, age_ms=0)
    compacted(flow, topic_name)
    for turn, age_ms in enumerate((0, 2 * DAY_MS, 0, 0)):
        flow.copy(topic_name)  # a task of its own: the replicator was restarted
        assert every_offset(flow, topic_name) > 200
        if turn % 2 == 0:
            intrude(flow, topic_name)
            every_offset(flow, topic_name)
        mixed(flow, topic_name, 200, seed=turn + 1, age_ms=age_ms)
        every_offset(flow, topic_name)
    flow.start(topic_name, once=False).kill_after(1.5)  # wherever it got to
    assert every_offset(flow, topic_name) > 200
    assert every_offset(flow, topic_name, source_lives=False) > 200
    mixed(flow, topic_name, 40, seed=9, age_ms=0)
    end = flow.offsets(flow.source, topic_name)[0]  # committed records that nobody copies lie before it
    living, gone = places(flow, topic_name)[0], places(flow, topic_name, source_lives=False)[0]
    assert isinstance(living, Place)
    assert isinstance(gone, Place)
    assert "not copied yet" in living.forward(end).reason  # type: ignore[union-attr]
    assert gone.forward(end).note.startswith(BEHIND_COPY)  # type: ignore[union-attr]
