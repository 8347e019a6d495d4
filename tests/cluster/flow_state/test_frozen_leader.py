"""A broker that was frozen takes itself for the leader for a moment: what its successor took is not there."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
import threading
import time
import uuid

import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.names import journal_topic, state_topic
from drkit.flow_state.records import Role, RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import EntryKind, JournalEntry
from drkit.journal.topic import JournalTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.reading import log_tail, signed_log
from drkit.kafka.topics import ALL_KEPT, describe_topics, ensure_own_topic
from drkit.local.cluster import LocalCluster
from tests.support.shared_clusters import own_cluster
from tests.support.waiting import eventually

READERS = 24
LOOKS = 5
NEW_READERS = 12
JOURNALS = 8
LATE_SECONDS = 9.0
"""Less than the clients' library waits for one broker to let it in."""
PROMOTED = RoleRecord(Role.PROMOTED, 1, "run", 1)


@pytest.fixture(scope="module")
def three() -> Iterator[LocalCluster]:
    with own_cluster("three", brokers=3) as made:
        yield made


@pytest.fixture
def settings(three: LocalCluster) -> ClusterSettings:
    return ClusterSettings(alias="b", bootstrap_servers=three.bootstrap())


@pytest.fixture
def flow(settings: ClusterSettings) -> FlowSettings:
    found = FlowSettings(source=f"a{uuid.uuid4().hex[:8]}", target="b", buckets=1)
    ensure_state_topic(Cluster.connect(settings), found)
    return found


