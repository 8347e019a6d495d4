"""Clients that follow the endpoint file, while the cluster that it names is away for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
import time

from confluent_kafka import Message
import pytest

from drkit.client import FailoverConsumer, FailoverProducer, WrongCluster
from drkit.local.link import Link
from tests.support.client.sending import Reports, names, send
from tests.support.client.world import World
from tests.support.waiting import wait_until

PAUSES = 14
IMPATIENT = {
    "socket.timeout.ms": 2000,
    "topic.metadata.refresh.interval.ms": 1000,
    "reconnect.backoff.max.ms": 500,
    "log_level": 0,
}


@contextmanager
def clients(world: World) -> Iterator[tuple[FailoverProducer, FailoverConsumer]]:
    group = {"group.id": world.group, "auto.offset.reset": "earliest"}
    with (
        FailoverProducer(
            {**IMPATIENT, "message.timeout.ms": 5000, "retries": 0, "linger.ms": 2}, endpoint=world.path
        ) as out,
        FailoverConsumer({**IMPATIENT, **group}, endpoint=world.path) as reader,
    ):
        reader.subscribe([world.topic])
        yield out, reader


def is_value(message: Message | None, value: str) -> bool:
    return message is not None and message.value() == value.encode()


def repeat(poll: Callable[[float], object]) -> None:
    for _ in range(600):
        poll(0.1)


@pytest.mark.wide
def test_clients_survive_answers_without_brokers(world: World):
    """A cluster that was frozen for longer than its session may name no broker at all for a moment."""
    world.create()
    told, sent, chance = Reports(), 0, Random(3)
    with clients(world) as (out, reader):

        def work(seconds: float) -> None:
            nonlocal sent
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                send(out, world, told, names(sent, 1))
                sent += 1
                out.poll(0.1)

        for _ in range(PAUSES):
            work(chance.uniform(0.2, 1.5))
            world.primary.freeze()
            try:
                work(chance.uniform(1.5, 7))
            finally:
                world.primary.resume()
        out.flush(60)
        before = len(told.done)
        found = set[str]()

        def is_acknowledged() -> bool:
            work(1)
            return len(told.done) > before

        wait_until(is_acknowledged, 60)

        def has_come() -> bool:
            found.update((m.value() or b"").decode() for m in reader.consume(500, 1.0) if m.error() is None)
            return told.done[-1] in found

        wait_until(has_come, 60)


@contextmanager
def moving_name(world: World) -> Iterator[Link]:
    """A link to the primary; the endpoint file has its address."""
    link = Link("a name")
    host, _, port = world.primary.bootstrap().partition(":")
    own = link.add_route(host, int(port))
    try:
        world.lead_to(world.primary, bootstrap_servers=f"127.0.0.1:{own}")
        yield link
    finally:
        link.close()
        world.primary.resume()


def lead_away(world: World, link: Link) -> None:
    """The primary is frozen, and its name leads to the standby."""
    host, _, port = world.standby.bootstrap().partition(":")
    [own] = link._routes
    link._routes[own] = host, int(port)
    world.primary.freeze()
    link.cut()
    link.restore()


def test_a_name_that_moves_stops_its_clients(world: World):
    world.create()
    told = Reports()
    with moving_name(world) as link, clients(world) as (out, reader):
        send(out, world, told, names(0, 3))
        assert out.flush(30) == 0
        lead_away(world, link)
        with pytest.raises(WrongCluster, match="brokers show"):
            repeat(out.poll)
        with pytest.raises(WrongCluster):
            send(out, world, told, names(3, 1))
        with pytest.raises(WrongCluster):
            repeat(reader.poll)
        world.lead_to(world.standby, out)
        world.lead_to(world.standby, reader)
        send(out, world, told, names(4, 1))
        assert out.flush(30) == 0
        wait_until(lambda: is_value(reader.poll(1), "v4"), 60)
    assert world.values(world.standby) == names(4, 1)
