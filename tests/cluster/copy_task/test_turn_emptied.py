"""Turns that empty partitions: the whole log of the other side is copied again, or what is new alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import itertools
import random
import time
from typing import Final

import pytest

from drkit.errors import Refused
from drkit.failover.loss.count import count_gaps
from drkit.flow_state.copied_topics import known_of
from drkit.flow_state.left_out import LeftOut
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from drkit.offset_map.seeding import SeededPartition
from drkit.status.lag.source import UncopiedRange, waiting
from drkit.verify import snapshot
from drkit.verify.ranges import cut
from drkit.verify.report import join
from drkit.verify.task import compare_range
from tests.support.errors import coded
from tests.support.flows.compare import read
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.produce import now_ms, producer, put, text, wait_for_markers
from tests.support.flows.turning import Method, Turning
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

PLAIN, ATOMIC, OLD, OTHER, EMPTY = range(5)
PATIENT: Final = {
    "broker.session.timeout.ms": "9000", "log.initial.task.delay.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "60000",
}  # fmt: skip
"""Brokers are killed in this file; a busy machine must not cast them out before. Where logs begin they write
down half a second after their start, and then once a minute, which is Kafka's default."""
_SAFE_SECONDS: Final = 45.0
ROUNDS: Final = (
    {ATOMIC: Method.REBUILD, OLD: Method.REBUILD, OTHER: Method.TRIM, EMPTY: Method.REBUILD},
    {PLAIN: Method.REBUILD, ATOMIC: Method.TRIM, OTHER: Method.REBUILD},
    {OLD: Method.TRIM, EMPTY: Method.TRIM, OTHER: Method.REBUILD, PLAIN: Method.REBUILD},
)
"""All others by delta."""
_numbers = itertools.count()


@pytest.fixture
def clusters(module_cluster: ModuleClusters) -> list[LocalCluster]:
    return module_cluster.ready({"left": {"properties": PATIENT}, "right": {"properties": PATIENT}})


@pytest.fixture
def turning(clusters: list[LocalCluster], flow_factory: FlowFactory, topic_name: str) -> Iterator[Turning]:
    """A topic of five partitions on both sides, copied from left to right."""
    left, right = clusters
    there, back = flow_factory(left, right), flow_factory(right, left)
    there.create_both(topic_name, 5, retention_ms="-1")
    found = Turning(there, back, topic_name)
    yield found
    found.close()


def _write(
    flow: Flow, topic: str, count: int, *, partitions: tuple[int, ...] = (PLAIN, ATOMIC, OLD, OTHER)
) -> int:
    """Records of some partitions, plain and compressed, old ones, and transactions of which some abort.

    Returns how many a consumer sees.
    """
    out, seen = producer(flow.source, compression_type="zstd"), 0
    for p in sorted({PLAIN, OLD} & {*partitions}):
        for i in range(count):
            age = 900 * DAY_MS if p == OLD else 0
            put(out, topic, _value(), b"k%d" % i, partition=p, timestamp=now_ms() - age)
            if i % 7 == 0:
                out.flush(30)
        seen += count
    assert out.flush(60) == 0
    atomic = [p for p in (ATOMIC, OTHER) if p in partitions]
    return seen + (_transactions(flow, topic, count, atomic) if atomic else 0)


