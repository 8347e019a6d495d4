"""A producer that follows the endpoint file, on real brokers: it reports the outcome of each record once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
import threading
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
import pytest

from drkit.client import FailoverProducer, Switch, TransactionCut, WrongCluster
from drkit.local.cluster import LocalCluster
from tests.support.circles import in_soak
from tests.support.client.sending import Reports, names, send
from tests.support.client.world import World, quiet
from tests.support.shared_clusters import ClusterFactory
from tests.support.waiting import wait_until


@contextmanager
def producer(world: World, config: dict[str, Any] | None = None, **more: Any) -> Iterator[FailoverProducer]:
    made = FailoverProducer({"log_level": 0, "linger.ms": 0, **(config or {})}, endpoint=world.path, **more)
    try:
        yield made
    finally:
        made.close(0)


def fence(cluster: LocalCluster, topic: str, value: str | None) -> None:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry("max.message.bytes", value, incremental_operation=operation)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient(quiet(cluster))
    admin.incremental_alter_configs([resource])[resource].result(30)

    def known() -> bool:
        """The controller has answered; whether the broker goes by it, it says itself."""
        found = admin.describe_configs([resource])[resource].result(30)["max.message.bytes"]
        return bool(found.is_default if value is None else found.value == value)

    wait_until(known)


def test_it_goes_where_the_file_leads(world: World):
    world.create()
    told, switches = Reports(), list[Switch]()
    with producer(world, on_switch=switches.append) as out:
        send(out, world, told, names(0, 5))
        assert out.flush(20) == 0
        there = world.lead_to(world.standby, out)
        send(out, world, told, names(5, 5))
        assert out.flush(20) == 0
        assert out.endpoint == there
    assert world.values(world.primary) == names(0, 5)
    assert world.values(world.standby) == names(5, 5)
    assert told.done == names(0, 10)
    assert [(s.old.cluster, s.new.cluster) for s in switches] == [("primary", "standby")]


@pytest.mark.parametrize("idempotent", [False, True])
def test_what_a_fence_refuses_waits_and_goes_to_the_new_cluster_in_order(world: World, *, idempotent: bool):
    world.create()
    told, switches = Reports(), list[Switch]()
    with producer(world, {"enable.idempotence": idempotent}, on_switch=switches.append) as out:
        send(out, world, told, names(0, 3))
        assert out.flush(20) == 0
        fence(world.primary, world.topic, "0")
        send(out, world, told, names(3, 20))
        assert out.flush(2.5) == 20, "refused, tried again, refused again"
        send(out, world, told, names(23, 5))
        assert out.held == len(out) == 25
        assert told.done == names(0, 3)
        world.lead_to(world.standby, out)
        assert out.flush(20) == 0
    assert told.done == names(0, 28)
    assert not told.failed
    assert world.values(world.primary) == names(0, 3)
    assert world.values(world.standby) == names(3, 25)
    assert [(s.resent, s.uncertain) for s in switches] == [(25, 0)]


@pytest.mark.wide
def test_more_is_held_than_the_client_takes_at_once(world: World):
    """librdkafka's queue is full in the middle: what comes after that waits too."""
    world.create()
    told = Reports()
    with producer(world, {"queue.buffering.max.kbytes": 1}) as out:
        fence(world.primary, world.topic, "0")
        send(out, world, told, names(0, 1))
        wait_until(lambda: out.poll(0.1) == 0 and out.held == 1)
        send(out, world, told, names(1, 400))
        world.lead_to(world.standby, out)
        assert out.flush(30) == 0
    assert told.done == names(0, 401)
    assert world.values(world.standby) == names(0, 401)


@pytest.mark.wide
def test_a_fence_that_is_lifted_again(world: World):
    """An aborted failover: all records are on the old cluster, in order."""
    world.create()
    told = Reports()
    with producer(world) as out:
        fence(world.primary, world.topic, "0")
        send(out, world, told, names(0, 10))
        out.flush(0.5)
        fence(world.primary, world.topic, None)
        send(out, world, told, names(10, 10))
        assert out.flush(20) == 0
    assert told.done == names(0, 20) == world.values(world.primary)
    assert world.values(world.standby) == []


def test_what_is_held_too_long_is_reported(world: World):
    world.create()
    told = Reports()
    with producer(world, hold_seconds=1.0) as out:
        fence(world.primary, world.topic, "0")
        send(out, world, told, names(0, 5))
        assert out.flush(20) == 0
    assert sorted(told.failed) == [(name, KafkaError.MSG_SIZE_TOO_LARGE) for name in names(0, 5)]
    assert not told.done


def test_a_record_that_is_simply_too_large_is_no_fence(world: World):
    world.create(**{"max.message.bytes": "70000"})
    told = Reports()
    with producer(world) as out:
        out.produce(world.topic, bytes(80_000), partition=0, on_delivery=told.of("large"))
        send(out, world, told, ["small"])
        assert out.flush(20) == 0
    assert told.failed == [("large", KafkaError.MSG_SIZE_TOO_LARGE)]
    assert told.done == ["small"]


