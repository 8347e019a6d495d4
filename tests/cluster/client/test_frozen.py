"""A primary that is suspended while calls wait for it."""

from __future__ import annotations

from functools import partial
import threading
from typing import Any

from confluent_kafka import Consumer, TopicPartition
import pytest

from drkit.client import EndpointMoved, FailoverConsumer, FailoverProducer, TransactionCut
from drkit.client.consumer import AT_ONCE
from drkit.client.shared import Shared
from tests.support.client.calls import InThreads
from tests.support.client.world import World, quiet
from tests.support.shared_clusters import ClusterFactory
from tests.support.waiting import wait_until

OPEN = ("send_offsets", "flush", "abort", "list_topics")
"""Calls in an open transaction."""


def transactional(world: World, name: str) -> FailoverProducer:
    out = FailoverProducer({"log_level": 0, "transactional.id": f"{world.topic}-{name}"}, endpoint=world.path)
    if name in OPEN:
        out.init_transactions(30)
        out.begin_transaction()
        out.produce(world.topic, f"{name} before", partition=0)
        assert out.flush(30) == 0
    return out


def consumer(world: World, group: str, **more: str) -> FailoverConsumer:
    config = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    given = {name.replace("_", "."): value for name, value in more.items()}
    return FailoverConsumer({**config, **given}, endpoint=world.path)


def member(world: World) -> Shared:
    """A consumer that has joined its group; requests of a terminating one wait for its session's timeout."""
    config = quiet(world.primary, group_id=f"{world.group}-3", auto_offset_reset="earliest")
    found = Shared(Consumer({**config, "session.timeout.ms": 6000}))
    found.subscribe([world.topic])
    wait_until(lambda: found.poll(1) is not None)
    return found


@pytest.mark.wide
def test_no_call_waits_for_a_frozen_cluster_that_clients_have_left(
    cluster_factory: ClusterFactory, world: World
):
    world.primary = cluster_factory("frozen")
    world.lead_to(world.primary)
    world.fill(12)
    world.place_group(4)
    reader = consumer(world, world.group, group_protocol="consumer", group_instance_id="a")
    static, left = consumer(world, f"{world.group}-1", group_instance_id="a"), member(world)
    closing = consumer(world, f"{world.group}-2")
    where: list[threading.Thread] = []
    reader.subscribe([world.topic])
    static.subscribe([world.topic])
    closing.subscribe([world.topic], on_revoke=lambda _c, _p: where.append(threading.current_thread()))
    wait_until(lambda: reader.poll(1) is not None)
    wait_until(lambda: static.poll(1) is not None)
    wait_until(lambda: closing.poll(1) is not None)
    out = {name: transactional(world, name) for name in (*OPEN, "init")}
    at = [TopicPartition(world.topic, 0, 9)]
    metadata = reader.consumer_group_metadata()
    world.primary.freeze()
    calls = InThreads()
    left.commit(offsets=at)
    calls.start("leave", partial(left.leave, list))
    calls.start("commit", partial(reader.commit, offsets=at, asynchronous=False))
    calls.start("commit of a static member", partial(static.commit, offsets=at, asynchronous=False))
    calls.start("committed", partial(reader.committed, at))
    out["flush"].produce(world.topic, "flush after")
    calls.start("send_offsets", partial(out["send_offsets"].send_offsets_to_transaction, at, metadata))
    calls.start("flush", out["flush"].flush)
    calls.start("abort", out["abort"].abort_transaction)
    calls.start("list_topics", out["list_topics"].list_topics)
    calls.start("init", out["init"].init_transactions)
    calls.start("close", closing.close)
    answers_by_itself(reader, world.topic)
    world.lead_to(world.standby)
    assert calls.all_end() == {
        "commit": EndpointMoved,
        "commit of a static member": EndpointMoved,
        "committed": EndpointMoved,
        "send_offsets": TransactionCut,
        "flush": TransactionCut,
        "list_topics": TransactionCut,
        "abort": None,
        "init": None,
        "close": None,
        "leave": None,
    }
    assert [thread.name for thread in where] == ["close"], "on_revoke runs in the thread that closes"
    goes_on(world, {"v4": reader, "v0": static}, out)


def answers_by_itself(reader: FailoverConsumer, topic: str) -> None:
    """What librdkafka answers needs no broker, also in the midst of reading."""
    calls, at = InThreads(), TopicPartition(topic, 0, 9)
    given: dict[str, list[Any]] = {
        "position": [[at]],
        "pause": [[at]],
        "resume": [[at]],
        "seek": [at],
        "set_sasl_credentials": ["me", "secret"],
    }
    for name in AT_ONCE:
        calls.start(name, partial(getattr(reader, name), *given.get(name, [])))
    calls.all_end(15)
    assert not calls.errors


def goes_on(world: World, readers: dict[str, FailoverConsumer], out: dict[str, FailoverProducer]) -> None:
    """All clients work on the standby while the primary is frozen still."""
    for first, reader in readers.items():
        message = reader.poll(30)
        assert message is not None
        assert message.value() == first.encode()
    for name, one in out.items():
        if name in OPEN and name != "abort":
            one.abort_transaction(30)
        one.begin_transaction()
        one.produce(world.topic, f"{name} there", partition=0)
        one.commit_transaction(30)
        one.close()
    found = world.values(world.standby, isolation_level="read_committed")[12:]
    assert found == [f"{name} there" for name in out]
    assert world.committed(world.standby) == 4
    world.primary.resume()
    for reader in readers.values():
        reader.close()
