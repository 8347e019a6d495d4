"""A consumer that follows the endpoint file, on real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
import threading
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
import pytest

from drkit.client import FailoverConsumer, FromAnotherCluster, Switch, WrongCluster
from drkit.errors import ConfigError
from tests.support.circles import in_soak
from tests.support.client.world import SHIFT, World
from tests.support.errors import coded
from tests.support.shared_clusters import ClusterFactory

CONFIG = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}


@contextmanager
def consumer(world: World, config: dict[str, Any] | None = None, **more: Any) -> Iterator[FailoverConsumer]:
    """One that is closed in the background: a frozen cluster would hold up the test."""
    made = FailoverConsumer(
        {**CONFIG, "group.id": world.group, **(config or {})}, endpoint=world.path, **more
    )
    try:
        yield made
    finally:
        threading.Thread(target=made.close, daemon=True).start()


def take(reader: FailoverConsumer, count: int, seconds: float = 30.0) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        message = reader.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message)
    return found


def values(messages: list[Message]) -> list[str]:
    return [(m.value() or b"").decode() for m in messages]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_it_continues_where_the_group_is(world: World, protocol: str):
    world.fill(20)
    world.place_group(8)
    told: list[Any] = []
    revoked: list[Any] = []
    with consumer(world, {"group.protocol": protocol}, on_switch=told.append) as reader:
        reader.subscribe([world.topic], on_revoke=lambda c, p: revoked.append((c, p, len(told))))
        first = take(reader, 8)
        reader.commit(first[-1], asynchronous=False)
        assert world.committed(world.primary) == 8 + SHIFT
        there = world.lead_to(world.standby, reader)
        rest = take(reader, 12)
        assert values(first + rest) == [f"v{i}" for i in range(20)]
        assert [m.offset() for m in rest] == list(range(8, 20))
        assert reader.endpoint == there
        reader.commit(asynchronous=False)
        [(who, partitions, switches_then)] = revoked
        assert who is reader
        assert [p.partition for p in partitions] == [0]
        assert switches_then == 0, "work is finished before the cluster is left"
    assert world.committed(world.standby) == 20
    [switch] = told
    assert isinstance(switch, Switch)
    assert (switch.old.cluster, switch.new) == ("primary", there)


def test_no_earlier_position_is_committed_there(world: World):
    world.fill(20)
    world.place_group(3)
    with consumer(world) as reader:
        reader.subscribe([world.topic])
        old = take(reader, 10)
        world.lead_to(world.standby, reader)
        new = take(reader, 2)
        for foreign in (old[9], old[0]):
            with pytest.raises(FromAnotherCluster, match="standby"):
                reader.commit(foreign)
        with pytest.raises(FromAnotherCluster):
            reader.commit(offsets=[TopicPartition(world.topic, 0, 12)])
        with pytest.raises(FromAnotherCluster):
            reader.store_offsets(old[9])
        assert world.committed(world.standby) == 3
        reader.commit(new[0], asynchronous=False)
        assert world.committed(world.standby) == 4


def test_work_is_finished_and_committed_where_it_was_read(world: World):
    world.fill(6)
    world.place_group(0)
    with consumer(world) as reader:
        done: list[Message] = []

        def finish(_reader: FailoverConsumer, _partitions: list[TopicPartition]) -> None:
            if reader.endpoint.cluster == "primary":
                reader.commit(done[-1], asynchronous=False)

        reader.subscribe([world.topic], on_revoke=finish)
        done += take(reader, 4)
        world.lead_to(world.standby, reader)
        assert values(take(reader, 6)) == [f"v{i}" for i in range(6)]
    assert world.committed(world.primary) == 4 + SHIFT


def test_batches(world: World):
    world.fill(20)
    world.place_group(5)
    with consumer(world) as reader:
        reader.subscribe([world.topic])
        first = reader.consume(5, 20)
        world.lead_to(world.standby, reader)
        rest: list[Message] = []
        while len(rest) < 15:
            rest += reader.consume(5, 20)
        assert values(first + rest) == [f"v{i}" for i in range(20)]
        assert reader.consume(5, 0.3) == []


def test_topics_that_are_called_otherwise_there(world: World):
    world.fill(5)
    renamed = f"primary.{world.topic}"
    world.create(renamed)
    world.send(world.standby, [f"w{i}" for i in range(4)], renamed)
    world.place_group(1, renamed)
    with consumer(world) as reader:
        reader.subscribe([world.topic])
        take(reader, 5)
        world.lead_to(world.standby, reader, topics={world.topic: renamed})
        found = take(reader, 3)
        assert values(found) == ["w1", "w2", "w3"]
        assert found[0].topic() == renamed


def test_assigned_partitions_continue_at_the_groups_position_or_report_that_it_is_missing(world: World):
    world.fill(9)
    with consumer(world) as reader:
        reader.assign([TopicPartition(world.topic, 0, SHIFT + 2)])
        assert values(take(reader, 1)) == ["v2"]
        world.lead_to(world.standby, reader)
        message = reader.poll(20)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._AUTO_OFFSET_RESET
    world.place_group(3)
    world.lead_to(world.primary)
    with consumer(world) as reader:
        reader.assign([TopicPartition(world.topic, 0, SHIFT + 2)])
        assert values(take(reader, 1)) == ["v2"]
        world.lead_to(world.standby, reader)
        assert values(take(reader, 1)) == ["v3"]


def test_a_name_that_leads_elsewhere_is_not_followed(world: World):
    world.fill(3)
    world.place_group(0)
    with consumer(world) as reader:
        reader.subscribe([world.topic])
        take(reader, 3)
        world.lead_to(world.standby, reader, cluster_id="another")
        with pytest.raises(WrongCluster, match="brokers show"):
            reader.poll(20)
        with pytest.raises(WrongCluster):
            reader.consume(1, 20)
        world.lead_to(world.standby, reader)
        assert values(take(reader, 3)) == ["v0", "v1", "v2"]


def test_what_is_no_newer_endpoint_changes_nothing(world: World):
    world.fill(6)
    with consumer(world) as reader:
        reader.subscribe([world.topic])
        found = take(reader, 1)
        before = reader.endpoint
        older = replace(world.endpoint(world.standby), term=0)
        for text in (older.to_json(), "{", "", before.to_json()):
            world.path.write_text(text)
            found += take(reader, 1)
        world.path.unlink()
        found += take(reader, 1)
        assert reader.endpoint == before
        assert values(found) == [f"v{i}" for i in range(6)]


def test_without_an_endpoint_it_does_not_begin(world: World):
    world.path.write_text("{}")
    with pytest.raises(ConfigError, check=coded("no_endpoint")) as refused:
        FailoverConsumer({"group.id": "g"}, endpoint=world.path)
    assert "drkit repoint apply" in refused.value.hint


@pytest.mark.parametrize("protocol", [in_soak("classic"), "consumer"])
def test_a_frozen_cluster_is_left_at_once(
    cluster_factory: ClusterFactory, world: World, protocol: str, capfd: pytest.CaptureFixture[str]
):
    """Also a commit in `on_revoke` ends, and the old client closes without ending this process."""
    world.primary = cluster_factory("frozen")
    world.lead_to(world.primary)
    world.fill(12)
    world.place_group(4)
    ended: list[BaseException] = []
    with consumer(world, {"group.protocol": protocol}) as reader:

        def finish(_reader: FailoverConsumer, _partitions: list[TopicPartition]) -> None:
            try:
                reader.commit(asynchronous=False)
            except KafkaException as error:
                ended.append(error)

        reader.subscribe([world.topic], on_revoke=finish)
        take(reader, 4)
        world.primary.freeze()
        world.lead_to(world.standby, reader)
        found = take(reader, 8, 15)  # while it is frozen still
        assert values(found) == [f"v{i}" for i in range(4, 12)]
        assert ended[0].args[0].code() == KafkaError._TIMED_OUT
        world.primary.resume()
        reader.commit(asynchronous=False)
        assert world.committed(world.standby) == 12
    assert "terminate" not in capfd.readouterr().err


def test_what_an_application_raises_at_a_switch_does_not_hold_it_up(world: World):
    """`on_revoke` is called once and its error is raised, as that of `on_switch`; then reading continues."""
    world.fill(6)
    world.place_group(4)
    revoked: list[threading.Thread] = []

    def finish(_reader: FailoverConsumer, _partitions: list[TopicPartition]) -> None:
        revoked.append(threading.current_thread())
        if len(revoked) == 1:
            raise ValueError("the work cannot be finished")

    def switched(_switch: Switch) -> None:
        raise ValueError("nothing to tell")

    reader = FailoverConsumer({**CONFIG, "group.id": world.group}, endpoint=world.path, on_switch=switched)
    reader.subscribe([world.topic], on_revoke=finish)
    take(reader, 2)
    world.lead_to(world.standby, reader)
    with pytest.raises(ValueError, match="cannot be finished"):
        reader.poll(20)
    with pytest.raises(ValueError, match="nothing to tell"):
        reader.poll(20)
    assert values(take(reader, 2)) == ["v4", "v5"]
    reader.close()
    assert revoked == [threading.current_thread()] * 2, "at the switch and at the end"
