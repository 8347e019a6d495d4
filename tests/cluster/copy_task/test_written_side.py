"""A client that was never cut off writes to the passive side after a turn: its partition alone stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import random
from typing import Any

from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
import pytest

from drkit.flow_state.copied_topics import written_of
from drkit.flow_state.records import WrittenRecord
from drkit.kafka.clients import confluent_config
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.circles import in_soak
from tests.support.flows.compare import read
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import DAY_MS, partition_states
from tests.support.flows.produce import fill, now_ms, producer, put, wait_for_markers
from tests.support.flows.turning import Turning
from tests.support.waiting import eventually

PARTITIONS, HIT = 3, 1
"""The partition to which the client writes."""
KIND = "returning_side_written"
_IDS = ("live", "bulk")
LIVE = pytest.mark.parametrize("age_ms", [0, in_soak(2 * DAY_MS)], ids=_IDS)
BULK = pytest.mark.parametrize("age_ms", [in_soak(0), 2 * DAY_MS], ids=_IDS)


@pytest.fixture
def turning(
    source: LocalCluster, target: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> Iterator[Turning]:
    """A topic that has turned: what was its source is the passive side now."""
    there, back = flow_factory(source, target), flow_factory(target, source)
    there.create_both(topic_name, PARTITIONS, retention_ms="-1")
    found = Turning(there, back, topic_name)
    fill(there.source, topic_name, 90)
    found.copy()
    found.turn()
    yield found
    found.close()


def _more(turning: Turning, count: int = 10, *, age_ms: int = 0) -> None:
    """What clients of the new primary write, to each partition."""
    out = producer(turning.now.flow.source)
    for p in range(PARTITIONS):
        for i in range(count):
            when = now_ms() - age_ms
            put(out, turning.topic, b"%d-%d-%d" % (p, i, now_ms()), b"m%d" % i, partition=p, timestamp=when)
    assert out.flush(30) == 0


def _stray(turning: Turning, count: int = 1) -> int:
    """What the client writes to the passive side; returns the offset of its first record."""
    heard: list[Any] = []
    out = producer(turning.now.flow.target)
    for i in range(count):
        put(
            out, turning.topic, b"stray-%d" % i, b"s%d" % i, partition=HIT,
            on_delivery=lambda e, m: heard.append((e, m.offset())),
        )  # fmt: skip
    assert out.flush(30) == 0
    assert [e for e, _ in heard] == [None] * count
    return int(min(offset for _, offset in heard))


@contextmanager
def _open(turning: Turning, *, commits: bool) -> Iterator[None]:
    """A transaction of the client on the passive side, decided at the end of the block."""
    flow = turning.now.flow
    name = f"stray-{turning.topic}"
    out = producer(flow.target, transactional_id=name)
    out.init_transactions(30)
    out.begin_transaction()
    put(out, turning.topic, b"stray", b"s", partition=HIT)
    out.flush(30)
    yield
    (out.commit_transaction if commits else out.abort_transaction)(30)
    wait_for_markers(flow.target, name)


def _states(turning: Turning, report: Any) -> list[str]:
    found = [partition_states(report)[turning.topic, p][0] for p in range(PARTITIONS)]
    return ["copies" if state in {"live", "bulk"} else state for state in found]


def _stopped(turning: Turning) -> WrittenRecord:
    turning.now.state.load()
    [(at, found)] = written_of(turning.now.state.records).items()
    assert at == TopicPartition(turning.topic, HIT)
    return found


def _is_alone(turning: Turning, stray: int) -> None:
    """The partition ends before the stray record, and the others are whole."""
    flow = turning.now.flow
    here, there = read(flow.source, turning.topic), read(flow.target, turning.topic)
    for p in range(PARTITIONS):
        ours, theirs = [s.content for s in there[p]], [s.content for s in here[p]]
        if p == HIT:
            front = [s.content for s in there[p] if s.offset < stray]
            assert front == theirs[: len(front)], "all before the stray record is a copy"
        else:
            assert ours == theirs, f"partition {p}: copied on"
    assert not flow.events("foreign_writer"), "the map leads around nothing"


def _no_alarm(turning: Turning) -> None:
    turning.now.state.load()
    assert not turning.now.state.all(WrittenRecord)
    assert not turning.now.flow.events(KIND)


@pytest.mark.soak
@LIVE
def test_before_the_first_append_and_from_then_on(turning: Turning, age_ms: int) -> None:
    stray = _stray(turning, 3)
    _more(turning, age_ms=age_ms)
    ends = turning.now.flow.offsets(turning.now.flow.target, turning.topic)
    for _ in range(2):
        assert _states(turning, turning.copy()) == ["copies", "stopped", "copies"]
        event = turning.now.flow.events(KIND)[-1]
        assert (event["partition"], event["offset"], event["stopped"]) == (HIT, stray, True)
        _more(turning, age_ms=age_ms)
    found = _stopped(turning)
    assert (found.offset, found.producer_id) == (stray, -1), "the client has no id"
    turning.copy()
    _is_alone(turning, stray)
    assert turning.now.flow.offsets(turning.now.flow.target, turning.topic)[HIT] == ends[HIT]


@pytest.mark.wide
def test_it_stays_stopped_when_the_record_is_gone(turning: Turning) -> None:
    """Retention removes it, and all that is before it: nothing of the log says so any more."""
    flow = turning.now.flow
    stray = _stray(turning)
    turning.copy()
    admin = AdminClient(confluent_config(flow.target))
    for future in admin.delete_records([ConfluentPartition(turning.topic, HIT, stray + 1)]).values():
        future.result(30)
    _more(turning)
    assert _states(turning, turning.copy()) == ["copies", "stopped", "copies"]
    assert flow.offsets(flow.target, turning.topic)[HIT] == stray + 1


@pytest.mark.soak
def test_an_idle_partition_is_looked_at_by_the_next_epoch(turning: Turning) -> None:
    turning.copy()
    _no_alarm(turning)
    stray = _stray(turning)
    assert _states(turning, turning.copy()) == ["copies", "stopped", "copies"]
    assert _stopped(turning).offset == stray


@BULK
def test_while_it_is_copied(turning: Turning, age_ms: int) -> None:
    """In the middle of a pipeline, or of a transaction of drkit; the task is killed, and starts again."""
    flow = turning.now.flow
    _more(turning, 2000, age_ms=age_ms)
    task = flow.start(lease=turning.now.lease(turning.other, once=False, seconds=30))
    flow.grown(turning.topic, 300)
    stray = _stray(turning)
    _more(turning, 500, age_ms=age_ms)
    eventually(lambda: flow.events(KIND), what="the alarm")
    ends = flow.offsets(flow.target, turning.topic)
    _more(turning, 100, age_ms=age_ms)
    task.kill()
    assert _states(turning, turning.copy()) == ["copies", "stopped", "copies"]
    assert _stopped(turning).offset == stray
    _is_alone(turning, stray)
    assert flow.offsets(flow.target, turning.topic)[HIT] == ends[HIT], "nothing was appended any more"


@pytest.mark.wide
@LIVE
def test_an_open_transaction_is_waited_for(turning: Turning, age_ms: int) -> None:
    """Aborted it is no record at all; committed it stops the partition."""
    flow = turning.now.flow
    for commits in (False, True):
        with _open(turning, commits=commits):
            _more(turning, age_ms=age_ms)
            before = flow.offsets(flow.target, turning.topic)
            task = flow.start(lease=turning.now.lease(turning.other, once=False, seconds=60))
            eventually(lambda: _new(turning, before) >= {0, 2}, what="the other partitions")  # noqa: B023
            _no_alarm(turning)
        if not commits:
            eventually(lambda: HIT in _new(turning, before), what="the partition")  # noqa: B023
            _no_alarm(turning)
        else:
            eventually(lambda: flow.events(KIND), what="the alarm")
        task.kill()
        turning.copy()
    stray = _stopped(turning).offset
    assert [s.value for s in read(flow.target, turning.topic)[HIT] if s.offset == stray] == [b"stray"]
    _is_alone(turning, stray)


def _new(turning: Turning, before: dict[int, int]) -> set[int]:
    """Partitions of the passive side into which more was committed."""
    now = turning.now.flow.offsets(turning.now.flow.target, turning.topic)
    return {p for p, end in now.items() if end > before[p] + 2}


@pytest.mark.wide
@BULK
def test_what_drkit_leaves_behind_itself_is_no_alarm(turning: Turning, age_ms: int) -> None:
    """Tasks are killed in the middle of their appends and transactions; clients abort theirs."""
    chance, flow = random.Random(3), turning.now.flow
    for _ in range(4):
        _more(turning, 300, age_ms=age_ms)
        task = flow.start(lease=turning.now.lease(turning.other, once=False))
        if chance.random() < 0.5:
            with _open(turning, commits=False):
                pass
        task.kill_after(chance.uniform(0.5, 1.5))
    assert _states(turning, turning.copy()) == ["copies"] * PARTITIONS
    assert turning.is_exact()
    _no_alarm(turning)


@pytest.mark.soak
@pytest.mark.parametrize("when", ["running", in_soak("started")])
def test_what_clients_write_to_a_promoted_side_is_no_alarm(turning: Turning, when: str) -> None:
    """A task that has missed the failover is refused there; it must not speak of a passive side."""
    flow = turning.now.flow
    _more(turning)
    turning.copy()
    lease = turning.now.lease(turning.other, once=False)
    task = flow.start(lease=lease) if when == "running" else None
    turning.now.fence()
    _stray(turning)
    _more(turning)
    task = task or flow.start(lease=lease)
    eventually(
        lambda: {e["partition"] for e in flow.events("own_epoch_refused")} >= {HIT}, what="the refusal"
    )
    task.kill()
    _no_alarm(turning)
