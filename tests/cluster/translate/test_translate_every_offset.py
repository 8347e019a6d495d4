"""Every possible committed offset, on a topic with everything that makes offsets differ."""

from __future__ import annotations

import random

import pytest

from drkit.kafka.requests import EARLIEST
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offset_map.scan import scan
from drkit.offsets.resolution import LogBatch
from drkit.offsets.translation import BEHIND_COPY, Exact, PartitionPosition
from tests.support.flows.compare import FOREIGN, Seen, read
from tests.support.flows.exactness import every_offset, first, places
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.produce import aged, now_ms, producer, put, wait_for_markers
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

PARTITIONS = 2
COMPACT = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
    "delete.retention.ms": "3600000",
}
CLEANING = {"log.cleaner.backoff.ms": "200"}


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
        more = {"timestamp": aged(age_ms)(i), "headers": [("n", b"%d-%d" % (seed, i))]}
        put(out, topic, value, key, partition=i % PARTITIONS, **more)
        if i % 20 == 9:
            atomic.flush(30)
            (atomic.abort_transaction if chance.random() < 0.4 else atomic.commit_transaction)(30)
    assert plain.flush(30) == 0
    if count % 20 in range(1, 10):
        atomic.commit_transaction(30)
    wait_for_markers(flow.source, f"{topic}-{seed}")


def compacted(flow: Flow, topic: str, *, on_target: bool = False) -> None:
    """Wait until the cleaner has made holes, then stop it: what a consumer would get must not change."""
    cluster = flow.target if on_target else flow.source

    def count() -> int:
        return sum(map(len, read(cluster, topic).values()))

    before = count()
    out = producer(cluster)
    for p in range(PARTITIONS):
        put(out, topic, b"roll", FOREIGN if on_target else b"roll", partition=p, timestamp=now_ms() + 2000)
    out.flush(30)
    eventually(lambda: count() < before, what="compaction")
    flow.configure(cluster, topic, "cleanup.policy", "delete")


def intrude(flow: Flow, topic: str) -> None:
    out = producer(flow.target)
    for i in range(5):
        put(out, topic, b"x%d" % i, FOREIGN + b"%d" % i, partition=i % PARTITIONS)
    assert out.flush(30) == 0


def batches(flow: Flow, cluster, topic: str, partition: int) -> list[LogBatch]:
    """The whole log of a partition, as headers."""
    found, at = flow.topic(cluster, topic), TopicPartition(topic, partition)
    start, end = (
        flow.offsets(cluster, topic, EARLIEST)[partition],
        flow.offsets(cluster, topic, committed=False)[partition],
    )
    out: list[LogBatch] = flow.ask(
        cluster, scan, found.leaders[partition].node, at, found.topic_id, start, end
    )
    return out


def everything_is_in_it(flow: Flow, topic: str) -> None:
    """Every partition holds what makes offsets differ, or the test proves less than it says."""
    records = read(flow.source, topic), read(flow.source, topic, isolation="read_uncommitted")
    for p in range(PARTITIONS):
        source_batches, target_batches = (batches(flow, c, topic, p) for c in (flow.source, flow.target))
        assert any(b.control for b in source_batches), "markers"
        assert any(b.aborted for b in source_batches), "aborted transactions"
        assert len(records[1][p]) > len(records[0][p]), "aborted records"
        held = sum(b.records for b in source_batches if not b.control)
        assert held > len(records[1][p]), "gaps from compaction"
        assert any(s.value is None for s in records[0][p]), "tombstones"
        live = [b for b in target_batches if b.producer_id == flow.producer.id and not b.control]
        bulk = [b for b in target_batches if b.transactional and not b.control]
        assert len(live) > 1, "live mode"
        assert bulk, "bulk mode"
        others = [b for b in target_batches if b not in live and b not in bulk and not b.control]
        assert any(live[0].base < b.base < live[-1].base for b in others), "a foreign write in between"


@pytest.fixture
def flow(module_cluster: ModuleClusters, target: LocalCluster, flow_factory: FlowFactory) -> Flow:
    """A flow from a source whose cleaner runs all the time."""
    source = module_cluster("compacting", properties=CLEANING)
    return flow_factory(source, target, bulk_commit_seconds=0.3)