@pytest.mark.wide
@pytest.mark.parametrize("choice", ["resend", in_soak("fail")])
def test_records_on_their_way_to_a_frozen_cluster(cluster_factory: ClusterFactory, world: World, choice: str):
    """Sent again or reported, never neither; nothing more goes to the old cluster when it wakes."""
    world.primary = cluster_factory("frozen")
    world.lead_to(world.primary)
    world.create()
    told, switches = Reports(), list[Switch]()
    with producer(world, {"max.in.flight": 1}, unacknowledged=choice, on_switch=switches.append) as out:
        send(out, world, told, names(0, 5))
        assert out.flush(20) == 0
        world.primary.freeze()
        send(out, world, told, names(5, 1))
        out.poll(0.5)  # on its way now
        send(out, world, told, names(6, 20))
        world.lead_to(world.standby, out)
        began = time.monotonic()
        send(out, world, told, names(26, 4))
        assert out.flush(20) == 0
        assert time.monotonic() - began < 4
        world.primary.resume()
    assert Counter(told.done + [n for n, _ in told.failed]) == Counter(names(0, 30)), "one report each"
    [switch] = switches
    lost = [] if choice == "resend" else names(5, 21)
    assert [n for n, _ in told.failed] == lost
    assert world.values(world.standby) == [n for n in names(5, 25) if n not in lost]
    after = world.values(world.primary)
    assert after[:5] == names(0, 5)
    assert set(after[5:]) <= {"v5"}
    if choice == "resend":
        assert switch.resent == 21
        assert len(after) - 5 <= switch.uncertain <= 2
    else:
        assert {code for _, code in told.failed} <= {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}


def test_nothing_is_sent_to_a_cluster_that_is_another(world: World):
    world.create()
    told = Reports()
    with producer(world) as out:
        world.lead_to(world.standby, out, cluster_id="another")
        with pytest.raises(WrongCluster):
            send(out, world, told, names(0, 1))
        with pytest.raises(WrongCluster):
            out.poll(5)
        world.lead_to(world.standby, out)
        send(out, world, told, names(1, 2))
        assert out.flush(20) == 0
    assert world.values(world.standby) == told.done == names(1, 2)


def test_too_many_are_refused_as_by_librdkafka(world: World):
    world.create()
    with producer(world, {"queue.buffering.max.messages": 10}) as out:
        fence(world.primary, world.topic, "0")
        with pytest.raises(BufferError, match="Queue full"):
            send(out, world, Reports(), names(0, 12))


@pytest.mark.parametrize("when", ["open", "ending"])
def test_a_transaction_is_cut_and_begun_again(world: World, when: str):
    world.create()
    told = Reports()
    with producer(world, {"transactional.id": world.topic}) as out:
        out.init_transactions(20)
        out.begin_transaction()
        send(out, world, told, names(0, 3))
        out.commit_transaction(20)
        out.begin_transaction()
        send(out, world, told, names(3, 3))
        if when == "ending":
            out.flush(20)
        world.lead_to(world.standby, out)
        with pytest.raises(TransactionCut) as cut:
            send(out, world, told, ["more"]) if when == "open" else out.commit_transaction(20)
        assert cut.value.args[0].txn_requires_abort()
        assert not cut.value.unknown
        with pytest.raises(TransactionCut):
            send(out, world, told, ["no"])
        out.abort_transaction(20)
        assert out.endpoint.cluster == "standby"
        out.begin_transaction()
        send(out, world, told, names(3, 3))
        out.commit_transaction(20)
    assert world.values(world.primary, isolation_level="read_committed") == names(0, 3)
    assert world.values(world.standby, isolation_level="read_committed") == names(3, 3)


def ended(before: set[threading.Thread]) -> None:
    """Wait for what began since then in the background, such as the end of an old client."""
    wait_until(lambda: not set(threading.enumerate()) - before)


@pytest.mark.parametrize("how", [in_soak("committing"), "fenced"])
def test_a_client_left_in_a_transaction_that_cannot_be_aborted_ends_silently(
    cluster_factory: ClusterFactory, world: World, recwarn: pytest.WarningsRecorder, how: str
):
    """Its commit waits for a suspended cluster, or a failover has ended its transaction."""
    if how == "committing":
        world.primary = cluster_factory("frozen")
        world.lead_to(world.primary)
    world.create()
    with producer(world, {"transactional.id": world.topic}) as out:
        out.init_transactions(20)
        out.begin_transaction()
        send(out, world, Reports(), names(0, 3))
        assert out.flush(20) == 0
        before = set(threading.enumerate())
        if how == "committing":
            world.primary.freeze()
            threading.Timer(0.7, world.lead_to, (world.standby,)).start()
            with pytest.raises(TransactionCut) as cut:
                out.commit_transaction(20)
            assert cut.value.unknown
        else:
            Producer(quiet(world.primary, transactional_id=world.topic)).init_transactions(20)
            world.lead_to(world.standby, out)
            with pytest.raises(TransactionCut):
                send(out, world, Reports(), ["more"])
        out.abort_transaction(20)
        assert out.endpoint.cluster == "standby"
        ended(before)
        out.begin_transaction()
        send(out, world, Reports(), names(0, 3))
        out.commit_transaction(20)
    ended(before)
    assert [str(w.message) for w in recwarn] == []
    assert world.values(world.standby, isolation_level="read_committed") == names(0, 3)


def test_between_transactions_it_simply_goes(world: World):
    world.create()
    told = Reports()
    with producer(world, {"transactional.id": world.topic}) as out:
        out.init_transactions(20)
        world.lead_to(world.standby, out)
        out.begin_transaction()
        send(out, world, told, names(0, 2))
        out.commit_transaction(20)
    assert world.values(world.standby, isolation_level="read_committed") == names(0, 2) == told.done


def test_errors_of_the_callers_are_the_callers(world: World):
    world.create()
    with producer(world) as out:
        with pytest.raises(TypeError):
            out.produce(world.topic, object())
        with pytest.raises(KafkaException):
            out.begin_transaction()
        assert len(out) == 0
