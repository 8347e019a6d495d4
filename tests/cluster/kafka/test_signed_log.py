"""Who may write to one of drkit's topics hides no record there, repeats none, and ends no reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
import resource
import threading
import uuid
from uuid import UUID

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
import pytest

from drkit import observe
from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import SignedTopic
from drkit.detect.agents import AgentNote, Hold
from drkit.detect.awake import AwakeClock
from drkit.detect.note_kinds import Automatic, Pause
from drkit.detect.noticeboard import Noticeboard, ensure_board, put_note, read_notes, topic_name
from drkit.errors import ClusterUnreachable, Failed, Refused
from drkit.failover import adopt
from drkit.failover.source_abort import _abortable
from drkit.flow_state.creation import ensure_offset_map, ensure_state_topic
from drkit.flow_state.names import journal_topic, offset_map_topic
from drkit.flow_state.records import Role, RoleRecord
from drkit.flow_state.source_fence.entries import FenceMark
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import EntryKind, JournalEntry, JournalHistory
from drkit.journal.topic import JournalReader, JournalTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.reading import signed_log
from drkit.kafka.reading.log_tail import LogTail
from drkit.kafka.topics import alter_topic_configs, describe_topics
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offset_map.bucket import batch_of, pairs
from drkit.offset_map.reading import load
from drkit.offsets import History, MapKey, Mark
from drkit.watch.automatic import acknowledge, claim
from drkit.wire import Record, stamp
from tests.support.errors import coded, sentence
from tests.support.flow_state.keys import KEYS, signatures_in
from tests.support.flows.produce import producer
from tests.support.kafka.attacks import append, bomb, create, stored, write_again
from tests.support.waiting import eventually
from tests.support.wire.forge import Batch

MAINTENANCE = Pause("root", "maintenance", 1_700_000_000_000)
PROMOTED = RoleRecord(Role.PROMOTED, 2, "real", 2)
_MIB = 1 << 20


@contextmanager
def open_transaction(settings: ClusterSettings, topic: str) -> Iterator[Producer]:
    """A transaction of a client that has no control key and may write to a topic."""
    out = producer(settings, transactional_id=f"shop-{uuid.uuid4().hex}")
    out.init_transactions(30)
    out.begin_transaction()
    out.produce(topic, b"x", b"zzz", partition=0)
    assert out.flush(30) == 0
    try:
        yield out
    finally:
        with suppress(KafkaException):
            out.abort_transaction(30)


@contextmanager
def following(settings: ClusterSettings, flow: FlowSettings) -> Iterator[Noticeboard]:
    board = Noticeboard(settings, flow, AwakeClock(), 5.0)
    board.start()
    try:
        eventually(lambda: board.is_read, what="the notes")
        yield board
    finally:
        board.stop()


def pause(cluster: Cluster, flow: FlowSettings) -> None:
    put_note(cluster, flow, Pause.KEY, MAINTENANCE.to_json())


def resume(cluster: Cluster, flow: FlowSettings) -> None:
    put_note(cluster, flow, Pause.KEY, None)


def test_an_open_transaction_hides_no_pause(cluster: Cluster, flow: FlowSettings):
    ensure_board(cluster, flow)
    with following(cluster.settings, flow) as board, open_transaction(cluster.settings, topic_name(flow)):
        pause(cluster, flow)
        assert "maintenance" in read_notes(cluster, flow).pause
        eventually(lambda: "maintenance" in board.pause, what="the pause")


def test_an_open_transaction_hides_no_claim_of_an_automatic_failover(cluster: Cluster, flow: FlowSettings):
    ensure_board(cluster, flow)
    with open_transaction(cluster.settings, topic_name(flow)):
        said = [
            claim(cluster.settings, flow, Automatic(name, f"run-{name}", at_ms, ("test",)), 3600.0)
            for at_ms, name in ((1_000, "o1"), (2_000, "o2"))
        ]
        assert said[0] == ""
        assert "o1 already acted" in said[1]
        found = acknowledge(cluster.settings, flow, "person", 3_000)
    assert found is not None
    assert found.by == "o1"


def test_a_claim_waits_for_its_marker(cluster: Cluster, flow: FlowSettings, monkeypatch: pytest.MonkeyPatch):
    """A coordinator answers a commit before it writes the marker: on a busy one that takes a while."""

    class Late(Producer):
        def commit_transaction(self, *given: float) -> None:
            self.flush()
            threading.Timer(1.0, super().commit_transaction, given).start()

    monkeypatch.setattr(signed_log, "Producer", Late)
    assert claim(cluster.settings, flow, Automatic("o1", "run-o1", 1_000, ("test",)), 3600.0) == ""


def test_a_claim_that_is_not_decided_counts_as_a_failover(cluster: Cluster, flow: FlowSettings):
    ensure_board(cluster, flow)
    with following(cluster.settings, flow) as board:
        assert board.automatic is None
        out = producer(cluster.settings, transactional_id=f"claim-{uuid.uuid4().hex}")
        out.init_transactions(30)
        out.begin_transaction()
        value = Automatic("o1", "run", 1_000, ("test",)).encode()
        headers = board._log.signatures.text_headers(Automatic.KEY.encode(), value)
        out.produce(topic_name(flow), value, Automatic.KEY.encode(), partition=0, headers=headers)
        assert out.flush(30) == 0
        eventually(lambda: board.automatic is not None, what="the doubt")
        assert read_notes(cluster, flow).automatic is not None
        out.abort_transaction(30)
        eventually(lambda: board.automatic is None, what="the end of the doubt")


@pytest.mark.parametrize("is_open", [False, True])
def test_the_copy_of_an_aborted_resume_ends_no_pause(cluster: Cluster, flow: FlowSettings, *, is_open: bool):
    """The copy is written before the abort or after it, with another transaction open or not."""
    name, key = topic_name(flow), Pause.KEY.encode()
    pause(cluster, flow)
    with ExitStack() as stack:
        board = stack.enter_context(following(cluster.settings, flow))
        if is_open:
            stack.enter_context(open_transaction(cluster.settings, name))
        with open_transaction(cluster.settings, name) as out:
            ((header, mac),) = board._log.signatures.headers(key, None)
            out.produce(name, None, key, partition=0, headers={header.decode(): mac})
            assert out.flush(30) == 0
            copy = Record(0, 0, key, None, ((header, mac),))
            write_again(cluster.settings, name, [copy])
            put_note(cluster, flow, Automatic.KEY, Automatic("o1", "run", 1, ("test",)).to_json())
            eventually(lambda: board.automatic is not None, what="what follows the copy")
            eventually(lambda: "that writes it is open" in board.pause, what="the doubt")
        write_again(cluster.settings, name, [copy])
        put_note(cluster, flow, Automatic.KEY, None)
        eventually(lambda: board.automatic is None, what="what follows the copies")
        eventually(lambda: "maintenance" in board.pause, what="the marker")
        assert "maintenance" in read_notes(cluster, flow).pause
        found = adopt.TopicRecords(name, "b", SignedTopic.NOTES)
        adopt._read(found, cluster, KEYS)
        assert [r.sign for r in found.records if r.key == key] == [
            adopt.Sign.CURRENT,
            *2 * [adopt.Sign.WRONG],
        ]
    assert "maintenance" in read_notes(cluster, flow).pause


def test_the_tombstone_of_an_earlier_resume_ends_no_pause(cluster: Cluster, flow: FlowSettings):
    pause(cluster, flow)
    resume(cluster, flow)
    pause(cluster, flow)
    with following(cluster.settings, flow) as board:
        repeat(cluster.settings, topic_name(flow))
        assert "maintenance" in read_notes(cluster, flow).pause
        resume(cluster, flow)  # what is written after it is read after it
        eventually(lambda: not board.pause, what="the resume")
        pause(cluster, flow)
        eventually(lambda: "maintenance" in board.pause, what="the pause")


def test_the_copy_of_an_old_resume_ends_no_pause_after_compaction(cluster: Cluster, flow: FlowSettings):
    """Votes are replaced each second: nothing that precedes the copy is left, and the pause is gone, too."""
    name, out, key = topic_name(flow), producer(cluster.settings), Pause.KEY.encode()
    ensure_board(cluster, flow)
    compact_at_once(cluster, name)
    hour_ago = wall_ms() - 3_600_000
    resumed = signatures_in(cluster, name, lambda: hour_ago).text_headers(key, None)
    pause(cluster, flow)
    out.produce(name, None, key, partition=0, headers=resumed)
    assert out.flush(30) == 0
    assert "maintenance" in read_notes(cluster, flow).pause

    def is_alone() -> bool:
        put_note(cluster, flow, "vote/o1", {})  # it rolls the segment
        return [r.value for r in stored(cluster.settings, name) if r.key == key] == [None]

    eventually(is_alone, seconds=120, what="the cleaner")
    assert "cannot be read" in read_notes(cluster, flow).pause
    with following(cluster.settings, flow) as board:
        assert "cannot be read" in board.pause
        resume(cluster, flow)
        eventually(lambda: not board.pause, what="the resume")


def compact_at_once(cluster: Cluster, topic: str) -> None:
    configs = {"segment.ms": "50", "min.cleanable.dirty.ratio": "0", "max.compaction.lag.ms": "1"}
    assert alter_topic_configs(cluster, {topic: configs}) == {}


def test_no_earlier_record_makes_a_promoted_topic_passive(cluster: Cluster, flow: FlowSettings):
    ensure_state_topic(cluster, flow)
    with StateTopic(cluster.settings, flow.source) as state:
        state.load()
        state.put(RoleRecord(Role.FROZEN, 1, "drill", 1), "pay")
        state.delete(RoleRecord, "pay")
        state.put(PROMOTED, "pay")
        repeat(cluster.settings, state.name)
        state.load()
        assert state.get(RoleRecord, "pay") == PROMOTED
    with StateTopic(cluster.settings, flow.source) as fresh:
        fresh.load()
        assert fresh.get(RoleRecord, "pay") == PROMOTED


def test_forged_entries_of_fences_stop_no_switchover(settings: ClusterSettings, flow: FlowSettings):
    """They are named, and an abort at the source is refused (`source_record_untrusted`)."""
    with FenceTopic(settings, flow) as fences:
        fences.append(fences.entry(FenceMark.RAISED, "r1", 1, topics=["pay"]))
        forged = fences.entry(FenceMark.LIFTED, "r1", 1, topics=["pay"]).encode()
        out = producer(settings)
        out.produce(fences.name, forged, b"r1/forged", partition=0)
        assert out.flush(30) == 0
        log = fences.append(fences.entry(FenceMark.OPENING, "r1", 1))
        assert log.records["r1"].mark is FenceMark.OPENING
        assert log.unreadable == ["r1/forged: it has no MAC"]
        with pytest.raises(Refused, check=coded("source_record_untrusted")):
            _abortable(log, fences, Failed("own_topic_unreadable"))


def test_no_record_of_another_cluster_counts(cluster: Cluster, source: LocalCluster, flow: FlowSettings):
    """The third cluster has a topic of the same name, signed with the same key."""
    third = Cluster.connect(
        ClusterSettings(alias="c", bootstrap_servers=source.bootstrap()).with_control(KEYS)
    )
    name = topic_name(flow)
    pause(cluster, flow)
    with following(cluster.settings, flow) as board:
        eventually(lambda: "maintenance" in board.pause, what="the pause")
        pause(third, flow)
        resume(third, flow)
        write_again(cluster.settings, name, stored(third.settings, name))
        assert "its MAC is wrong" in read_notes(cluster, flow).pause, "as for any forged record"
        marker = AgentNote("p-1", "r", 1, Hold.LEASED, 1)  # what is written after them is read after them
        put_note(cluster, flow, AgentNote.key("p-1"), marker.to_json())
        eventually(lambda: board.all(AgentNote), what="the marker")
        assert "maintenance" in board.pause


def test_a_pause_outlives_its_topic_for_those_who_read_it(
    cluster: Cluster, flow: FlowSettings, capsys: pytest.CaptureFixture[str]
):
    observe.setup()
    pause(cluster, flow)
    with following(cluster.settings, flow) as board:
        eventually(lambda: "maintenance" in board.pause, what="the pause")
        admin = AdminClient({"bootstrap.servers": cluster.settings.bootstrap_servers})
        admin.delete_topics([topic_name(flow)])[topic_name(flow)].result(30)
        eventually(lambda: not describe_topics(cluster, [topic_name(flow)]), what="the topic gone")
        ensure_board(cluster, flow)
        logged = ""

        def is_reported() -> bool:
            nonlocal logged
            logged += capsys.readouterr().err
            return sentence("log_restarted") in logged

        eventually(is_reported, what="the error")
        assert "maintenance" in board.pause
        assert read_notes(cluster, flow).pause == "", "who begins later does not know of it"
        resume(cluster, flow)
        eventually(lambda: not board.pause, what="the resume")


def repeat(settings: ClusterSettings, topic: str) -> None:
    """Write all records but the newest once more, with their headers, as a client without the key can."""
    write_again(settings, topic, stored(settings, topic)[:-1])


def test_a_record_that_unpacks_to_much_more_ends_no_reader(settings: ClusterSettings, flow: FlowSettings):
    """The topic was created before its settings bounded what brokers take."""
    cluster, name = Cluster.connect(settings), topic_name(flow)
    create(settings, name)
    pause(cluster, flow)
    resume(cluster, flow)
    before = peak_bytes()
    append(settings, name, bomb(256))
    with following(settings, flow) as board:
        pause(cluster, flow)
        eventually(lambda: "maintenance" in board.pause, what="the pause")
    assert "maintenance" in read_notes(cluster, flow).pause
    assert peak_bytes() - before < 128 * _MIB
    resume(cluster, flow)
    assert read_notes(cluster, flow).pause == ""


def test_after_such_a_record_alone_failovers_are_paused(settings: ClusterSettings, flow: FlowSettings):
    """Compaction may have removed a pause in its favour."""
    cluster, name = Cluster.connect(settings), topic_name(flow)
    create(settings, name)
    append(settings, name, bomb(64))
    assert "cannot be read" in read_notes(cluster, flow).pause
    resume(cluster, flow)
    assert read_notes(cluster, flow).pause == ""


def test_a_batch_of_very_many_records_is_passed_over(settings: ClusterSettings, flow: FlowSettings):
    """Kilobytes hold millions of empty ones: to take them apart took longer than a lease lasts."""
    cluster, name = Cluster.connect(settings), topic_name(flow)
    create(settings, name)
    pause(cluster, flow)
    empty = tuple(Record(n, 0, b"", None) for n in range(100_001))
    append(settings, name, bytearray(Batch(0, empty, codec=1).to_bytes()))
    records: list[Record] = []
    passed_over: list[tuple[int, str]] = []
    tp = TopicPartition(name, 0)
    with closing(LogTail(settings, tp, records.append, lambda *batch: passed_over.append(batch))) as tail:
        tail.read(30)
    assert [record.key for record in records] == [Pause.KEY.encode()]
    assert passed_over == [(1, "a batch of 100,001 records")]
    assert "cannot be read" in read_notes(cluster, flow).pause


def test_brokers_take_no_such_record_for_a_topic_that_drkit_created(
    settings: ClusterSettings, flow: FlowSettings
):
    ensure_board(Cluster.connect(settings), flow)
    with pytest.raises(AssertionError, match="10"):  # MESSAGE_TOO_LARGE
        append(settings, topic_name(flow), bomb(64))


def test_brokers_take_no_such_record_for_an_offset_map(settings: ClusterSettings, flow: FlowSettings):
    cluster = Cluster.connect(settings)
    ensure_state_topic(cluster, flow)
    with StateTopic(settings, flow.source) as state:
        state.load()
        ensure_offset_map(cluster, flow, state)
    with pytest.raises(AssertionError, match="10"):  # MESSAGE_TOO_LARGE
        append(settings, offset_map_topic(flow.source), bomb(64))


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_neither_an_open_transaction_nor_a_large_record_stops_the_journal(
    settings: ClusterSettings, flow: FlowSettings
):
    name = journal_topic(flow.source)
    create(settings, name)
    opening = {"scope": {"topics": {}, "groups": []}, "request": {}, "decision": {}, "holder": {"token": "x"}}
    entries = [
        JournalEntry("r", 0, "x", 1, EntryKind.RUN, None, "", 1, opening),
        JournalEntry("r", 1, "x", 1, EntryKind.HELD, None, "", 1, {}),
    ]
    loop = EventLoop()
    raw = RawCluster(loop, settings, "test")
    journal = JournalTopic(raw, flow.source, "b")

    async def write(entry: JournalEntry) -> bool:
        await raw.connected()
        await journal.read()
        if entry.number == 0:
            await journal.take_epoch()
        return await journal.append(entry)

    try:
        assert loop.run(write, entries[0])
        with open_transaction(settings, name):
            append(settings, name, bomb(256))
            before = peak_bytes()
            assert loop.run(write, entries[1])
            assert peak_bytes() - before < 128 * _MIB
            assert journal.history.runs["r"].entries == entries
            assert journal.dropped.count == 1
            missing = JournalTopic(raw, f"no-{flow.source}", "b")
            assert [loop.run(each.exists) for each in (journal, missing)] == [True, False]
    finally:
        raw.close()
        loop.close()


def test_a_record_that_unpacks_to_much_more_ends_no_reader_of_an_offset_map(
    settings: ClusterSettings, flow: FlowSettings
):
    """The map was created before its settings bounded what brokers take."""
    name = offset_map_topic(flow.source)
    create(settings, name)
    loop = EventLoop()
    raw = RawCluster(loop, settings, "test")
    try:
        loop.run(raw.connected)
        for number in range(2):
            key = MapKey(UUID(int=1), UUID(int=2), number)
            signatures = signatures_in(Cluster.connect(settings), name)
            batch, _ = batch_of(pairs([(key, Mark(1, History(7, 0), 5, 5, 5, 0, 0))]), wall_ms(), signatures)
            stamp(batch, -1, -1, -1, transactional=False)
            append(settings, name, batch)
            append(settings, name, bomb(300))
        before = peak_bytes()
        [bucket] = load(loop, raw, name, [0]).values()
        assert peak_bytes() - before < 128 * _MIB
        assert {key.partition for key in bucket.marked} == {0, 1}
        assert (bucket.next_offset, bucket.doubtful) == (4, {})
        assert bucket.passed_over is not None  # no partition's map is reliable any more
        assert bucket.passed_over.offset == 1
        assert bucket.doubt(MapKey(UUID(int=1), UUID(int=2), 0)) is not None
    finally:
        raw.close()
        loop.close()


def test_who_shows_a_journal_reads_on_where_a_failover_refuses(settings: ClusterSettings, flow: FlowSettings):
    """It has entries of a later drkit and of a stranger, behind an open transaction, and is created again."""
    name = journal_topic(flow.source)
    create(settings, name)
    loop = EventLoop()
    raw = RawCluster(loop, settings, "test")
    opening = {"scope": {"topics": {"orders": "orders"}}, "holder": {"token": "x"}}
    entries = {run: JournalEntry(run, 0, "x", 1, EntryKind.RUN, None, "", 1, opening) for run in ("r1", "r2")}
    acting, showing = JournalTopic(raw, flow.source, "b"), JournalReader(raw, flow.source, tolerant=True)

    async def write(entry: JournalEntry) -> bool:
        writer = JournalTopic(raw, flow.source, "b")
        await raw.connected()
        await writer.read_existing()
        await writer.take_epoch()
        return await writer.append(entry)

    def runs(reader: JournalReader) -> list[str]:
        history: JournalHistory = loop.run(reader.read_existing)
        return list(history.runs)

    try:
        assert loop.run(write, entries["r1"])
        later = entries["r1"].to_json().replace('"run"', '"paused"').replace('"number":0', '"number":1')
        headers = signatures_in(Cluster.connect(settings), name).text_headers(b"r1", later.encode())
        with open_transaction(settings, name) as stranger:
            assert runs(acting) == runs(showing) == ["r1"]
            out = producer(settings)
            out.produce(name, entries["r2"].to_json(), b"r2", partition=0)
            out.produce(name, later, b"r1", partition=0, headers=headers)
            assert out.flush(30) == 0
            assert runs(showing) == ["r1"]
            with pytest.raises(Failed, check=coded("journal_not_understood")):
                runs(acting)
            stranger.abort_transaction(30)
        admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
        admin.delete_topics([name])[name].result(30)
        eventually(lambda: not loop.run(showing.exists), what="the journal gone")
        assert runs(showing) == ["r1"]
        create(settings, name)
        assert loop.run(write, entries["r2"])
        assert runs(showing) == ["r2"]
        with pytest.raises(ClusterUnreachable, check=coded("journal_unreachable")):
            runs(acting)
    finally:
        raw.close()
        loop.close()
