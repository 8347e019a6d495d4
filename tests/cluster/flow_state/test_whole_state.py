"""What a read of the state must contain: all that was acknowledged before it began, whatever hides it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
import threading
import time
import uuid

from confluent_kafka import KafkaException, Producer
import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import Failed
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.records import Role, RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.reading import signed_log
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.flows.produce import producer, put
from tests.support.waiting import eventually

PROMOTED = RoleRecord(Role.PROMOTED, 1, "run", 1)


@pytest.fixture
def settings(target: LocalCluster) -> ClusterSettings:
    return ClusterSettings(alias="b", bootstrap_servers=target.bootstrap())


@pytest.fixture
def flow(settings: ClusterSettings) -> FlowSettings:
    found = FlowSettings(source=f"a{uuid.uuid4().hex[:8]}", target="b", buckets=1)
    ensure_state_topic(Cluster.connect(settings), found)
    return found


@pytest.fixture
def renewal(settings: ClusterSettings, flow: FlowSettings) -> Iterator[Producer]:
    """A transaction that is open on the state, as a holder leaves it that is halted while it renews."""
    out = producer(settings, transactional_id=uuid.uuid4().hex)
    out.init_transactions(30)
    out.begin_transaction()
    with StateTopic(settings, flow.source) as state:
        put(out, state.name, b"{}", b"later/kind")
        out.flush(30)
        state.put(PROMOTED, "orders")
    yield out
    with suppress(KafkaException):  # the test has ended it
        out.abort_transaction(30)


def test_an_open_transaction_hides_its_own_records_only_and_they_are_waited_for(
    settings: ClusterSettings, flow: FlowSettings, renewal: Producer
) -> None:
    """Without the role a topic that is promoted would look like one that may be copied to."""
    with StateTopic(settings, flow.source) as state:
        assert not state.load_decided()
        assert state.get(RoleRecord, "orders") == PROMOTED
        ends = threading.Timer(1.0, renewal.abort_transaction, [30])
        ends.start()
        state.load()
        ends.join()
        assert state.get(RoleRecord, "orders") == PROMOTED
        assert state.load_decided()


def test_who_waits_does_not_hold_up_who_can_end_the_transaction(
    settings: ClusterSettings, flow: FlowSettings, renewal: Producer
) -> None:
    """The thread that renews the lease reads the same state before it aborts what its producer left open."""
    with StateTopic(settings, flow.source) as state, ThreadPoolExecutor(2) as pool:
        state.load_decided()
        waits = pool.submit(state.load)
        eventually(waits.running, seconds=10, what="a read")
        looks = pool.submit(state.load_decided)
        try:
            assert not looks.result(5), "it is hidden, and known at once"
            assert not waits.done()
        finally:
            renewal.abort_transaction(30)
        waits.result(30)
        assert state.get(RoleRecord, "orders") == PROMOTED


def test_a_transaction_that_stays_open_is_named(
    settings: ClusterSettings, flow: FlowSettings, renewal: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed_log, "_OPEN_SECONDS", 0.5)
    with StateTopic(settings, flow.source) as state:
        began = time.monotonic()
        with pytest.raises(Failed, check=coded("own_topic_hidden")) as hidden:
            state.load()
        assert time.monotonic() - began < 15
        assert "open transaction" in hidden.value.evidence
        assert "hanging transactions on b" in hidden.value.hint
    assert renewal is not None
