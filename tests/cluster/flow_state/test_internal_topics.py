"""The topics in which a flow keeps what it knows: deleted, created again, or with foreign records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
import uuid

import pytest
from structlog.testing import capture_logs

from drkit.cli.main import run
from drkit.config import ClusterSettings
from drkit.copy_task.core.assignment import TaskAssignment
from drkit.errors import Failed, Refused
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.records import GenerationRecord, OffsetMapRecord, ProducerIdsRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.mm2_topics.heartbeats import TOPIC as HEARTBEATS
from drkit.mm2_topics.heartbeats import HeartbeatEmitter
from drkit.offset_map.topic import bucket_of
from drkit.offsets import History, Intent, MapKey, Unavailable, encode_intent
from drkit.offsets.map_record import Mode
from drkit.offsets.mm2_records import Checkpoint, Heartbeat
from drkit.offsets.translation import PartitionPosition
from drkit.replicate.flow_run import InternalTopics
from tests.support.errors import coded
from tests.support.flows.compare import check_copy, read
from tests.support.flows.exactness import places
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import Flow, partition_states
from tests.support.flows.known_flow import remember, write_settings
from tests.support.flows.produce import fill, producer, put
from tests.support.status.checkpoint_world import World
from tests.support.stored import put as put_record
from tests.support.stored import stored
from tests.support.waiting import eventually

GARBAGE = b"\x01\x02garbage"


@pytest.fixture
def copied(flow: Flow, topic_name: str) -> Flow:
    """A flow that has copied a topic of two partitions, and remembers it."""
    flow.create_both(topic_name, 2)
    fill(flow.source, topic_name, 200)
    flow.copy(topic_name)
    remember(flow, topic_name)
    with StateTopic(flow.target, flow.source.alias) as state:
        put_record(
            state, OffsetMapRecord.KEY, {"topic_id": str(flow.topic(flow.target, flow.map_topic).topic_id)}
        )
    return flow


@contextmanager
def state_of(flow: Flow) -> Iterator[StateTopic]:
    with StateTopic(flow.target, flow.source.alias) as state:
        state.load()
        yield state


def looked_after(flow: Flow, state: StateTopic) -> InternalTopics:
    return InternalTopics(Cluster.connect(flow.target), flow.settings, state)


def write(flow: Flow, topic: str, key: bytes, value: bytes | None, partition: int = 0) -> None:
    """Write a record as another producer would."""
    out = producer(flow.target)
    put(out, topic, value, key, partition=partition)
    assert out.flush(30) == 0


# -- the flow's state ---------------------------------------------------------------------------------


@pytest.mark.wide
def test_a_state_deleted_between_runs_is_refused(copied: Flow) -> None:
    """Without it the next run would copy everything once more after the records that are there."""
    target = Cluster.connect(copied.target)
    with state_of(copied) as state:
        looked_after(copied, state).check()
    copied.delete(copied.target, copied.state_topic)
    for _ in range(2):  # the topic exists again, and is still empty
        ensure_state_topic(target, copied.settings)
        with state_of(copied) as state, pytest.raises(Refused, check=coded("state_deleted")) as refused:
            looked_after(copied, state)
        assert refused.value.exit_code == 3
        assert f"but {copied.map_topic} is there, written to " in refused.value.evidence
        assert "delete the copied topics" in refused.value.hint
        assert OffsetMapRecord.KEY not in stored(state), "nothing was written over what is lost"


@pytest.mark.wide
def test_what_is_deleted_while_it_is_needed_is_named(flow_factory: FlowFactory, source, target) -> None:
    for lost, words in (("state_topic", "the flow's state"), ("map_topic", "the offset map")):
        flow = flow_factory(source, target)
        with state_of(flow) as state:
            topics = looked_after(flow, state)
            topics.check()
            name, old = getattr(flow, lost), flow.topic(flow.target, getattr(flow, lost)).topic_id
            flow.delete(flow.target, name)
            with pytest.raises(Refused, check=coded("internal_topic_deleted")) as refused:
                topics.check()
            assert words in str(refused.value)
            assert f"it had the id {old}, now it is missing" in refused.value.evidence
            flow.create(flow.target, name, flow.settings.buckets if lost == "map_topic" else 1, {})
            new = flow.topic(flow.target, name).topic_id
            with pytest.raises(Refused) as refused:
                topics.check()
            assert f"it had the id {old}, now {new}" in refused.value.evidence


@pytest.mark.wide
def test_a_record_over_the_state_is_reported_and_the_former_one_restored(copied: Flow) -> None:
    with state_of(copied) as state:
        known = dict(stored(state))
        write(copied, copied.state_topic, ProducerIdsRecord.KEY.encode(), GARBAGE)
        write(copied, copied.state_topic, b"somebody's own", GARBAGE)
        state.load()
        assert stored(state) == known
        topics = looked_after(copied, state)
        with capture_logs() as said:
            topics.restore()
            topics.restore()
        assert [(e["event"], e["key"], e["restored"]) for e in said] == [
            ("internal_topic_unreadable", ProducerIdsRecord.KEY, True),
            ("internal_topic_unreadable", "somebody's own", False),
        ]
        assert said[0]["reason"].endswith(f"{len(GARBAGE)} bytes, no JSON object: {GARBAGE[:8].hex()}…")
    with state_of(copied) as state:
        assert stored(state)[ProducerIdsRecord.KEY] == known[ProducerIdsRecord.KEY]
        assert ProducerIdsRecord.KEY not in state.records.unreadable


@pytest.mark.wide
def test_a_state_of_which_a_part_is_lost_is_refused(
    copied: Flow, topic_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after compaction: only a foreign record is left under the key."""
    write(copied, copied.state_topic, GenerationRecord.key("lost").encode(), GARBAGE)
    with state_of(copied) as state, pytest.raises(Refused, check=coded("state_foreign_record")) as refused:
        looked_after(copied, state)
    assert "key topic/lost, offset " in refused.value.evidence
    settings = write_settings(copied, tmp_path)
    question = ("--topic", topic_name, "--partition", "0", "--offset", "3")
    assert run(["translate", *question, "--config", str(settings)]) == 3
    assert "key topic/lost" in capsys.readouterr().err
    write(copied, copied.state_topic, GenerationRecord.key("lost").encode(), None)
    assert run(["translate", *question, "--config", str(settings)]) == 0


