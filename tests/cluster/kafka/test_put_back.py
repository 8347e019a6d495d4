"""What a topic had before, put back by who may delete, create and write it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from confluent_kafka import OFFSET_END, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
import pytest

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.names import journal_topic, state_topic
from drkit.flow_state.records import Role, RoleRecord
from drkit.flow_state.state import Damaged
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import EntryKind, JournalEntry
from drkit.journal.topic import JournalTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.reading.compacted import newest_values
from drkit.kafka.topics import describe_topics
from drkit.wire import Record
from tests.support.errors import coded
from tests.support.flow_state.keys import previous_version, signatures_in
from tests.support.kafka.attacks import create, stored, write_again
from tests.support.waiting import eventually

PROMOTED = RoleRecord(Role.PROMOTED, 2, "real", 2)


def put_back(cluster: Cluster, flow: FlowSettings, records: Sequence[Record]) -> None:
    """Delete the state topic, create it again, and write what it had before."""
    name = state_topic(flow.source)
    admin = AdminClient({"bootstrap.servers": cluster.settings.bootstrap_servers})
    everything = ConfluentPartition(name, 0, OFFSET_END)
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):  # brokers empty no compacted topic
        admin.delete_records([everything])[everything].result(30)
    admin.delete_topics([name])[name].result(30)
    eventually(lambda: not describe_topics(cluster, [name]), what="the topic gone")
    ensure_state_topic(cluster, flow)
    write_again(cluster.settings, name, records)


def test_who_may_delete_and_create_the_topic_puts_no_earlier_state_back(cluster: Cluster, flow: FlowSettings):
    frozen = RoleRecord(Role.FROZEN, 1, "drill", 1)
    ensure_state_topic(cluster, flow)
    with StateTopic(cluster.settings, flow.source) as state:
        state.load()
        state.put(frozen, "pay")
        earlier = stored(cluster.settings, state.name)
        state.put(PROMOTED, "pay")
    put_back(cluster, flow, earlier)
    with StateTopic(cluster.settings, flow.source) as fresh:
        fresh.load()
        with pytest.raises(Damaged, check=coded("state_unsigned")) as refused:
            fresh.get(RoleRecord, "pay")
        assert "role/pay" in refused.value.evidence
        assert "this topic and its id" in refused.value.evidence
        fresh.put(PROMOTED, "pay")
    found = newest_values(cluster, [fresh.name], verified=True)[fresh.name]
    assert found == {RoleRecord.key("pay").encode(): PROMOTED.encode()}


def test_what_an_earlier_version_signed_counts_and_no_copy_of_it(cluster: Cluster, flow: FlowSettings):
    """Its MACs do not cover the topic's id. The state topic continues after an upgrade."""
    ensure_state_topic(cluster, flow)
    name, minute_ago = state_topic(flow.source), wall_ms() - 60_000
    key, value = RoleRecord.key("pay").encode(), RoleRecord(Role.FROZEN, 1, "drill", 1).encode()
    before = signatures_in(cluster, name, lambda: minute_ago)
    old = Record(0, 0, key, value, previous_version(before, key, value))
    write_again(cluster.settings, name, [old])
    with StateTopic(cluster.settings, flow.source) as state:
        state.load()
        assert state.get(RoleRecord, "pay") == RoleRecord(Role.FROZEN, 1, "drill", 1)
        state.put(PROMOTED, "pay")
        write_again(cluster.settings, name, [old])
        state.load()
        assert state.get(RoleRecord, "pay") == PROMOTED
    with StateTopic(cluster.settings, flow.source) as fresh:
        fresh.load()
        assert fresh.get(RoleRecord, "pay") == PROMOTED


def test_who_may_delete_records_of_a_journal_can_put_an_earlier_one_back(
    settings: ClusterSettings, flow: FlowSettings
):
    """The threat model states it: a process that begins later cannot see the difference."""
    name = journal_topic(flow.source)
    create(settings, name)
    opening = {"scope": {"topics": {"orders": "orders"}}, "holder": {"token": "x"}}
    entries = [
        JournalEntry("r", 0, "x", 1, EntryKind.RUN, None, "", 1, opening),
        JournalEntry("r", 1, "x", 1, EntryKind.HELD, None, "", 2, {"why": "x"}),
    ]
    with closing(EventLoop()) as loop, closing(RawCluster(loop, settings, "test")) as raw:
        loop.run(raw.connected)
        writer = JournalTopic(raw, flow.source, "b")
        loop.run(writer.read_existing)
        loop.run(writer.take_epoch)
        for entry in entries:
            assert loop.run(writer.append, entry)
        earlier = stored(settings, name)[:1]
        everything = ConfluentPartition(name, 0, OFFSET_END)
        admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
        admin.delete_records([everything])[everything].result(30)
        write_again(settings, name, earlier)
        fresh = JournalTopic(raw, flow.source, "b")
        loop.run(fresh.read_existing)
        assert fresh.history.runs["r"].entries == entries[:1]