def _transactions(flow: Flow, topic: str, count: int, partitions: list[int]) -> int:
    name = f"emptied-{topic}-{flow.source.alias}"
    atomic, seen, chance = producer(flow.source, transactional_id=name), 0, random.Random(count)
    atomic.init_transactions(60)
    for number in range(6):
        atomic.begin_transaction()
        size = chance.randint(1, count // 3)
        for p in partitions:
            for _ in range(size):
                put(atomic, topic, _value(), b"k%d" % next(_numbers), partition=p)
        atomic.flush(30)  # so that aborted records really are in the log
        commits = number % 3 > 0
        (atomic.commit_transaction if commits else atomic.abort_transaction)(60)
        seen += size * commits * len(partitions)
    wait_for_markers(flow.source, name)
    return seen


def _value() -> bytes:
    return text(next(_numbers))


def _tail(turning: Turning, methods: Mapping[int, Method]) -> None:
    """Records that only the old primary has, in the partitions whose method gives them up."""
    _write(turning.now.flow, turning.topic, 9, partitions=tuple(methods.keys() - {EMPTY}))


def _to_copy(turning: Turning, seeds: list[SeededPartition]) -> int:
    """How many records there are on the source from where partitions begin."""
    seen = read(turning.now.flow.source, turning.topic)
    begins = {s.partition.source.partition: s.seed.upstream for s in seeds}
    return sum(s.offset >= begins[p] for p, some in seen.items() for s in some)


def _counted(turning: Turning, seeds: list[SeededPartition]) -> tuple[int, int]:
    """How many records wait to be copied, as `drkit status` and a failover count them."""
    flow, records = turning.now.flow, turning.now.state.records
    ends = flow.offsets(flow.source, turning.topic)
    gaps = [
        UncopiedRange(s.partition.source, s.seed.upstream, ends[s.partition.source.partition]) for s in seeds
    ]
    skip = LeftOut(frozenset(turning.other.ids), known_of(records).cuts, known_of(records).rebuilt.keys())
    topics = {turning.topic: flow.topic(flow.source, turning.topic)}
    lag = flow.ask(flow.source, waiting, topics, gaps, skip)
    lost = flow.ask(flow.source, count_gaps, gaps, skip)
    assert all(found.exact for found in lag.values())
    return sum(found.records for found in lag.values()), sum(found.records for found in lost.values())


def _after_checkpoint(cluster: LocalCluster) -> None:
    """Wait until brokers do not write down within seconds where their logs begin."""
    files = [b.folder / "data" / "log-start-offset-checkpoint" for b in cluster.brokers]

    def is_young() -> bool:
        return all(f.exists() and time.time() - f.stat().st_mtime < _SAFE_SECONDS for f in files)

    eventually(is_young, 90.0, "brokers have just written down where their logs begin")


def _round(turning: Turning, methods: Mapping[int, Method], killed: LocalCluster | None = None) -> int:
    """A failover with a tail, the return by these methods, and a switchover back; how many offsets are exact.

    :param killed: the old primary: its brokers are killed right after it was emptied
    """
    topic = turning.topic
    _write(turning.now.flow, topic, 30)
    turning.copy()
    exact = turning.every_position()
    _tail(turning, methods)
    seeds = turning.end(methods)
    flow = turning.now.flow
    _write(flow, topic, 20)
    if killed is not None:
        _after_checkpoint(killed)
    turning.empty(seeds)
    if killed is not None:
        turning.restarted(killed, flow.target.alias)
        assert turning.came_back(seeds).keys() >= methods.keys() - {EMPTY}, "the deletion was not durable"
        with pytest.raises(Refused, check=coded("copy_not_empty")) as refused:
            turning.write(seeds)
        assert "drkit reprotect --resume" in refused.value.hint
        turning.empty(seeds)
    turning.write(seeds)
    expected = _to_copy(turning, seeds)
    assert _counted(turning, seeds) == (expected, expected), "of lag and of loss"
    report = turning.copy()
    assert (report.records, report.looped) == (expected, {})
    assert not turning.came_back(seeds)
    exact += turning.every_position()
    assert not flow.events("target_truncated") + flow.events("foreign_writer")
    _verify(turning)
    turning.open()
    turning.turn()
    _verify(turning)
    return exact + turning.every_position()


def _verify(turning: Turning) -> None:
    """What `drkit verify` finds: nothing, though one side may have given up older records."""
    flow, topic = turning.now.flow, turning.topic
    sides = Cluster.connect(flow.source), Cluster.connect(flow.target)
    settings = flow.settings.model_copy(update={"topics": (topic,)})
    taken = snapshot.take(settings, *sides, [topic])
    results = [compare_range(r, flow.source, flow.target) for r in cut(taken.views, 2)]
    found = join(taken.views, results)
    assert not taken.unclear
    assert [f for p in found for f in p.findings] == []
    assert sum(p.counts.equal for p in found) > 100


@pytest.mark.wide
def test_methods_change_from_round_to_round(turning: Turning, clusters: list[LocalCluster]) -> None:
    """In the second round brokers are killed that have not written down what was deleted."""
    exact = _round(turning, ROUNDS[0]) + _round(turning, ROUNDS[1], clusters[0])
    assert exact > 1_500


@pytest.mark.soak
def test_three_rounds_with_a_kill_in_each(turning: Turning, clusters: list[LocalCluster]) -> None:
    assert sum(_round(turning, methods, clusters[0]) for methods in ROUNDS) > 2_500


@pytest.mark.soak
def test_killed_between_the_seed_and_the_first_append_and_after_some(
    turning: Turning, clusters: list[LocalCluster]
) -> None:
    """Tasks are killed, and the brokers of the old primary: what comes back is no part of the copy."""
    chance, methods = random.Random(3), ROUNDS[0]
    _write(turning.now.flow, turning.topic, 60)
    turning.copy()
    _tail(turning, methods)
    seeds = turning.end(methods)
    flow = turning.now.flow
    _after_checkpoint(clusters[0])
    turning.empty(seeds)
    turning.write(seeds)
    for seconds in (0.0, 0.3, 1.0, 2.0):
        _write(flow, turning.topic, 20)
        task = flow.start(lease=turning.now.lease(turning.other, once=False))
        assert task.kill_after(chance.uniform(0.0, seconds))
        turning.restarted(clusters[0], flow.target.alias)
        assert turning.came_back(seeds), "brokers were killed within a minute"
        if seconds:
            turning.copy()
            assert turning.every_position(), "exact also while the old records are back"
            turning.empty(seeds)
            turning.write(seeds)
    assert not flow.events("target_truncated") + flow.events("foreign_writer")
    turning.empty(seeds)
    assert not turning.copy().looped
    assert turning.every_position() > 500
    turning.turn()
    assert turning.every_position()