# -- the offset map -----------------------------------------------------------------------------------


@pytest.mark.wide
def test_a_damaged_record_of_the_map_stops_its_partition_and_no_other(copied: Flow, topic_name: str) -> None:
    ids = [copied.topic(side, topic_name).topic_id for side in (copied.source, copied.target)]
    at = MapKey(ids[0], ids[1], 0)
    bucket = bucket_of(topic_name, 0, copied.settings.buckets)
    # Under the key of a record that is unreadable now, and under a foreign key.
    intent = Intent(Mode.LIVE, 5, History(1, 0), 0, 50, 50, 0, ((50, 1),))
    key = encode_intent(at, intent)[0]
    write(copied, copied.map_topic, b"hello", GARBAGE, bucket)
    check_copy(copied, topic_name)
    write(copied, copied.map_topic, key, GARBAGE, bucket)
    fill(copied.source, topic_name, 100, first=200)
    before = copied.offsets(copied.target, topic_name)
    report = copied.copy(topic_name)
    states = partition_states(report)
    assert states[topic_name, 0][0] == "stopped"
    assert states[topic_name, 1][0] == "live"
    assert copied.offsets(copied.target, topic_name)[0] == before[0], (
        "nothing was written where the end of the copy is unknown"
    )
    assert copied.offsets(copied.target, topic_name)[1] > before[1]
    (event,) = eventually(lambda: copied.events("map_unreadable"), what="the event")
    where = f"{copied.map_topic}-{bucket} at offset "
    assert where in event["reason"]
    assert event["stopped"]
    assert topic_name in event["hint"]
    found = places(copied, topic_name)
    assert isinstance(found[0], Unavailable)
    assert where in found[0].reason
    assert isinstance(found[1], PartitionPosition)
    # An operator who knows that nothing is missing deletes the record: then copying continues.
    write(copied, copied.map_topic, key, None, bucket)
    assert partition_states(copied.copy(topic_name))[topic_name, 0][0] == "live"
    check_copy(copied, topic_name)


