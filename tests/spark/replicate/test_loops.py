"""Two flows with the same topic names in both directions: every record once on each side, for ever."""

from __future__ import annotations

from collections.abc import Iterator
import threading
import uuid

import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.flow_state.producer_ids import on_record
from drkit.flow_state.records import ReturnRecord, Role, RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, list_offsets, topic_names
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.replicate.job import FlowJob
from drkit.replicate.supervisor import supervise
from drkit.spark.session import SharedSpark, spark_session
from tests.support.errors import sentence
from tests.support.flows.compare import read
from tests.support.flows.flow import DAY_MS
from tests.support.flows.produce import now_ms, producer, put
from tests.support.waiting import eventually

PARTITIONS = 2
HOUR_EPOCHS = round(3600 / FlowSettings(source="a", target="b").epoch_seconds)
"""Epochs of an hour with the default settings: each distributes the work again."""
TURNS = 12
"""With 300 records each: one for every second of an hour."""


@pytest.fixture(scope="module")
def workshop() -> Iterator[SharedSpark]:
    """One Spark session with room for two flows."""
    with spark_session("drkit loops", 2) as made:
        yield made


class Direction:
    """One of the two flows, started and stopped at will."""

    def __init__(
        self, clusters: tuple[ClusterSettings, ClusterSettings], topics: str, workshop: SharedSpark
    ) -> None:
        self._clusters = clusters
        self._workshop = workshop
        self._flow = FlowSettings(
            source=clusters[0].alias,
            target=clusters[1].alias,
            topics=(topics,),
            opposite_flows=(clusters[1].alias,),
            buckets=2,
            tasks=1,
            epoch_seconds=1.5,
            refresh_topics_interval_seconds=0.5,
        )
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.job: FlowJob | None = None
        self.failure: list[BaseException] = []
        self._epochs_before = 0

    def set(self, **settings: float) -> None:
        """Change settings of the next life."""
        self._flow = self._flow.model_copy(update=settings)

    def start(self) -> None:
        self._stop = threading.Event()
        self.job = FlowJob(self._clusters, self._flow, self._workshop, uuid.uuid4().hex[:8])
        self._thread = threading.Thread(target=self._run, args=(self.job, self._stop), daemon=True)
        self._thread.start()

    def _run(self, job: FlowJob, stop: threading.Event) -> None:
        try:
            # As `drkit replicate` has it: an attempt that dies is logged, with its evidence, and begun again.
            supervise(self._flow.name, lambda: job.run(stop), stop)
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self.failure.append(error)

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(30)
            assert not self._thread.is_alive()
        self._epochs_before, self.job = self.epochs, None

    @property
    def epochs(self) -> int:
        """Of all its lives."""
        now = self.job.progress.totals.epochs if self.job is not None and self.job.progress else 0
        return self._epochs_before + now


class Pair:
    """Two clusters, a topic on both, and a flow in each direction."""

    def __init__(self, a: LocalCluster, b: LocalCluster, workshop: SharedSpark) -> None:
        tag = uuid.uuid4().hex[:8]
        self.sides = tuple(
            ClusterSettings(alias=f"{name}{tag}", bootstrap_servers=cluster.bootstrap())
            for name, cluster in (("a", a), ("b", b))
        )
        self.clusters = tuple(Cluster.connect(s) for s in self.sides)
        self.topic = f"{tag}-orders"
        assert not create_topics(self.clusters[0], [TopicPlan(self.topic, PARTITIONS, 1)])
        self.forward = Direction((self.sides[0], self.sides[1]), f"{tag}-.*", workshop)
        self.backward = Direction((self.sides[1], self.sides[0]), f"{tag}-.*", workshop)
        self.written: set[bytes] = set()

    def write(self, side: int, fresh: int, old: int) -> None:
        """Produce new records, and some of two days ago, which travel in transactions."""
        out = producer(self.sides[side])
        for i in range(fresh + old):
            value = b"%d-%s" % (i, uuid.uuid4().hex.encode())
            age_ms = 2 * DAY_MS if i >= fresh else 0
            put(out, self.topic, value, partition=i % PARTITIONS, timestamp=now_ms() - age_ms)
            self.written.add(value)
        assert out.flush(30) == 0

    def values(self, side: int) -> list[bytes]:
        if self.topic not in topic_names(self.clusters[side]):
            return []
        return [s.value or b"" for seen in read(self.sides[side], self.topic).values() for s in seen]

    def both_hold_all_once(self) -> None:
        for side in (0, 1):
            self._arrives(side)
            assert sorted(self.values(side)) == sorted(self.written), f"side {side}"

    def _arrives(self, side: int) -> None:
        wanted = len(self.written)
        eventually(
            lambda: self._broken() or len(self.values(side)) >= wanted,
            seconds=120,
            what=f"{wanted} records on side {side}",
        )
        assert not self._broken()

    def _broken(self) -> list[str]:
        failures = (*self.forward.failure, *self.backward.failure)
        return [f.in_short if isinstance(f, DrkitError) else repr(f) for f in failures]

    def ends(self) -> list[dict[TopicPartition, int]]:
        at = [TopicPartition(self.topic, p) for p in range(PARTITIONS)]
        return [list_offsets(c, at, "latest") for c in self.clusters]

    def after_epochs(self, count: int) -> None:
        wanted = [d.epochs + count for d in (self.forward, self.backward)]
        eventually(
            lambda: (
                self._broken() or (self.forward.epochs >= wanted[0] and self.backward.epochs >= wanted[1])
            ),
            seconds=60 + 15 * count,
            what=f"{count} more epochs in both directions",
        )
        assert not self._broken()


