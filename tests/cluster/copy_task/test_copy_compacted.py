"""Compacted sources: holes, tombstones, and a source that compacts while we are not looking."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
import random

import pytest

from drkit.local.cluster import LocalCluster
from drkit.model import SourceOffset
from tests.support.circles import in_soak
from tests.support.flows.compare import Seen, check_copy, read
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.produce import aged, now_ms, producer, put, wait_for_markers
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

_COMPACT = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
    "delete.retention.ms": "3600000",
}


@pytest.fixture
def compacting(module_cluster: ModuleClusters, target: LocalCluster, flow_factory: FlowFactory) -> Flow:
    """A flow from a source whose cleaner runs all the time."""
    source = module_cluster("compacting", properties={"log.cleaner.backoff.ms": "200"})
    return flow_factory(source, target, bulk_commit_seconds=0.3)


def _fill(flow: Flow, topic: str, count: int, *, keys: int, seed: int, age_ms: int, codec: str) -> None:
    """Overwritten keys, tombstones, and transactions of which some abort."""
    chance = random.Random(seed)
    plain = producer(flow.source, compression_type=codec)
    atomic = producer(flow.source, transactional_id=f"{topic}-{seed}", compression_type=codec)
    atomic.init_transactions(30)
    for i in range(count):
        key = b"k%d" % chance.randrange(keys)
        value = None if chance.random() < 0.1 else b"%d-%d " % (seed, i) + b"x" * chance.randrange(200)
        if i % 50 == 0:
            plain.flush(30)
            atomic.begin_transaction()
        put(atomic if i % 50 < 20 else plain, topic, value, key, timestamp=aged(age_ms)(i))
        if i % 50 == 20:
            atomic.flush(30)  # an abort before the broker knows the partitions is fatal in librdkafka
            (atomic.abort_transaction if chance.random() < 0.3 else atomic.commit_transaction)(30)
    assert plain.flush(30) == 0
    wait_for_markers(flow.source, f"{topic}-{seed}")


def _roll_and_compact(flow: Flow, topic: str) -> None:
    """Wait until the cleaner has been over all that is there: the active segment rolls by a later record."""
    before = sum(map(len, read(flow.source, topic).values()))
    put(out := producer(flow.source), topic, b"roll", b"roll", timestamp=now_ms() + 2000)
    out.flush(30)
    eventually(lambda: sum(map(len, read(flow.source, topic).values())) < before, what="compaction")


def _given(expected: list[Seen], _partition: int, _seen: list[Seen]) -> list[Seen]:
    return expected


def _copied(flow: Flow, topic: str, first: int, there: list[Seen]) -> list[Seen]:
    """The source records of the newest copies: the cleaner may have taken some just before the fetch."""
    out, rest = [], iter(there)
    for copy in read(flow.target, topic)[0][first:]:
        found = next((s for s in rest if s.content == copy.content), None)
        assert found is not None, f"not on the source, or out of order: {copy}"
        out.append(found)
    return out


@pytest.mark.wide
@pytest.mark.parametrize(
    ("codec", "age_ms"),
    [
        in_soak("none", 0),
        ("lz4", 2 * DAY_MS),
        in_soak("none", 2 * DAY_MS),
        in_soak("lz4", 0),
    ],
    ids=["none-live", "lz4-bulk", "none-bulk", "lz4-live"],
)
def test_source_that_compacts_between_two_tasks(
    compacting: Flow, topic_name: str, codec: str, age_ms: int
) -> None:
    flow = compacting
    flow.create_both(topic_name, retention_ms="-1", config=_COMPACT)
    expected: list[Seen] = []
    last = -1
    for turn in range(3):
        _fill(flow, topic_name, 600, keys=60, seed=turn, age_ms=age_ms, codec=codec)
        if turn != 1:
            _roll_and_compact(flow, topic_name)
        before = read(flow.source, topic_name)[0]
        flow.copy(topic_name, compacted=True)
        after = read(flow.source, topic_name)[0]
        expected += _copied(flow, topic_name, len(expected), [s for s in before if s.offset > last])
        last = expected[-1].offset
        assert {s.offset for s in after} <= {s.offset for s in expected}
        check_copy(flow, topic_name, uncommitted=not age_ms, expected=partial(_given, expected))
    assert any(b.offset - a.offset > 1 for a, b in pairwise(expected))
    assert any(s.value is None for s in expected)
    # A reader that keeps the newest value per key ends with the same table on both sides.
    assert _table(read(flow.source, topic_name)[0]) == _table(read(flow.target, topic_name)[0])


@pytest.mark.wide
def test_compaction_while_tasks_are_killed(compacting: Flow, topic_name: str) -> None:
    """After each kill the dead task's offsets may hold other records: none is lost or out of order."""
    flow, chance = compacting, random.Random(2)
    flow.create_both(topic_name, retention_ms="-1", config=_COMPACT)
    for turn in range(4):
        _fill(flow, topic_name, 1500, keys=200, seed=turn, age_ms=0, codec="lz4")
        task = flow.start(topic_name, once=False, compacted=True)
        task.kill_after(chance.uniform(0.1, 0.7))
        put(out := producer(flow.source), topic_name, b"roll", b"roll", timestamp=now_ms() + 2000)
        out.flush(30)
    flow.copy(topic_name, compacted=True)
    on_source, on_target = read(flow.source, topic_name)[0], read(flow.target, topic_name)[0]
    assert _table(on_source) == _table(on_target)
    # Every record that is still on the source has its copy where the map says, in the same order.
    segments, end = flow.settled(topic_name)[0]
    by_offset = {s.offset: s for s in on_target}
    places = [segments.translate(SourceOffset(s.offset), end) for s in on_source]
    found = [p for p in places if isinstance(p, int)]
    assert [by_offset[p].content for p in found] == [s.content for s in on_source]
    assert found == sorted(set(found))


def _table(records: list[Seen]) -> dict[bytes | None, bytes]:
    newest = {s.key: s.value for s in records}
    return {k: v for k, v in newest.items() if v is not None}