@pytest.mark.wide
def test_a_map_created_again_copies_nothing_twice(copied: Flow, topic_name: str) -> None:
    """An empty map of the same name says that nothing was ever copied."""
    fill(copied.source, topic_name, 50, first=200)
    lease: TaskAssignment = copied.lease(topic_name)
    lease = replace(lease, map_id=str(copied.topic(copied.target, copied.map_topic).topic_id))
    before = copied.offsets(copied.target, topic_name)
    copied.delete(copied.target, copied.map_topic)
    assert all(isinstance(p, Unavailable) for p in places(copied, topic_name).values())
    copied.create(copied.target, copied.map_topic, copied.settings.buckets, {"cleanup.policy": "compact"})
    with pytest.raises(Failed, check=coded("map_recreated")):
        copied.copy(topic_name, lease=lease)
    assert copied.offsets(copied.target, topic_name) == before


@pytest.mark.wide
def test_a_group_is_not_moved_by_a_map_that_is_gone(flow: Flow, topic_name: str) -> None:
    world = World(flow, topic_name)
    try:
        world.commit(flow.source, 0)  # before all records: without the map it looks like nothing was copied
        assert world.round().verdicts == {"WRITE": 1}
        there, old = world.there(), str(flow.topic(flow.target, flow.map_topic).topic_id)
        flow.delete(flow.target, flow.map_topic)
        report = world.task.run(world.shard)
        assert report.verdicts == {"NO_POSITION": 1}
        assert f"the offset map {flow.map_topic} does not exist" in report.refused[0][3]
        assert world.there() == there
        flow.create(flow.target, flow.map_topic, flow.settings.buckets, {})
        known = world.shard.known
        known = known._replace(producers=known.producers._replace(map_id=old))
        report = world.round(known=known)
        assert report.verdicts == {"NO_POSITION": 1}
        assert f"deleted and made again: it had the id {old}" in report.refused[0][3]
        assert world.there() == there
    finally:
        world.task.close()


# -- MirrorMaker 2's topics ---------------------------------------------------------------------------


@pytest.mark.wide
def test_a_damaged_checkpoint_hides_no_earlier_one(
    copied: Flow, topic_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the source is gone, the checkpoints hold what a group had committed there."""
    topic = copied.settings.mm2_topics.checkpoints(copied.source.alias)
    copied.create(copied.target, topic, 1, {"cleanup.policy": "compact"})
    good = Checkpoint("g", topic_name, 0, 7, 7)
    write(copied, topic, good.key, good.value)
    write(copied, topic, good.key, good.value[:5])
    other = Checkpoint("h", topic_name, 0, 7, 7)
    write(copied, topic, other.key, b"\x00\x09" + other.value[2:])
    settings = write_settings(copied, tmp_path)
    settings.write_text(settings.read_text().replace(copied.source.bootstrap_servers, "127.0.0.1:1"))
    assert run(["translate", "--group", "g", "--config", str(settings), "--json"]) == 0
    said = capsys.readouterr()
    assert '"to_offset": 7' in said.out
    assert "internal_topic_unreadable" in said.err
    assert run(["translate", "--group", "h", "--config", str(settings)]) == 1
    said = capsys.readouterr()
    assert "2 of its records are none, the one at offset 1: 5 bytes end too early" in said.err


@pytest.mark.wide
def test_heartbeats_come_back_to_a_topic_that_was_deleted(flow: Flow) -> None:
    """Also on brokers that make topics by themselves it comes back compacted."""
    source = ClusterSettings(
        alias=f"a{uuid.uuid4().hex[:8]}", bootstrap_servers=flow.source.bootstrap_servers
    )
    settings = flow.settings.model_copy(update={"source": source.alias, "heartbeats_interval_seconds": 0.2})
    emitter = HeartbeatEmitter(source, settings)

    def beats() -> int:
        if flow.topic(flow.source, HEARTBEATS).error:
            return 0
        records = read(flow.source, HEARTBEATS)[0]
        return sum(Heartbeat.decode(s.key or b"", s.value or b"").source == source.alias for s in records)

    emitter.start()
    try:
        eventually(lambda: beats() > 1, what="heartbeats")
        with capture_logs() as said:
            old = flow.topic(flow.source, HEARTBEATS).topic_id
            flow.delete(flow.source, HEARTBEATS)
            eventually(lambda: beats() > 1, what="heartbeats again")
        (event,) = (e for e in said if e["event"] == "internal_topic_remade")
        assert (event["topic"], event["old_id"]) == (HEARTBEATS, str(old))
    finally:
        emitter.stop()
