"""What others write to drkit's topics does not fill the memory of those who read them.

Thirty megabytes of zeros are one kilobyte on the wire, and each batch is within the limits of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
import tracemalloc
import uuid

from confluent_kafka import Producer
import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import LONGEST_KEY, MOST_REFUSED
from drkit.detect.noticeboard import read_notes, topic_name
from drkit.failover.core.reverse import _read_state
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.names import journal_topic, state_topic
from drkit.flow_state.records import ClustersRecord, Role, RoleRecord, SourceSeenRecord
from drkit.flow_state.state import Damaged
from drkit.flow_state.topic import StateTopic
from drkit.journal.topic import JournalReader
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.reading.compacted import newest_values
from drkit.kafka.reading.log_tail import LogTail
from drkit.kafka.topics import describe_topics
from drkit.mm2_topics.checkpoint_topic import CheckpointTail
from drkit.mm2_topics.offset_syncs import OffsetSyncs
from drkit.model import TopicPartition
from drkit.offsets.mm2_records import Checkpoint, OffsetSync
from drkit.wire import Record
from tests.support.errors import coded
from tests.support.flow_state.keys import KEYS
from tests.support.flows.produce import producer
from tests.support.kafka.attacks import append, bomb, create, headers_bomb

_MIB = 1 << 20
_NUMBER = 12
ZEROS = bytes(30 * _MIB)
CLUSTERS = ClustersRecord("a-id", "b-id")
KEEPS = 96 * _MIB
"""Three such records; all of them have 360 MiB."""


def attacker(settings: ClusterSettings, **more: str | int) -> Producer:
    """A client that may write to a topic, and has no control key."""
    return producer(settings, compression_type="zstd", message_max_bytes=64 * _MIB, **more)


def write(out: Producer, topic: str, *records: tuple[bytes, bytes]) -> None:
    for key, value in records:
        out.produce(topic, value, key, partition=0)
        assert out.flush(30) == 0


@contextmanager
def kept_bytes() -> Iterator[list[int]]:
    """Yield a list that has the bytes that are kept at the end of the block."""
    found: list[int] = []
    tracemalloc.start()
    try:
        yield found
        found.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()


LARGE = {
    "keys": [(b"role/%d" % n + ZEROS, b"") for n in range(_NUMBER)],
    "values": [(SourceSeenRecord.KEY.encode(), ZEROS)] * _NUMBER,
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_state_topic(settings: ClusterSettings, flow: FlowSettings, kind: str):
    cluster = Cluster.connect(settings)
    ensure_state_topic(cluster, flow)
    with StateTopic(settings, flow.source) as state:
        state.load()
        state.put(CLUSTERS)
    write(attacker(settings), state.name, *LARGE[kind])
    with kept_bytes() as kept, StateTopic(settings, flow.source) as state:
        state.load()
        peak = tracemalloc.get_traced_memory()[1]
        found = newest_values(cluster, [state.name], verified=True)[state.name]
    assert kept[0] < KEEPS
    assert peak < 2 * KEEPS
    assert state.get(ClustersRecord) == CLUSTERS
    assert found[ClustersRecord.key().encode()] == CLUSTERS.encode()
    assert all(len(key) <= LONGEST_KEY for key in found.refused)


def test_a_record_of_millions_of_headers(settings: ClusterSettings, flow: FlowSettings):
    cluster = Cluster.connect(settings)
    ensure_state_topic(cluster, flow)
    with StateTopic(settings, flow.source) as state:
        state.load()
        state.put(CLUSTERS)
        append(settings, state.name, headers_bomb(2_000_000))
        state.put(CLUSTERS)
    tracemalloc.start()
    try:
        with StateTopic(settings, flow.source) as state:
            state.load()
            assert state.get(ClustersRecord) == CLUSTERS
        assert tracemalloc.get_traced_memory()[1] < KEEPS, "it would be 160 MiB"
    finally:
        tracemalloc.stop()


def test_more_refused_records_than_are_remembered_make_what_they_may_hide_unknown(
    settings: ClusterSettings, flow: FlowSettings
):
    cluster = Cluster.connect(settings)
    ensure_state_topic(cluster, flow)
    out = producer(settings)
    name = f"drkit-state.{flow.source}.internal"
    for number in range(MOST_REFUSED + 10):
        out.produce(name, b"", b"role/%d" % number, partition=0)
    assert out.flush(60) == 0
    with StateTopic(settings, flow.source) as state:
        state.load()
        assert len(state.records.unreadable) == MOST_REFUSED
        with pytest.raises(Damaged):
            state.get(RoleRecord, "pay")
        role = RoleRecord(Role.FROZEN, 1, "run", 1)
        state.put(role, "pay")
        state.load()
        assert state.get(RoleRecord, "pay") == role
    found = newest_values(cluster, [name], verified=True)[name]
    assert len(found.refused) == MOST_REFUSED
    assert found.passed_over


def test_a_batch_that_is_passed_over_makes_the_roles_of_another_direction_unknown(
    settings: ClusterSettings, flow: FlowSettings
):
    cluster = Cluster.connect(settings)
    create(settings, f"drkit-state.{flow.source}.internal")
    with StateTopic(settings, flow.source) as state:
        state.put(CLUSTERS)
    append(settings, state.name, bomb(64))
    found = _read_state(cluster, flow)
    assert found.get(ClustersRecord) == CLUSTERS
    with pytest.raises(Damaged, check=coded("state_foreign_record")):
        found.get(RoleRecord, "pay")
    with pytest.raises(Damaged):
        found.all(RoleRecord)


def test_without_a_control_key_all_records_count_and_are_kept(settings: ClusterSettings, flow: FlowSettings):
    """The threat model states it: who may write there can fill the memory of those who read."""
    own = settings.with_control(None)
    name = f"drkit-state.{flow.source}.internal"
    create(own, name)
    write(attacker(own), name, *((b"%d" % n, ZEROS) for n in range(2)))
    found = newest_values(Cluster.connect(own), [name], verified=True)[name]
    assert [len(value) for value in found.values()] == [len(ZEROS)] * 2


@pytest.mark.parametrize("control", [KEYS, None], ids=["key", "no key"])
def test_a_journal(settings: ClusterSettings, flow: FlowSettings, control: object):
    own = settings if control is KEYS else settings.with_control(None)
    create(own, journal_topic(flow.source))
    write(attacker(own), journal_topic(flow.source), *((b"run", ZEROS) for _ in range(_NUMBER)))
    with closing(EventLoop()) as loop, closing(RawCluster(loop, own, "test")) as raw, kept_bytes() as kept:
        journal = JournalReader(raw, flow.source, tolerant=True)
        loop.run(raw.connected)
        loop.run(journal.read_existing)
        assert journal.history.runs == {}
        peak = tracemalloc.get_traced_memory()[1]
    assert max(peak, *kept) < 2 * KEEPS


@pytest.mark.parametrize("in_header", [False, True])
def test_open_transactions(settings: ClusterSettings, flow: FlowSettings, *, in_header: bool):
    """Without a control key each record may be drkit's."""
    name = state_topic(flow.source)
    create(settings, name)
    out = attacker(settings, transactional_id=f"shop-{uuid.uuid4().hex}")
    out.init_transactions(30)
    out.begin_transaction()
    headers: list[tuple[str, str | bytes | None]] = [("zeros", ZEROS)] if in_header else []
    for n in range(_NUMBER):
        out.produce(name, b"" if in_header else ZEROS, b"%d" % n, partition=0, headers=headers)
        assert out.flush(30) == 0
    records: list[Record] = []
    passed_over: list[tuple[int, str]] = []
    tp = TopicPartition(name, 0)

    def pass_over(offset: int, why: str) -> None:
        passed_over.append((offset, why))

    def take(record: Record) -> None:
        records.append(record._replace(value=b"", headers=()))

    with closing(LogTail(settings, tp, take, pass_over)) as tail:
        with kept_bytes() as kept:
            tail.read(60)
        assert kept[0] < KEEPS
        assert records == []
        assert [offset for offset, _ in passed_over] == list(range(2, _NUMBER))
        out.commit_transaction(30)
        while len(records) < _NUMBER:
            tail.read(60)
    assert [record.key for record in records] == [b"%d" % n for n in range(_NUMBER)], "and each once"


