"""Who may read and write the offset map, and has no control key, repeats its records: none counts twice."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
import uuid

import pytest

from drkit.control_key import ControlKey, ControlKeys, SignedTopic
from drkit.copy_task.target import bulk
from drkit.errors import DrkitError, Failed
from drkit.failover import adopt
from drkit.flow_state.names import bulk_transactional_id
from drkit.kafka.admin import Cluster
from drkit.kafka.transactions import Transactions, abort
from drkit.local.cluster import LocalCluster
from drkit.offset_map.reading import load
from drkit.offsets.map_codec import decode_record
from drkit.offsets.map_record import Intent, MapRecordKind, Mode
from drkit.wire import Record
from tests.support.errors import coded
from tests.support.flow_state.keys import KEYS
from tests.support.flows.compare import check_copy, read
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.produce import aged, fill, producer
from tests.support.kafka.attacks import stored, write_again
from tests.support.waiting import eventually

PASSES = 3
OLD = aged(2 * DAY_MS)
"""Records of this age are copied in transactions."""
NEW = ControlKeys(ControlKey.of(b"another key, another key, another key"), (KEYS.current,))


@pytest.fixture
def copied(flow_factory: FlowFactory, source: LocalCluster, target: LocalCluster, topic_name: str) -> Flow:
    """A flow with a control key that has copied a topic in several transactions."""
    flow = flow_factory(source, target, buckets=1, control=KEYS)
    flow.create_both(topic_name)
    for number in range(PASSES):
        fill(flow.source, topic_name, 200, first=200 * number, timestamp=OLD)
        flow.copy(topic_name)
    return flow


def said(flow: Flow) -> list[Any]:
    """What the map says of each partition."""
    raw = flow._raw[flow.target.alias]
    (bucket,) = load(flow._loop, raw, flow.map_topic, [0]).values()
    assert not any(bucket.doubt(key) for key in bucket.partitions)
    return [(key, p.segments.triples(), p.tail, p.claims()) for key, p in bucket.partitions.items()]


def test_no_repeated_record_of_the_map_changes_what_it_says(copied: Flow):
    before = said(copied)
    for record in stored(copied.target, copied.map_topic):
        if record.key is not None and decode_record(record.key, record.value).kind is not MapRecordKind.REIGN:
            write_again(copied.target, copied.map_topic, [record])
            assert said(copied) == before, f"a copy of the record at offset {record.offset}"


def test_no_record_is_copied_twice_after_a_record_of_the_map_was_repeated(copied: Flow, topic_name: str):
    first = next(r for r in stored(copied.target, copied.map_topic) if is_bulk(r))
    write_again(copied.target, copied.map_topic, [first])
    fill(copied.source, topic_name, 200, first=200 * PASSES, timestamp=OLD)
    copied.copy(topic_name)
    check_copy(copied, topic_name, uncommitted=False)


def test_no_record_is_left_out_after_a_record_of_an_aborted_transaction_was_repeated(
    copied: Flow, topic_name: str, monkeypatch: pytest.MonkeyPatch
):
    """It says that records were copied. They were aborted with it."""

    aborted = aborted_records(copied, topic_name, monkeypatch)
    write_again(copied.target, copied.map_topic, aborted[-1:])
    copied.copy(topic_name)
    check_copy(copied, topic_name, uncommitted=False)


def aborted_records(flow: Flow, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Return the map's records of a transaction whose task died before its end, once it is aborted."""

    async def without_answer(*_: object, **__: object) -> None:
        raise bulk.BulkRefused

    fill(flow.source, topic_name, 200, first=200 * PASSES, timestamp=OLD)
    with monkeypatch.context() as patched:
        patched.setattr(Transactions, "end", without_answer)
        flow.copy(topic_name, once=False, seconds=3.0, grace=1.0)
    flow.ask(flow.target, abort, bulk_transactional_id(flow.source.alias, flow.target.alias, 0))
    committed = {r.offset for r in stored(flow.target, flow.map_topic)}
    everything = read(flow.target, flow.map_topic, isolation="read_uncommitted")[0]
    aborted = [
        Record(s.offset, 0, s.key, s.value, tuple((name.encode(), value) for name, value in s.headers))
        for s in everything
        if s.offset not in committed and s.key != b"zzz"
    ]
    assert any(map(is_bulk, aborted))
    return aborted


def test_no_copy_of_an_aborted_record_is_signed_with_a_new_key(
    copied: Flow, topic_name: str, monkeypatch: pytest.MonkeyPatch
):
    """While a transaction is open on the map, it cannot be read in order: nothing is signed."""
    stranger = producer(copied.target, transactional_id=uuid.uuid4().hex, transaction_timeout_ms=600_000)
    write_progress = bulk.BulkAppender._write_progress

    async def beside_another(self: bulk.BulkAppender, placed: Any) -> None:
        monkeypatch.setattr(bulk.BulkAppender, "_write_progress", write_progress)
        stranger.init_transactions(30)
        stranger.begin_transaction()
        stranger.produce(copied.map_topic, b"x", b"zzz", partition=0)
        assert stranger.flush(30) == 0
        await write_progress(self, placed)

    monkeypatch.setattr(bulk.BulkAppender, "_write_progress", beside_another)
    aborted = aborted_records(copied, topic_name, monkeypatch)
    write_again(copied.target, copied.map_topic, aborted[-1:])
    copied.target = copied.target.with_control(NEW)
    cluster = Cluster.connect(copied.target)
    with pytest.raises(Failed, check=coded("own_topic_hidden")):
        sign_map(copied, cluster)
    stranger.abort_transaction(30)

    def is_signed() -> bool:
        with suppress(DrkitError):  # until the marker is written
            sign_map(copied, cluster)
            return True
        return False

    eventually(is_signed, what="the end of the transaction")
    copied.copy(topic_name)
    check_copy(copied, topic_name, uncommitted=False)


def sign_map(flow: Flow, cluster: Cluster) -> None:
    found = adopt.TopicRecords(flow.map_topic, flow.target.alias, SignedTopic.MAP)
    adopt._read(found, cluster, NEW)
    records = adopt.FlowRecords(flow.settings, NEW, [found], {flow.target.alias: cluster})
    assert adopt.sign_all(records)


def is_bulk(record: Record) -> bool:
    found = decode_record(record.key, record.value).record
    return isinstance(found, Intent) and found.mode is Mode.BULK
