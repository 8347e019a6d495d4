"""Groups keep their names, topics do not: under the prefix policy each former name leads to its copy."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import Message, Producer
import pytest

from drkit.client import FailoverConsumer
from drkit.errors import Failed
from drkit.failover.core.request import RunRequest
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.errors import coded, sentence
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.waiting import eventually


def take(reader: FailoverConsumer, number: int) -> list[Message]:
    found: list[Message] = []

    def enough() -> bool:
        found.extend(reader.consume(number - len(found), 0.1))
        return len(found) >= number

    eventually(enough, 30, "records")
    assert [m.error() for m in found] == [None] * number
    return found


def prepare(world: World, topics: dict[str, str]) -> None:
    """A topic for each group, which has read 40 offsets of it; all of it copied."""
    for group, topic in topics.items():
        world.create(world.source, topic, 1, {"retention.ms": "-1"})
        fill(world.source, topic, 50)
        world.commit(world.source, group, {TopicPartition(topic, 0): 40})
    world.replicate()
    world.copied([*topics.values()], dict.fromkeys(topics))


@pytest.mark.wide
def test_each_former_name_leads_to_its_copy_also_after_the_next_failover(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster, tmp_path: Path
):
    """Two failovers of one group each, both groups follow one endpoint file; a way that fails is named."""
    world, file = world_factory(source, target, naming="prefix"), tmp_path / "endpoint.json"
    orders, later = world.name("orders"), world.name("later")
    shop, late = world.name("shop"), world.name("late")
    copies = {t: f"{world.source.alias}.{t}" for t in (orders, later)}
    world.failover_fields |= {"rpo_seconds": 1000.0, "repoint": [{"kind": "file", "path": str(file)}]}
    prepare(world, {shop: orders, late: later})

    with world.desk() as desk:
        report = desk.begin([shop], RunRequest(repoint_others=True))
    assert (report["state"], report["topics"]) == ("done", {orders: copies[orders]})
    assert f"topic {orders} is called {copies[orders]} on {world.target.alias}" in json.dumps(report)
    assert list(world.committed(world.target, shop)) == [TopicPartition(copies[orders], 0)]
    theirs = [s.value for s in world.records(world.source, orders)[0] if s.offset >= 40]
    config = {"group.id": shop, "enable.auto.commit": False, "log_level": 0}
    with FailoverConsumer(config, endpoint=file) as reader:
        reader.subscribe([orders])
        found = take(reader, len(theirs))
        assert {m.topic() for m in found} == {copies[orders]}
        assert [m.value() for m in found] == theirs

        ways = world.failover_fields["repoint"]
        world.failover_fields["repoint"] = [*ways, {"kind": "command", "command": ["/no/such/program"]}]
        with world.desk() as desk, pytest.raises(Failed, check=coded("repoint_failed")) as caught:
            desk.begin([late], RunRequest())
        assert "1 of 2" in str(caught.value)
        assert caught.value.where == "command /no/such/program"
        assert f"{sentence('program_not_started')} (No such file or directory)" in caught.value.evidence
        assert json.loads(file.read_text())["topics"] == copies, "the other adapter has the endpoint"
        out = Producer({"bootstrap.servers": world.target.bootstrap_servers, "log_level": 0})
        out.produce(copies[orders], b"new", partition=0)
        assert out.flush(20) == 0
        new = take(reader, 1)
        while new[-1].value() != b"new":  # what was read without a commit comes once more
            new += take(reader, 1)
        assert reader.endpoint.term == 2
        assert [m.value() for m in new if m.value() not in theirs] == [b"new"]
    assert list(world.committed(world.target, late)) == [TopicPartition(copies[later], 0)]
