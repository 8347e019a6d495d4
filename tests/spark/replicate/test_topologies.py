"""Several flows in one process between three clusters: each topology that drkit promises."""

from __future__ import annotations

from collections.abc import Iterator
import threading
import uuid

import pytest

from drkit.config import ClusterSettings, Settings
from drkit.errors import DrkitError, Refused
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, topic_names
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ClusterSpec
from drkit.replicate.run import RunOptions, RunResult, replicate
from drkit.topic_sync.preview import check, dry_run
from tests.support.errors import coded
from tests.support.flows.compare import read
from tests.support.flows.produce import producer, put
from tests.support.waiting import eventually

RECORDS = 40


@pytest.fixture(scope="module")
def third() -> Iterator[LocalCluster]:
    cluster = LocalCluster(ClusterSpec("third"))
    cluster.start()
    yield cluster
    cluster.stop()


class Triangle:
    """Clusters A, B and C under aliases of this test's own, and the flows between them."""

    def __init__(self, clusters: dict[str, LocalCluster]) -> None:
        self.tag = uuid.uuid4().hex[:6]
        self.sides = {
            name: ClusterSettings(alias=f"{name}{self.tag}", bootstrap_servers=cluster.bootstrap())
            for name, cluster in clusters.items()
        }
        self.clusters = {name: Cluster.connect(side) for name, side in self.sides.items()}
        self.answer: RunResult | None = None
        self.failure: list[DrkitError] = []

    def settings(self, *ways: str, **more: object) -> Settings:
        """`AB` is the flow A→B, with prefixed names unless told otherwise."""
        flows = [
            {
                "source": self.sides[way[0]].alias,
                "target": self.sides[way[1]].alias,
                "topics": [rf"(.+\.)?{self.tag}-.*"],
                "naming": "prefix",
                "tasks": 1,
                "buckets": 2,
                "epoch_seconds": 10.0,
                "refresh_topics_interval_seconds": 0.5,
                "emit_heartbeats": False,
                "heartbeats_replication": False,
                **more,
            }
            for way in ways
        ]
        sides = {s.alias: {"bootstrap_servers": s.bootstrap_servers} for s in self.sides.values()}
        settings = Settings.model_validate({"clusters": sides, "flows": flows})
        assert not settings.disagreements()
        return settings

    def name(self, topic: str, *hops: str) -> str:
        return "".join(f"{self.sides[hop].alias}." for hop in hops) + f"{self.tag}-{topic}"

    def write(self, side: str, topic: str) -> None:
        full = self.name(topic)
        assert not create_topics(self.clusters[side], [TopicPlan(full, 2, 1)])
        eventually(lambda: full in topic_names(self.clusters[side]), what=full)
        out = producer(self.sides[side])
        for i in range(RECORDS):
            put(out, full, f"{side} {topic} {i}".encode(), partition=i % 2)
        assert out.flush(30) == 0

    def test_topics(self, side: str) -> set[str]:
        return {n for n in topic_names(self.clusters[side]) if f"{self.tag}-" in n}

    def holds(self, side: str, full: str, written_on: str, topic: str) -> None:
        """Every record once, none besides."""
        expected = sorted(f"{written_on} {topic} {i}".encode() for i in range(RECORDS))

        def there() -> list[bytes]:
            if full not in topic_names(self.clusters[side]):
                return []
            return sorted(s.value or b"" for seen in read(self.sides[side], full).values() for s in seen)

        eventually(lambda: self.failure or len(there()) >= RECORDS, 150, f"{full} on {side}")
        assert not self.failure
        assert there() == expected

    def run(self, settings: Settings, stop: threading.Event) -> threading.Thread:
        def go() -> None:
            try:
                self.answer = replicate(settings, settings.flows, RunOptions(), stop)
            except DrkitError as error:
                self.failure.append(error)

        thread = threading.Thread(target=go, daemon=True)
        thread.start()
        return thread


@pytest.fixture
def triangle(source: LocalCluster, target: LocalCluster, third: LocalCluster) -> Triangle:
    return Triangle({"A": source, "B": target, "C": third})


@pytest.mark.wide
def test_active_active_fan_out_fan_in_and_a_pipe_in_one_process(triangle: Triangle):
    """P1, P6, P8, P17: many flows in one process, no record circles, and new topics are found."""
    stop = threading.Event()
    triangle.write("A", "orders")
    triangle.write("B", "orders")
    thread = triangle.run(triangle.settings("AB", "BA", "AC", "BC"), stop)
    try:
        # Active/active: each side has its own and the other's.
        triangle.holds("B", triangle.name("orders", "A"), "A", "orders")
        triangle.holds("A", triangle.name("orders", "B"), "B", "orders")
        # Fan-in: C has both, apart.
        triangle.holds("C", triangle.name("orders", "A"), "A", "orders")
        triangle.holds("C", triangle.name("orders", "B"), "B", "orders")
        # Pipe: what came to B from A continues to C with both hops in its name.
        triangle.holds("C", triangle.name("orders", "B", "A"), "A", "orders")
        triangle.holds("C", triangle.name("orders", "A", "B"), "B", "orders")
        # One that is made now takes all the ways too; by then every flow has looked again and again.
        triangle.write("A", "late")
        triangle.holds("C", triangle.name("late", "B", "A"), "A", "late")
    finally:
        stop.set()
        thread.join(30)
    own = {triangle.name("orders"), triangle.name("late")}
    assert triangle.test_topics("A") == own | {triangle.name("orders", "B")}
    assert triangle.test_topics("B") == {
        triangle.name("orders"),
        triangle.name("orders", "A"),
        triangle.name("late", "A"),
    }
    ways = [
        ("orders", "A"),
        ("orders", "B"),
        ("orders", "BA"),
        ("orders", "AB"),
        ("late", "A"),
        ("late", "BA"),
    ]
    assert triangle.test_topics("C") == {triangle.name(topic, *hops) for topic, hops in ways}
    assert triangle.answer is not None
    assert triangle.answer.exit_code == 0
    assert [f["left_out"] for f in triangle.answer.flows] == [{}, {}, {}, {}]


@pytest.mark.wide
def test_two_flows_whose_expressions_meet_in_a_real_topic(triangle: Triangle):
    """P7: two flows that would copy the same topic twice are refused before anything is created."""
    triangle.write("A", "items")
    triangle.write("B", "items")
    settings = triangle.settings("AC", "BC", naming="identity", topics=[rf"{triangle.tag}-it[aeiou]m(s)"])
    with pytest.raises(Refused, check=coded("topic_claimed_twice")) as refused:
        check(settings, settings.flows)
    assert triangle.name("items") in str(refused.value)
    assert triangle.sides["A"].alias in refused.value.evidence
    assert triangle.sides["B"].alias in refused.value.evidence
    assert refused.value.exit_code == 3
    assert not triangle.test_topics("C")


@pytest.mark.wide
def test_one_cluster_under_two_aliases(triangle: Triangle):
    """P9: the same cluster as source and target is refused, by its id."""
    triangle.sides["B"] = ClusterSettings(
        alias=triangle.sides["B"].alias, bootstrap_servers=triangle.sides["A"].bootstrap_servers
    )
    settings = triangle.settings("AB")
    with pytest.raises(Refused, check=coded("clusters_identical")) as refused:
        dry_run(settings, settings.flows)
    assert triangle.clusters["A"].cluster_id in refused.value.evidence