@pytest.mark.wide
def test_a_read_after_an_acknowledgement_has_the_record(
    three: LocalCluster, settings: ClusterSettings, flow: FlowSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readers ask while the old leader is frozen; it wakes and finds their requests in its sockets."""
    readers = [StateTopic(settings, flow.source) for _ in range(READERS)]
    for state in readers:
        state.put(RoleRecord(Role.FROZEN, 1, "run", 1), "orders")
        state.load()
    leader = three.broker(_leader(settings, state_topic(flow.source)))
    monkeypatch.setattr(signed_log, "_WRITE_SECONDS", 3.0)
    leader.freeze()
    try:
        eventually(lambda: _is_written(settings, flow), seconds=60, what="a write to another leader")
        with ThreadPoolExecutor(READERS) as pool:
            threading.Timer(0.5, leader.resume).start()
            seen = list(pool.map(_role_after_load, readers))
    finally:
        leader.resume()
        for state in readers:
            state.close()
    assert seen == [PROMOTED] * READERS


@pytest.mark.wide
def test_a_journal_that_is_read_again_has_what_a_successor_took(
    three: LocalCluster, settings: ClusterSettings
) -> None:
    """A run that was suspended together with the journal's leader asks whether it still holds the lock."""
    source = f"a{uuid.uuid4().hex[:8]}"
    name = journal_topic(source)
    ensure_own_topic(Cluster.connect(settings), name, ALL_KEPT)
    with ExitStack() as stack:
        append_entry(stack.enter_context(journal_in(settings, source)), EntryKind.RUN, "first")
        suspended = [stack.enter_context(journal_in(settings, source)) for _ in range(JOURNALS)]
        for loop, journal in suspended:
            loop.run(journal.read)
        leader = three.broker(_leader(settings, name))
        leader.freeze()
        stack.callback(leader.resume)

        def is_taken_over() -> bool:
            try:
                with journal_in(settings, source) as elsewhere:
                    append_entry(elsewhere, EntryKind.HOLD, "second")
            except DrkitError:
                return False
            return True

        eventually(is_taken_over, seconds=90, what="an entry on another leader")
        with ThreadPoolExecutor(JOURNALS) as pool:
            threading.Timer(0.5, leader.resume).start()
            list(pool.map(lambda each: each[0].run(each[1].read), suspended))
        holders = [journal.history.runs["run"].holder["token"] for _, journal in suspended]
        assert holders == ["second"] * JOURNALS


@contextmanager
def journal_in(settings: ClusterSettings, source: str) -> Iterator[tuple[EventLoop, JournalTopic]]:
    """A journal that was read, as by an orchestrator."""
    with closing(EventLoop()) as loop, closing(RawCluster(loop, settings, "test")) as raw:
        journal = JournalTopic(raw, source, "b")
        loop.run(raw.connected)
        loop.run(journal.read)
        yield loop, journal


def append_entry(of: tuple[EventLoop, JournalTopic], kind: EntryKind, token: str) -> None:
    loop, journal = of
    number, body = int(kind is EntryKind.HOLD), {"holder": {"token": token}}
    loop.run(journal.take_epoch)
    loop.run(journal.append, JournalEntry("run", number, token, 1, kind, None, "", 1, body))


@pytest.mark.wide
@pytest.mark.parametrize("frozen_seconds", [1.5, 25])
def test_the_word_of_a_leader_alone_counts_later(
    three: LocalCluster,
    settings: ClusterSettings,
    flow: FlowSettings,
    monkeypatch: pytest.MonkeyPatch,
    frozen_seconds: float,
) -> None:
    """It may be from before; where the others are gone, a state that can be read is still shown."""
    monkeypatch.setattr(log_tail, "_FEW_SECONDS", 3.0)
    with StateTopic(settings, flow.source) as state:
        state.put(RoleRecord(Role.FROZEN, 1, "run", 1), "orders")
        state.load()  # a record, from the leader: an empty log would not have been read from a broker
        state.put(PROMOTED, "orders")
        leader = _leader(settings, state_topic(flow.source))
        others = [three.broker(node) for node in range(3) if node != leader]
        woken = threading.Event()

        def wake() -> None:
            for broker in others:
                broker.resume()
            woken.set()

        for broker in others:
            broker.freeze()
        timer = threading.Timer(frozen_seconds, wake)
        timer.start()
        try:
            state.load()
            assert woken.is_set() == (frozen_seconds < 3)
            assert state.get(RoleRecord, "orders") == PROMOTED
        finally:
            timer.cancel()
            wake()


@pytest.mark.wide
def test_a_first_read_does_not_stay_with_a_broker_that_is_frozen(
    three: LocalCluster, settings: ClusterSettings, flow: FlowSettings
) -> None:
    """Which broker is asked first is chance, so many ask; one that was unlucky several times may be late."""
    with StateTopic(settings, flow.source) as state:
        state.put(PROMOTED, "orders")
    frozen = three.broker((_leader(settings, state_topic(flow.source)) + 1) % 3)
    frozen.freeze()
    try:
        with ThreadPoolExecutor(NEW_READERS) as pool:
            took = list(pool.map(lambda _: _first_read_seconds(settings, flow), range(NEW_READERS)))
    finally:
        frozen.resume()
    assert sum(seconds > LATE_SECONDS for seconds in took) <= 2, took


@pytest.mark.wide
def test_a_record_is_written_although_its_leader_is_frozen(
    three: LocalCluster, settings: ClusterSettings, flow: FlowSettings
) -> None:
    """A request that the old leader keeps is sent to the next one, within the time of a step."""
    with StateTopic(settings, flow.source) as state:
        state.put(RoleRecord(Role.FROZEN, 1, "run", 1), "orders")
        leader = three.broker(_leader(settings, state_topic(flow.source)))
        leader.freeze()
        try:
            state.put(PROMOTED, "orders")
            assert _role_after_load(state) == PROMOTED
        finally:
            leader.resume()


@pytest.mark.wide
def test_readers_that_met_an_outage_ask_most_replicas_again(
    three: LocalCluster, settings: ClusterSettings, flow: FlowSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word of one broker counts while the others are silent, and no longer."""
    readers = [StateTopic(settings, flow.source) for _ in range(READERS)]
    readers[0].put(PROMOTED, "orders")
    leader, counted = _leader(settings, state_topic(flow.source)), list[tuple[int, int]]()
    count, others = log_tail.LogTail._count, [three.broker(n) for n in range(3) if n != leader]

    def note(tail: log_tail.LogTail, answered: int, replicas: int) -> None:
        counted.append((answered, replicas))
        count(tail, answered, replicas)

    with ExitStack() as stack, ThreadPoolExecutor(READERS) as pool:
        for state in readers:
            stack.enter_context(state).load()
        for broker in others:
            broker.freeze()
            stack.callback(broker.resume)
        assert list(pool.map(_role_after_load, readers)) == [PROMOTED] * READERS
        for broker in others:
            broker.resume()
        eventually(lambda: _is_written(settings, flow), seconds=60, what="a write to all replicas")
        monkeypatch.setattr(log_tail.LogTail, "_count", note)
        for _ in range(LOOKS):
            list(pool.map(_role_after_load, readers))
    assert [answered for answered, replicas in counted if 2 * answered <= replicas] == []
    assert len(counted) >= LOOKS * READERS


def _first_read_seconds(settings: ClusterSettings, flow: FlowSettings) -> float:
    began = time.monotonic()
    with StateTopic(settings, flow.source) as state:
        assert _role_after_load(state) == PROMOTED
        return time.monotonic() - began


def _leader(settings: ClusterSettings, name: str) -> int:
    found = describe_topics(Cluster.connect(settings), [name])[name].leaders[0].node
    assert found is not None
    return found


def _is_written(settings: ClusterSettings, flow: FlowSettings) -> bool:
    """By a client that has not met the old leader."""
    try:
        with StateTopic(settings, flow.source) as state:
            state.put(PROMOTED, "orders")
    except DrkitError:
        return False
    return True


def _role_after_load(state: StateTopic) -> RoleRecord | None:
    state.load()
    return state.get(RoleRecord, "orders")