@pytest.fixture
def pair(source: LocalCluster, target: LocalCluster, workshop: SharedSpark) -> Iterator[Pair]:
    made = Pair(source, target, workshop)
    yield made
    made.forward.stop()
    made.backward.stop()


@pytest.mark.wide
def test_both_directions_with_the_same_names_never_circle(pair: Pair):
    """P6, P8: active/active with the same names; each record once on each side."""
    pair.forward.start()
    pair.write(0, 200, 200)
    eventually(lambda: len(pair.values(1)) == 400, what="the first copies")
    pair.write(1, 150, 150)
    pair.backward.start()
    pair.both_hold_all_once()

    for turn in range(3):
        pair.write(turn % 2, 40, 20)
        pair.write((turn + 1) % 2, 20, 40)
        pair.both_hold_all_once()

    pair.backward.stop()
    pair.write(0, 60, 60)
    pair.write(1, 60, 60)
    pair.backward.start()
    pair.both_hold_all_once()

    ends = pair.ends()
    pair.after_epochs(4)
    assert pair.ends() == ends
    pair.both_hold_all_once()
    # What was left out is counted, under the producers of the flow that wrote it.
    job = pair.forward.job
    assert job is not None
    assert job.progress is not None
    with StateTopic(pair.sides[0], pair.sides[1].alias) as theirs:
        theirs.load()
        assert job.progress.totals.looped.keys() <= set(on_record(theirs.records))
    assert sum(job.progress.totals.looped.values()) >= 150


@pytest.mark.wide
def test_a_running_flow_stops_at_a_promotion_and_begins_with_its_return(pair: Pair):
    """Neither waits until topics are looked at again."""
    pair.forward.start()
    pair.write(0, 40, 0)
    pair.both_hold_all_once()
    pair.forward.stop()
    pair.backward.set(refresh_topics_interval_seconds=3600.0)
    pair.backward.start()
    pair.write(1, 40, 0)
    pair.both_hold_all_once()
    job = pair.backward.job
    assert job is not None

    promoted = RoleRecord(Role.PROMOTED, 1, "over", 1, planned=True)
    with StateTopic(pair.sides[1], pair.sides[0].alias) as theirs:
        theirs.load()
        theirs.put(promoted, pair.topic)
    eventually(lambda: pair.topic in job.found.left_out, 20, "the end of copying")
    assert sentence("promoted_by_switchover", run_id="over") in job.found.left_out[pair.topic]
    loop = job.cut
    assert loop is not None
    eventually(lambda: not (job.leases() or loop.has_tasks), 20, "the end of the tasks")
    pair.write(1, 40, 20)

    with StateTopic(pair.sides[0], pair.sides[1].alias) as own:
        own.load()
        own.put(ReturnRecord("over", "back", 2), pair.topic)
    eventually(lambda: not job.found.left_out, 20, "the return to be heard of")
    pair.both_hold_all_once()


@pytest.mark.soak
def test_both_directions_for_as_much_as_an_hour_brings(pair: Pair):
    """P8: an hour's epochs and records both ways with six restarts, then an hour's epochs in silence."""
    pair.backward.start()
    pair.forward.start()
    for turn in range(TURNS):
        if turn % 2:
            restarted = (pair.forward, pair.backward)[turn // 2 % 2]
            restarted.stop()
            pair.write(turn % 2, 60, 40)
            restarted.start()
            pair.write((turn + 1) % 2, 100, 100)
        else:
            pair.write(turn % 2, 200, 100)
        pair.both_hold_all_once()
        ends = pair.ends()
        pair.after_epochs(1)
        assert pair.ends() == ends
    assert len(pair.written) == TURNS * 300
    assert min(pair.forward.epochs, pair.backward.epochs) >= HOUR_EPOCHS

    ends = pair.ends()
    pair.after_epochs(HOUR_EPOCHS)
    assert pair.ends() == ends
    pair.both_hold_all_once()