@pytest.mark.wide
def test_every_committed_offset_both_ways(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name, PARTITIONS, retention_ms="-1", config=COMPACT)
    mixed(flow, topic_name, 300, seed=0, age_ms=0)
    compacted(flow, topic_name)
    for turn, age_ms in enumerate((0, 2 * DAY_MS, 0, 0)):
        if turn % 2:
            flow.copy(topic_name)
        else:  # in a process of its own: the replicator was restarted, nothing of it is remembered
            assert flow.start(topic_name).report()["ended"] == "once"
        assert every_offset(flow, topic_name) > 200
        if turn % 2 == 0:
            intrude(flow, topic_name)
            every_offset(flow, topic_name)
        mixed(flow, topic_name, 200, seed=turn + 1, age_ms=age_ms)
        every_offset(flow, topic_name)
    flow.start(topic_name, once=False).kill_after(1.5)  # wherever it got to
    assert every_offset(flow, topic_name) > 200
    assert every_offset(flow, topic_name, source_lives=False) > 200
    everything_is_in_it(flow, topic_name)
    mixed(flow, topic_name, 40, seed=9, age_ms=0)
    end = flow.offsets(flow.source, topic_name)[0]  # before it are committed records that no task copies
    living, gone = places(flow, topic_name)[0], places(flow, topic_name, source_lives=False)[0]
    assert isinstance(living, PartitionPosition)
    assert isinstance(gone, PartitionPosition)
    assert "not copied yet" in living.forward(end).reason  # type: ignore[union-attr]
    assert gone.forward(end).note.startswith(BEHIND_COPY)  # type: ignore[union-attr]


@pytest.mark.soak
def test_both_sides_are_compacted_while_records_are_copied(
    module_cluster: ModuleClusters, flow_factory: FlowFactory, topic_name: str
) -> None:
    """Each cleaner removes what it likes: the next record is the next one whose copy is left."""
    source, target = (module_cluster(name, properties=CLEANING) for name in ("compacting", "target-c"))
    flow = flow_factory(source, target, bulk_commit_seconds=0.3)
    flow.create_both(topic_name, PARTITIONS, retention_ms="-1", config=COMPACT, target_config=COMPACT)
    written: dict[int, dict[object, Seen]] = {p: {} for p in range(PARTITIONS)}
    for turn, age_ms in enumerate((0, 2 * DAY_MS, 0)):
        flow.configure(flow.source, topic_name, "cleanup.policy", "delete")
        mixed(flow, topic_name, 200, seed=turn, age_ms=age_ms)
        for p, records in read(flow.source, topic_name).items():
            written[p].update({s.headers or s.key: s for s in records})
        flow.configure(flow.source, topic_name, "cleanup.policy", "compact")
        flow.copy(topic_name)
    compacted(flow, topic_name, on_target=True)
    target_records = read(flow.target, topic_name)
    for p, place in places(flow, topic_name).items():
        assert isinstance(place, PartitionPosition)
        check_survivors(place, written[p], target_records[p], f"{topic_name}-{p}")


def check_survivors(
    place: PartitionPosition, written: dict[object, Seen], target_records: list[Seen], where: str
) -> None:
    """The record at a translated offset is the first from the group's offset on that has a copy left."""
    assert place.frontier is not None
    copies = [s for s in target_records if not (s.key or b"").startswith(FOREIGN)]
    originals = [written[s.headers or s.key].offset for s in copies]
    assert originals == sorted(originals)
    assert len(copies) < len(written), "the target was compacted"
    for upstream in range(place.frontier + 1):
        answer = place.forward(upstream)
        assert isinstance(answer, Exact), f"{where} {upstream}: {answer}"
        got, wanted = first(copies, answer.offset), next((o for o in originals if o >= upstream), None)
        assert (got and written[got.headers or got.key].offset) == wanted, f"{where}: {upstream} → {answer}"
    for downstream in range(place.end + 1):
        back = place.backward(downstream)
        assert isinstance(back, Exact), f"{where} back from {downstream}: {back}"
        copy = first(copies, downstream)
        if copy is not None and copy.offset == downstream:
            assert back.offset == written[copy.headers or copy.key].offset