def test_notes_without_a_control_key(settings: ClusterSettings, flow: FlowSettings):
    """Their topic was created before its settings bounded what brokers take."""
    own = settings.with_control(None)
    create(own, topic_name(flow))
    write(attacker(own), topic_name(flow), *((b"%d" % n, ZEROS[: _MIB * 3 // 2]) for n in range(200)))
    with kept_bytes() as kept:
        assert read_notes(Cluster.connect(own), flow).pause == ""
        peak = tracemalloc.get_traced_memory()[1]
    assert max(peak, *kept) < KEEPS


def test_checkpoints(settings: ClusterSettings, flow: FlowSettings):
    name = f"{flow.source}.checkpoints.internal"
    create(settings, name)
    genuine = Checkpoint("group", "pay", 0, 5, 5)
    large = [(Checkpoint(f"g{n}", "pay", 0, 5, 5).key + ZEROS, genuine.value) for n in range(_NUMBER)]
    write(attacker(settings), name, *large, (genuine.key, genuine.value))
    topic = describe_topics(Cluster.connect(settings), [name])[name]
    with closing(CheckpointTail(settings, name)) as tail, kept_bytes() as kept:
        tail.read(topic.topic_id)
    assert kept[0] < KEEPS
    assert tail.newest.keys() == {"group"}
    assert tail.unreadable == _NUMBER


def test_offset_syncs(settings: ClusterSettings, flow: FlowSettings):
    cluster = Cluster.connect(settings)
    with closing(StateTopic(settings, flow.source)) as state:
        syncs = OffsetSyncs((cluster, cluster), flow, state)
        create(settings, syncs.topic)
        write(attacker(settings), syncs.topic, *((b"%d" % n, ZEROS) for n in range(_NUMBER)))
        sync = OffsetSync("pay", 0, 7, 7)
        write(producer(settings), syncs.topic, (sync.key, sync.value))
        tracemalloc.start()
        try:
            held = syncs._read({"pay"})
            assert tracemalloc.get_traced_memory()[1] < 2 * KEEPS, "it would be 360 MiB"
        finally:
            tracemalloc.stop()
        assert held.keys() == {TopicPartition("pay", 0)}
        assert syncs._unreadable == _NUMBER
