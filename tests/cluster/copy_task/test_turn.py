"""A pair of flows that turns: exact positions in both logs, and only new records are copied."""

from __future__ import annotations

from collections.abc import Iterator
import itertools
import random

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.circles import in_soak
from tests.support.exactness.cleaning import CLEANING
from tests.support.flows.compare import read
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.produce import now_ms, producer, put, text, wait_for_markers
from tests.support.flows.turning import Turning
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

PLAIN, ATOMIC, COMPACTED, EMPTY = range(4)
_COMPACT = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}
_PATIENT = {"broker.session.timeout.ms": "9000"}
"""A broker is killed once in this file; a busy machine must not cast it out before."""
_numbers = itertools.count()


@pytest.fixture
def clusters(module_cluster: ModuleClusters) -> list[LocalCluster]:
    return module_cluster.ready(
        {"left": {"properties": {**_PATIENT, **CLEANING}}, "right": {"properties": {**_PATIENT}}}
    )


@pytest.fixture
def turning(clusters: list[LocalCluster], flow_factory: FlowFactory, topic_name: str) -> Iterator[Turning]:
    """A topic of four partitions on both sides, copied from left to right."""
    left, right = clusters
    there, back = flow_factory(left, right), flow_factory(right, left)
    there.create_both(topic_name, 4, config=_COMPACT)
    found = Turning(there, back, topic_name)
    yield found
    found.close()


def _value() -> bytes:
    return text(next(_numbers))


def _write(flow: Flow, topic: str, count: int, seed: int) -> int:
    """Plain records, and transactions of which some abort; how many of them a consumer sees.

    Those of one partition are two days old: they are copied in transactions.
    """
    out = producer(flow.source, compression_type="lz4")
    for partition, age_ms in ((PLAIN, 0), (COMPACTED, 2 * DAY_MS)):
        for _ in range(count):
            key, when = b"k%d" % next(_numbers), now_ms() - age_ms
            put(out, topic, _value(), key, partition=partition, timestamp=when)
            if next(_numbers) % 7 == 0:
                out.flush(30)
    assert out.flush(60) == 0
    return 2 * count + _transactions(flow, topic, count, random.Random(seed))


def _transactions(flow: Flow, topic: str, count: int, chance: random.Random) -> int:
    name = f"turn-{topic}-{flow.source.alias}"
    atomic, seen = producer(flow.source, transactional_id=name), 0
    atomic.init_transactions(60)
    for _ in range(6):
        atomic.begin_transaction()
        size = chance.randint(1, count // 3)
        for _ in range(size):
            put(atomic, topic, _value(), b"k%d" % next(_numbers), partition=ATOMIC)
        atomic.flush(30)  # so that aborted records really are in the log
        commits = chance.random() < 0.6
        (atomic.commit_transaction if commits else atomic.abort_transaction)(60)
        seen += size * commits
    wait_for_markers(flow.source, name)
    return seen


def _compact(flow: Flow, topic: str) -> None:
    """Overwrite keys of one partition, and wait until the cleaner has left holes; then it is let go."""
    out = producer(flow.source)
    for i in range(300):
        put(out, topic, _value(), b"c%d" % (i % 40), partition=COMPACTED, timestamp=now_ms())
    assert out.flush(30) == 0
    before = len(read(flow.source, topic)[COMPACTED])
    put(out, topic, b"roll", b"roll", partition=COMPACTED, timestamp=now_ms() + 2000)
    assert out.flush(30) == 0
    eventually(lambda: len(read(flow.source, topic)[COMPACTED]) < before, what="compaction")
    flow.configure(flow.source, topic, "cleanup.policy", "delete")
    flow.configure(flow.source, topic, "retention.ms", "-1")


def _compare(turning: Turning) -> int:
    """Every offset of both logs, in both directions, and the contents of both sides; how many offsets."""
    flow = turning.now.flow
    left, right = read(flow.source, turning.topic), read(flow.target, turning.topic)
    assert {p: [s.content for s in some] for p, some in left.items()} == {
        p: [s.content for s in some] for p, some in right.items()
    }
    return turning.is_exact()


@pytest.mark.soak
@pytest.mark.parametrize("turns", [1, in_soak(3)])
def test_turns_at_rest(turning: Turning, clusters: list[LocalCluster], turns: int) -> None:
    first = turning.now.flow
    _compact(first, turning.topic)
    _write(first, turning.topic, 60, 1)
    turning.copy()
    # The leader epochs of one side are no longer those of the other.
    turning.restarted(clusters[1], first.target.alias)
    _write(first, turning.topic, 40, 2)
    turning.copy()
    held = read(first.source, turning.topic)
    assert not held[EMPTY]
    assert held[COMPACTED][-1].offset > len(held[COMPACTED]), "the cleaner has left holes"
    written = {p: [s.value for s in some] for p, some in held.items()}
    offsets = _compare(turning)
    for number in range(turns):
        turning.turn()
        offsets += _compare(turning)
        flow = turning.now.flow
        cuts = flow.offsets(flow.source, turning.topic)
        new = _write(flow, turning.topic, 30 + number, 10 + number)
        offsets += turning.is_exact()
        report = turning.copy()
        assert (report.records, report.looped) == (new, {}), "only what is new crosses"
        offsets += _compare(turning)
        there = read(flow.target, turning.topic)
        for p, some in read(flow.source, turning.topic).items():
            written[p] += [s.value for s in some if s.offset >= cuts[p]]
            assert [s.value for s in there[p]] == written[p], f"partition {p}: lost or doubled"
        assert not flow.events("source_diverged")
        assert not flow.events("foreign_writer")
    assert offsets > 1_600 * turns


@pytest.mark.wide
@pytest.mark.parametrize("turns", [1, in_soak(3)])
def test_killed_after_the_seed_and_again_and_again(turning: Turning, turns: int) -> None:
    """The seeds are written again after each kill: before the first append, and after some."""
    chance = random.Random(5)
    _write(turning.now.flow, turning.topic, 60, 1)
    turning.copy()
    for number in range(turns):
        seeds = turning.turn()
        flow = turning.now.flow
        task = flow.start(lease=turning.now.lease(turning.other, once=False))
        assert task.kill_after(chance.uniform(0.0, 2.0)), "there is nothing to copy yet"
        turning.write(seeds)
        assert _compare(turning)
        _write(flow, turning.topic, 30, 10 + number)
        for _ in range(2):
            task = flow.start(lease=turning.now.lease(turning.other, once=False))
            assert task.kill_after(chance.uniform(0.0, 2.0))
            turning.write(seeds)
        assert not turning.copy().looped
        assert _compare(turning)


@pytest.mark.soak
def test_a_target_that_is_restarted_between_the_seed_and_the_first_append(
    turning: Turning, clusters: list[LocalCluster]
) -> None:
    """Its leaders have other epochs, and have never heard of the flow's new id."""
    _write(turning.now.flow, turning.topic, 60, 1)
    turning.copy()
    turning.turn()
    flow = turning.now.flow
    turning.restarted(clusters[0], flow.target.alias)
    new = _write(flow, turning.topic, 30, 10)
    report = turning.copy()
    assert (report.records, report.looped) == (new, {}), "only what is new crosses"
    assert _compare(turning)
