"""One failover whose primary was killed under load, with everything that is needed to judge it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
import signal
import threading
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConsumerPartition

from drkit.detect.noticeboard import put_note
from drkit.detect.seen import Sight
from drkit.detect.votes import Vote
from drkit.failover.core.request import RunRequest
from drkit.journal.entries import RunLog
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.failover.truth import Acked, Load
from tests.support.failover.world import World
from tests.support.flows.compare import Seen
from tests.support.flows.produce import fill_transactions, now_ms
from tests.support.waiting import eventually

PARTITIONS = 3
BEFORE = 800
Records = dict[str, dict[int, list[Seen]]]
"""Topic → partition → its records."""
FailOver = Callable[[World, RunRequest], dict[str, Any]]
"""Fails over all that the flow copies; returns the report."""


class Worker:
    """A member of a group on the primary: it reads and commits until its cluster is gone."""

    def __init__(self, world: World, group: str, topic: str) -> None:
        self.group, self.read = group, 0
        self.acknowledged: dict[TopicPartition, int] = {}
        """Commits that its cluster has confirmed."""
        self._consumer = world.consumer(world.source, group)
        self._consumer.subscribe([topic])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Its cluster may be dead: the last commit, and closing, would wait for it.
        self._stop.set()

    def _run(self) -> None:
        with suppress(KafkaException):  # a commit that its cluster did not live to take
            while not self._stop.is_set():
                messages = [m for m in self._consumer.consume(200, 0.1) if m.error() is None]
                if messages:
                    for at in self._consumer.commit(asynchronous=False) or ():
                        self.acknowledged[TopicPartition(at.topic, at.partition)] = at.offset
                    self.read += len(messages)
        self._consumer.close()


@dataclass
class Story:
    """What happened."""

    world: World
    topics: tuple[str, str]
    """One with groups, one without."""
    groups: dict[str, dict[TopicPartition, int]]
    """Groups at rest, and their committed offsets on the primary."""
    live: str
    """A group that worked until the end."""
    report: dict[str, Any]
    run: RunLog
    acked: dict[str, list[Acked]]
    theirs: Records
    """The old primary, when it was back."""
    ours: Records
    committed: dict[str, dict[TopicPartition, int]]
    """What the target keeps of every group."""
    live_at: dict[TopicPartition, int]
    """Where the live group stood on the primary when it died."""

    @property
    def lost(self) -> set[tuple[str, int, int]]:
        """The truth: topic, partition and offset of every record that the new primary has not."""
        out = set()
        for topic in self.topics:
            for p, records in self.theirs[topic].items():
                there = {s.value for s in self.ours[topic][p]}
                out |= {(topic, p, s.offset) for s in records if s.value not in there}
        return out

    def polled(self, group: str) -> dict[int, list[bytes]]:
        """The records that a consumer of the group gets on the new primary, from its position to the end."""
        consumer = self.world.consumer(self.world.target, group, enable_partition_eof="true")
        consumer.assign([ConsumerPartition(self.topics[0], p) for p in range(PARTITIONS)])
        out: dict[int, list[bytes]] = {p: [] for p in range(PARTITIONS)}
        ended: set[int] = set()

        def at_the_end() -> bool:
            for message in consumer.consume(5000, 0.1):
                error, p = message.error(), message.partition()
                assert p is not None
                if error is None:
                    out[p].append(message.value() or b"")
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(p)
            return len(ended) == PARTITIONS

        try:
            eventually(at_the_end, 30, f"the end for {group}")
        finally:
            consumer.close()
        return out


def _groups(world: World, topic: str) -> dict[str, dict[TopicPartition, int]]:
    """Groups at different lags: at the start, far back, near the end, and one with one partition only."""
    ends = world.offsets(world.source, topic)
    groups = {
        world.name("start"): dict.fromkeys(ends, 0),
        world.name("behind"): {p: e // 3 for p, e in ends.items()},
        world.name("near"): {p: max(0, e - 2) for p, e in ends.items()},
        world.name("one"): {0: ends[0] // 2},
    }
    return {g: {TopicPartition(topic, p): o for p, o in at.items()} for g, at in groups.items()}


def all_at_once(world: World, request: RunRequest) -> dict[str, Any]:
    """One command fails over everything; its report."""
    with world.desk() as desk:
        return desk.begin((), request)


def told_story(world: World, primary: LocalCluster, fail_over: FailOver = all_at_once) -> Story:
    """Kill the primary under load and fail over; then start it again to see what it had."""
    topics = topic, _ = world.name("orders"), world.name("quiet")
    for name in topics:
        world.create(world.source, name, PARTITIONS, {"retention.ms": "-1"})
    fill_transactions(world.source, [topic], 40, most=7)  # offsets differ, and some are aborted
    world.replicate()
    live = world.name("live")
    with Load(world.source, topics, per_second=500) as load, Worker(world, live, topic) as worker:
        eventually(lambda: load.count > BEFORE, what="load")
        groups = _groups(world, topic)
        for group, offsets in groups.items():
            world.commit(world.source, group, offsets)
        eventually(lambda: worker.read > BEFORE / 4, what="a group at work")
        eventually(lambda: all(map(world._synced, (*groups, live))), 90, "the groups' checkpoints")
        world.protected(topics)
        # What comes now is not copied: something has to be lost. The replicator itself lives on.
        replicator = world._replicator
        assert replicator is not None
        replicator.send_signal(signal.SIGSTOP)
        before = load.count
        # Some that were copied are reported only now.
        eventually(lambda: load.count > before + 2 * BEFORE, what="more load")
        primary.kill()
        replicator.send_signal(signal.SIGCONT)
        vote = Vote("o1", "r", 1, now_ms(), Sight.GONE, ("nothing listens",))
        put_note(Cluster.connect(world.target), world.settings.flows[0], Vote.key("o1"), vote.to_json())
        report = fail_over(world, RunRequest())
    ours = {t: world.records(world.target, t) for t in topics}
    committed = {
        g: {at: c.offset for at, c in world.committed(world.target, g).items()} for g in (*groups, live)
    }
    primary.restart()
    eventually(lambda: world.offsets(world.source, topic), what="the primary's return")
    return Story(
        world, topics, groups, live, report, world.run_log(), load.acked,
        {t: world.records(world.source, t) for t in topics}, ours, committed,
        _places(world, worker),
    )  # fmt: skip


def _places(world: World, worker: Worker) -> dict[TopicPartition, int]:
    """The group's committed offsets on the primary that is back.

    A coordinator that has just started answers with commits of some seconds ago: its high watermark is the
    one that was on disk, until a follower fetches.
    """
    found: dict[TopicPartition, int] = {}

    def is_whole() -> bool:
        found.update({at: c.offset for at, c in world.committed(world.source, worker.group).items()})
        return all(found.get(at, -1) >= offset for at, offset in worker.acknowledged.items())

    eventually(is_whole, what="the commits that the primary had confirmed")
    return found
