"""MirrorMaker 2 copies, is killed under load, and drkit continues: no record missing, none twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import subprocess
import threading
import uuid

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
import pytest

from drkit.config import Settings, load
from drkit.errors import Refused
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, topic_names
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.replicate.job import FlowJob
from drkit.spark.session import SharedSpark, spark_session
from drkit.takeover import mm2_takeover
from drkit.verify import snapshot as verify_snapshot
from drkit.verify.ranges import cut
from drkit.verify.task import compare_range
from tests.support.errors import coded
from tests.support.flows.compare import read, same_records
from tests.support.flows.produce import Load, fill, fill_transactions, producer, put
from tests.support.mm2.mirror_maker import java_words
from tests.support.stored import stored
from tests.support.waiting import eventually

PROPERTIES = """\
clusters = {a}, {b}
{a}.bootstrap.servers = {source}
{b}.bootstrap.servers = {target}
{a}->{b}.enabled = true
{a}->{b}.topics = {tag}-.*
{b}->{a}.enabled = false
{b}->{a}.emit.heartbeats.enabled = false
tasks.max = 2
refresh.topics.interval.seconds = 5
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
# settings of the worker are those of its target cluster
{b}.offset.flush.interval.ms = 2000
{b}.session.timeout.ms = 6000
{b}.plugin.discovery = service_load
"""


class MirrorMaker:
    """The real one, and the file by which it and drkit copy."""

    def __init__(self, source: LocalCluster, target: LocalCluster, folder: Path) -> None:
        self.tag = uuid.uuid4().hex[:8]
        self.file = folder / "mm2.properties"
        self.file.write_text(
            PROPERTIES.format(
                a=f"a{self.tag}",
                b=f"b{self.tag}",
                source=source.bootstrap(),
                target=target.bootstrap(),
                tag=self.tag,
            )
        )
        self._log = folder / "mm2.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.settings: Settings = load(self.file)
        self.clusters = (self.settings.cluster(f"a{self.tag}"), self.settings.cluster(f"b{self.tag}"))
        self.source, self.target = (Cluster.connect(c) for c in self.clusters)
        self.flow = self.settings.flows[0].model_copy(update={"takeover_from_mm2": True, "buckets": 4})

    def start(self) -> None:
        command = [*java_words(), str(self.file)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.file.parent)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def topic(self, name: str, partitions: int = 1) -> str:
        full = f"{self.tag}-{name}"
        assert not create_topics(self.source, [TopicPlan(full, partitions, 1)])
        eventually(lambda: full in topic_names(self.source), what=full)
        return full

    def copy_of(self, topic: str) -> str:
        return f"a{self.tag}.{topic}"

    def copied(self, topic: str) -> int:
        return sum(self.ends(topic))

    def ends(self, topic: str) -> list[int]:
        """How far it got in each partition."""
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-3000:]
        if self.copy_of(topic) not in topic_names(self.target):
            return [0]
        consumer = Consumer({"bootstrap.servers": self.clusters[1].bootstrap_servers, "group.id": "count"})
        try:
            found = consumer.list_topics(self.copy_of(topic), timeout=30).topics[self.copy_of(topic)]
            return [self._end(consumer, topic, p) for p in found.partitions]
        finally:
            consumer.close()

    def _end(self, consumer: Consumer, topic: str, partition: int) -> int:
        return int(consumer.get_watermark_offsets(Place(self.copy_of(topic), partition), timeout=30)[1])

    def stored(self) -> set[str]:
        return {at.topic for at in mm2_takeover.stored_offsets(self.target, self.flow) or {}}

    def job(self, workshop: SharedSpark, *, leaving_out: str = "drkit-.*") -> FlowJob:
        flow = self.flow.model_copy(update={"topics_exclude": (leaving_out,)})
        return FlowJob(self.clusters, flow, workshop, uuid.uuid4().hex[:8], once=True)

    def equal(self, topic: str, isolation: str = "read_committed") -> None:
        theirs = read(self.clusters[0], topic, isolation=isolation)
        ours = read(self.clusters[1], self.copy_of(topic))
        for partition, records in theirs.items():
            same_records(records, ours[partition], f"{topic}-{partition}")


@pytest.fixture(scope="module")
def workshop() -> Iterator[SharedSpark]:
    """One Spark session."""
    with spark_session("drkit takeover", 2) as made:
        yield made


@pytest.fixture
def mm2(source: LocalCluster, target: LocalCluster, tmp_path: Path) -> Iterator[MirrorMaker]:
    made = MirrorMaker(source, target, tmp_path)
    yield made
    made.kill()


@pytest.mark.wide
def test_drkit_continues_where_a_killed_mirror_maker_stopped(
    mm2: MirrorMaker, workshop: SharedSpark, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mm2_takeover, "CONTEXT", 50)  # so that a short log has a part that is not compared
    orders, quiet, mixed = mm2.topic("orders", 3), mm2.topic("quiet"), mm2.topic("mixed")
    empty, spoiled = mm2.topic("empty", 2), mm2.topic("spoiled")
    for topic in (quiet, spoiled):
        fill(mm2.clusters[0], topic, 300)
    fill_transactions(mm2.clusters[0], [mixed], 400, most=50)
    mm2.start()
    with Load(mm2.clusters[0], [orders], per_second=1000, transactions=False):
        eventually(lambda: mm2.stored() >= {orders, quiet, mixed, spoiled}, what="stored offsets")
        eventually(lambda: min(mm2.ends(orders)) > 200, what="copies in every partition")
        before = mm2.copied(orders)
        eventually(lambda: mm2.copied(orders) > before + 500, what="more copies")
        with pytest.raises(Refused, check=coded("mm2_running")):
            mm2_takeover.refuse_living(mm2.target, mm2.flow, lambda _: False, patience_seconds=0)
        mm2.kill()
    out = producer(mm2.clusters[1])
    put(out, mm2.copy_of(spoiled), b"not from the source")
    assert out.flush(30) == 0

    stop = threading.Event()
    with pytest.raises(Refused, check=coded("takeover_refused")) as refused:
        mm2.job(workshop).run(stop)
    assert mm2.copy_of(spoiled) in refused.value.evidence
    assert "takeover_from_mm2" in refused.value.hint
    mm2.job(workshop, leaving_out=spoiled).run(stop)
    for topic in (orders, quiet, empty):
        mm2.equal(topic)
    mm2.equal(mixed, "read_uncommitted")  # MM2's default
    places = _places(mm2, orders)
    assert sum(p["found_behind"] for p in places.values()) > 0, "it was killed before it stored them"

    fill(mm2.clusters[0], orders, 100)
    again = mm2.job(workshop, leaving_out=spoiled)
    again.run(stop)
    mm2.equal(orders)
    assert again.progress is not None
    assert again.progress.totals.records == 100
    assert _places(mm2, orders) == places
    _the_map_is_exact_from_the_takeover_on(mm2, orders)


def _the_map_is_exact_from_the_takeover_on(mm2: MirrorMaker, topic: str) -> None:
    found = verify_snapshot.take(mm2.flow, mm2.source, mm2.target, [topic])
    theirs, ours = read(mm2.clusters[0], topic), read(mm2.clusters[1], mm2.copy_of(topic))
    assert all(v.before and v.taken_over for v in found.views), "what MM2 copied before is compared apart"
    compared = [compare_range(r, *mm2.clusters) for r in cut(found.views, 2)]
    assert sum(r.counts.equal for r in compared) == sum(map(len, theirs.values()))
    assert not [f for r in compared for f in r.findings]
    for view in found.views:
        number = view.source.partition
        at = {s.offset: s.content for s in theirs[number]}
        there = {s.offset: s.content for s in ours[number]}
        assert view.begin is not None
        assert view.frontier == view.source_end
        known = [
            (s.upstream + i, s.downstream + i) for s in view.segments for i in range(s.records)
        ]  # every pair that the map states
        assert known[0] == view.begin
        assert [down for _, down in known] == [o for o in there if o >= view.begin[1]]
        assert all(at[up] == there[down] for up, down in known)


def _places(mm2: MirrorMaker, topic: str) -> dict[str, dict[str, int]]:
    with StateTopic(mm2.clusters[1], mm2.flow.source) as state:
        state.load()
        found: dict[str, dict[str, int]] = stored(state)[f"takeover/{topic}"]["partitions"]
    return found


@pytest.mark.wide
def test_progress_is_read_whatever_the_order_of_its_keys():
    at = TopicPartition("orders", 3)
    for place in (
        '{"cluster":"A","partition":3,"topic":"orders"}',
        '{"topic":"orders","partition":3,"cluster":"A"}',
    ):
        key = f'["MirrorSourceConnector",{place}]'.encode()
        assert mm2_takeover.parse(key, b'{"offset":41}') == ("A", at, 41)
        assert mm2_takeover.parse(key, None) == ("A", at, None)
    others = (None, b"", b"[]", b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A"}]', b"\xff")
    for other in others:
        assert mm2_takeover.parse(other, b'{"offset":41}') is None
