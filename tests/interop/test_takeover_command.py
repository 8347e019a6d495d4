"""As a user does it: MirrorMaker 2 stops, drkit continues with --takeover-from-mm2, `drkit verify` looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
import uuid

import pytest

from drkit.config import FlowSettings, load
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, topic_names
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.takeover import mm2_takeover
from tests.support.flows.compare import Seen, read
from tests.support.flows.produce import fill, fill_transactions, producer
from tests.support.mm2.mirror_maker import mirror_maker
from tests.support.spark.here import drkit_here
from tests.support.waiting import eventually

PROPERTIES: Final = """\
clusters = A{tag}, B{tag}
A{tag}.bootstrap.servers = {source}
B{tag}.bootstrap.servers = {target}
A{tag}->B{tag}.enabled = true
A{tag}->B{tag}.topics = {tag}-.*
B{tag}->A{tag}.enabled = false
B{tag}->A{tag}.emit.heartbeats.enabled = false
replication.factor = 1
refresh.topics.interval.seconds = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
B{tag}.offset.storage.replication.factor = 1
B{tag}.config.storage.replication.factor = 1
B{tag}.status.storage.replication.factor = 1
B{tag}.offset.flush.interval.ms = 1000
B{tag}.plugin.discovery = service_load
"""
LONG: Final = 12_000
"""More than the takeover compares: what lies before its last 10,000 offsets no map knows."""
REPEATED: Final = 50
MORE: Final = 300


class Mm2World:
    """Two clusters, the file of a MirrorMaker 2 between them, and topics that it copies."""

    def __init__(self, source: LocalCluster, target: LocalCluster, folder: Path) -> None:
        self.tag = uuid.uuid4().hex[:8]
        self.file = folder / "mm2.properties"
        addresses = {"source": source.bootstrap(), "target": target.bootstrap()}
        self.file.write_text(PROPERTIES.format(tag=self.tag, **addresses))
        self.settings = load(self.file)
        self.flow: FlowSettings = self.settings.flows[0]
        self.source, self.target = (Cluster.connect(c) for c in self.settings.sides(self.flow))
        self.orders, self.mixed = f"{self.tag}-orders", f"{self.tag}-mixed"
        assert not create_topics(self.source, [TopicPlan(n, 1, 1) for n in (self.orders, self.mixed)])
        eventually(lambda: {self.orders, self.mixed} <= set(topic_names(self.source)), what="topics")
        fill(self.source.settings, self.orders, LONG)
        self.aborted = fill_transactions(self.source.settings, [self.mixed], 400, seed=3, most=40)

    def copy_of(self, topic: str) -> str:
        return f"A{self.tag}.{topic}"

    def copied_by_mm2(self) -> None:
        """Let it copy everything there is and store its offsets, then stop it."""
        at = [TopicPartition(t, 0) for t in (self.orders, self.mixed)]
        last = {p: self.last(p.topic) for p in at}

        def stored() -> bool:
            mm2.check()
            found = mm2_takeover.stored_offsets(self.target, self.flow) or {}
            return all(found.get(p) == offset for p, offset in last.items())

        with mirror_maker(self.file) as mm2:
            eventually(stored, 90, "the offsets of MirrorMaker 2")

    def last(self, topic: str) -> int:
        """The offset of the last record that is visible without regard to transactions."""
        return read(self.source.settings, topic, isolation="read_uncommitted")[0][-1].offset

    def repeat(self, records: list[Seen]) -> None:
        """Append records to the copy again, as a worker does that goes back to the offsets it has stored."""
        out = producer(self.target.settings)
        for r in records:
            headers: dict[str, Any] = {"headers": list(r.headers)} if r.headers else {}
            out.produce(self.copy_of(self.orders), r.value, r.key, 0, timestamp=r.timestamp, **headers)
        assert out.flush(30) == 0

    def drkit(self, *words: str) -> tuple[int, Any, str]:
        done = drkit_here("--json", *words, "--config", str(self.file))
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr


@pytest.fixture
def world(source: LocalCluster, target: LocalCluster, tmp_path: Path) -> Mm2World:
    return Mm2World(source, target, tmp_path)


@pytest.mark.wide
def test_the_file_of_mm2_the_flag_and_a_verification(world: Mm2World):
    """P21: replicate and verify with MirrorMaker 2's own file, after what it copied."""
    world.copied_by_mm2()
    theirs = read(world.source.settings, world.orders)[0]
    world.repeat(theirs[-REPEATED:])
    fill(world.source.settings, world.orders, MORE)

    code, answer, talk = world.drkit("replicate", "--once", "--takeover-from-mm2")
    assert code == 0, talk
    (flow,) = answer["flows"]
    assert (flow["records"], flow["left_out"]) == (MORE, {}), talk
    # Records, not offsets: a task that must try again fences its own first try with a marker.
    assert len(read(world.target.settings, world.copy_of(world.orders))[0]) == LONG + REPEATED + MORE

    code, answer, talk = world.drkit("verify")
    assert (code, answer["verdict"], answer["differences"]) == (0, "equal", []), talk
    rows = {row["topic"]: row for row in answer["taken_over_from_mirror_maker_2"]}
    orders, mixed = rows[world.orders], rows[world.mixed]
    # Only the last run of MirrorMaker 2 can be taken over by offset; before it, content is compared.
    assert orders["offsets_compared_by_place"] == REPEATED
    assert orders["offsets_compared_by_content"] == LONG
    assert (orders["equal"], orders["repeated"]) == (LONG - REPEATED, REPEATED)
    assert (orders["missing"], orders["extra"]) == (0, 0)
    assert answer["equal"] == LONG + MORE + len(read(world.target.settings, world.copy_of(world.mixed))[0])
    assert answer["repeated"] == REPEATED
    assert world.aborted > 0
    # Read as MirrorMaker 2 read it, with what was aborted, all of it is found again.
    assert mixed["offsets_compared_by_content"] == 0
    assert [n for n in answer["notes"] if world.mixed in n and "aborted" in n]
