"""The control key of a pair is replaced by another one: what its predecessor signed counts in every topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any
import uuid

import pytest

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.control_key import ControlKey, ControlKeys, Signatures, SignedTopic
from drkit.detect.note_kinds import Pause
from drkit.detect.noticeboard import put_note, read_notes
from drkit.errors import Failed, Refused
from drkit.failover import adopt
from drkit.failover.adopt import SIGN_ALL, look, sign_all
from drkit.flow_state import names
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.records import PromotionRecord, Role, RoleRecord, SourceSeenRecord
from drkit.flow_state.source_fence.entries import FenceMark, FenceRecord
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.flow_state.state import Damaged
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import deliver
from drkit.kafka.reading.signed_log import SignedLog
from drkit.kafka.topics import ALL_KEPT, delete_topics, describe_topics, ensure_own_topic
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.wire import Record
from tests.support.errors import coded
from tests.support.failover.command import drkit
from tests.support.failover.control_key import KEYS, buckets, configured
from tests.support.failover.truth import values
from tests.support.failover.world import World
from tests.support.flow_state.keys import previous_version, signatures_in
from tests.support.flows.produce import fill
from tests.support.kafka.attacks import stored, write_again
from tests.support.waiting import eventually

OLD, NEW = (ControlKey.of(text.encode()) for text in KEYS)
OPEN = FenceMark.OPENING, FenceMark.OPENED
ALL = 9
WITHOUT_MAC = {"drill_topic", "quarantine_topic"}


def places(world: World) -> dict[object, object]:
    """What the map says of each partition."""
    return {
        key: (found.segments.triples(), found.tail, found.claims(), found.broken)
        for bucket in buckets(world).values()
        for key, found in bucket.partitions.items()
    }


@pytest.mark.wide
def test_what_the_old_key_signed_is_signed_with_the_new_one_and_copying_continues(
    world: World, tmp_path: Path
):
    topic = world.name("orders")
    world.create(world.source, topic, 2, {"retention.ms": "-1"})
    configured(world, tmp_path, KEYS[0])
    for first in (0, 200):
        world.replicate()
        fill(world.source, topic, 200, first=first)
        world.copied([topic])
        world.stop_replicating()
    before = places(world)
    assert before
    file = configured(world, tmp_path, KEYS[1], KEYS[0])
    said = drkit(file, "control", "adopt", "--yes")
    assert said.code == 0, said.err
    assert places(world) == before, "with both keys configured, what each of them signed is read"
    for first, keys in ((400, (KEYS[1], KEYS[0])), (600, (KEYS[1],))):
        file = configured(world, tmp_path, *keys)
        world.replicate()
        fill(world.source, topic, 200, first=first)
        world.copied([topic])
        world.stop_replicating()
        assert drkit(file, "control", "check").code == 0
    theirs, ours = (world.records(c, topic) for c in (world.source, world.target))
    assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}


BACKWARDS = {"source_of_state_topic", "target_of_fence_topic"}
"""Functions from the name of a topic to an alias."""


def test_every_topic_that_drkit_names_is_signed_again_or_has_no_mac():
    named = {
        name: function("a", "b") if function.__code__.co_argcount > 1 else function("a")
        for name, function in vars(names).items()
        if name.endswith("_topic") and name not in {*WITHOUT_MAC, *BACKWARDS}
    }
    assert set(named.values()) == {kind.of("a", "b") for kind in SignedTopic}
    with pytest.raises(ValueError, match="drkit-new"):
        Signatures(ControlKeys(NEW), TopicPartition("drkit-new.a.internal", 0))


@pytest.fixture
def settings(source: LocalCluster, target: LocalCluster, tmp_path: Path) -> Settings:
    """The new key signs, and the old one still counts."""
    files = []
    for number, text in enumerate(KEYS):
        files.append(tmp_path / f"{number}.key")
        files[-1].write_text(text)
        files[-1].chmod(0o600)
    alias = f"a{uuid.uuid4().hex[:8]}"
    clusters = {
        alias: {"bootstrap_servers": source.bootstrap()},
        "b": {"bootstrap_servers": target.bootstrap()},
    }
    return Settings.model_validate(
        {
            "clusters": clusters,
            "flows": [{"source": alias, "target": "b", "buckets": 1}],
            "control": {"key_file": str(files[1]), "previous_key_files": [str(files[0])]},
        }
    )


def values_in(settings: ClusterSettings, topic: str) -> list[bytes | None]:
    """The values that count for a reader with the new key only."""
    found: list[bytes | None] = []

    def take(record: Record, why: str) -> None:
        if not why and record.key not in {names.ADOPTED, b"control-key"}:
            found.append(record.value)

    with closing(SignedLog(settings.with_control(ControlKeys(NEW)), topic, take)) as log:
        log.load()
    return found


def test_what_the_old_key_signed_counts_in_every_topic(settings: Settings):
    (flow,) = settings.flows
    value = PromotionRecord(1, "run", 1).encode()
    topics = {}
    for kind in SignedTopic:
        side = settings.sides(flow)[0 if kind is SignedTopic.FENCES else 1]
        topics[kind] = side, kind.of(flow.source, flow.target)
        ensure_own_topic(Cluster.connect(side), topics[kind][1], {"cleanup.policy": "compact"})
        key = Pause.KEY if kind is SignedTopic.NOTES else PromotionRecord.key()
        old = side.with_control(ControlKeys(OLD))
        with closing(SignedLog(old, topics[kind][1], lambda _record, _why: None)) as log:
            log.append((key.encode(), value))
    assert not any(values_in(*where) for where in topics.values())
    sign_all(look(settings, flow))
    assert {kind: values_in(*where) for kind, where in topics.items() if kind is not SignedTopic.MAP} == {
        kind: [value] for kind in SignedTopic if kind is not SignedTopic.MAP
    }
    assert value in values_in(*topics[SignedTopic.MAP])
    assert sum(sign_all(look(settings, flow)).values()) == 0, "nothing is left to sign"


def gone(cluster: Cluster, topic: str) -> bool:
    return not describe_topics(cluster, [topic])


@pytest.mark.wide
def test_topics_that_were_restored_by_copying_are_signed_again(settings: Settings):
    """Their ids are others, so their records do not count before."""
    (flow,) = settings.flows
    value = PromotionRecord(1, "run", 1).encode()
    topics = {}
    for kind in SignedTopic:
        side = settings.sides(flow)[0 if kind is SignedTopic.FENCES else 1].with_control(ControlKeys(NEW))
        topics[kind] = side, kind.of(flow.source, flow.target)
        cluster, name = Cluster.connect(side), topics[kind][1]
        ensure_own_topic(cluster, name, {"cleanup.policy": "compact"})
        key = Pause.KEY if kind is SignedTopic.NOTES else PromotionRecord.key()
        with closing(SignedLog(side, name, lambda _record, _why: None)) as log:
            log.append((key.encode(), value))
        saved = stored(side, name)
        delete_topics(cluster, [name])
        eventually(partial(gone, cluster, name), what="the topic gone")
        ensure_own_topic(cluster, name, {"cleanup.policy": "compact"})
        write_again(side, name, saved)
    assert not any(values_in(*where) for where in topics.values())
    found = look(settings, flow)
    assert found.lacks_mac
    sign_all(found)
    assert not any(values_in(*where) for where in topics.values()), "not without --again"
    sign_all(look(settings, flow), SIGN_ALL)
    assert {kind for kind, where in topics.items() if value in values_in(*where)} == set(SignedTopic)


def test_what_an_earlier_version_signed_is_signed_again(settings: Settings):
    (flow,) = settings.flows
    side = settings.sides(flow)[1].with_control(ControlKeys(NEW))
    cluster = Cluster.connect(side)
    ensure_state_topic(cluster, flow)
    name, record = names.state_topic(flow.source), PromotionRecord(1, "run", 1)
    key, value = record.key().encode(), record.encode()
    headers = previous_version(signatures_in(cluster, name), key, value, NEW)
    write_again(side, name, [Record(0, 0, key, value, headers)])
    assert values_in(side, name) == [value]
    assert sign_all(look(settings, flow))[f"{name} on {side.alias}"] == 2, "with the marker"
    newest = stored(side, name)[-2:]
    assert {r.key: (r.headers[0][1] or b"")[:1] for r in newest} == {key: b"\x03", b"control-key": b"\x03"}


def test_a_copy_that_compaction_left_alone_is_not_signed_again(settings: Settings):
    """Its readers refuse the key by name. A change of the key must not sign it."""
    (flow,) = settings.flows
    side, hour_ago = settings.sides(flow)[1].with_control(ControlKeys(OLD)), wall_ms() - 3_600_000
    cluster = Cluster.connect(side)
    ensure_state_topic(cluster, flow)
    with StateTopic(side, flow.source) as state:
        state.put(PromotionRecord(1, "run", 1))
    key, old = RoleRecord.key("pay").encode(), RoleRecord(Role.FROZEN, 1, "drill", 1).encode()
    signed = signatures_in(cluster, state.name, lambda: hour_ago)
    write_again(side, state.name, [Record(0, 0, key, old, signed.headers(key, old))])
    sign_all(look(settings, flow))
    for keys in (ControlKeys(NEW, (OLD,)), ControlKeys(NEW)):
        with StateTopic(side.with_control(keys), flow.source) as state:
            state.load()
            assert state.get(PromotionRecord) is not None
            with pytest.raises(Damaged) as refused:
                state.get(RoleRecord, "pay")
            assert "role/pay" in refused.value.evidence


@pytest.mark.wide
def test_records_of_megabytes_are_signed_again(settings: Settings):
    """The note of the ends grows with the partitions, and an entry of the journal takes a megabyte."""
    (flow,) = settings.flows
    side = settings.sides(flow)[1].with_control(ControlKeys(OLD))
    ensure_state_topic(Cluster.connect(side), flow)
    ensure_own_topic(Cluster.connect(side), names.journal_topic(flow.source), ALL_KEPT)
    large = {
        names.state_topic(flow.source): (SourceSeenRecord.KEY.encode(), b"x" * (3 << 20)),
        names.journal_topic(flow.source): (b"run", b"y" * 1_000_000),
    }
    for topic, record in large.items():
        with closing(SignedLog(side, topic, lambda _record, _why: None)) as log:
            log.append(record)
    sign_all(look(settings, flow))
    assert {topic: values_in(side, topic) for topic in large} == {
        t: [value] for t, (_, value) in large.items()
    }


@pytest.mark.wide
@pytest.mark.parametrize("size", [None, "4000000"])
def test_a_large_journal_is_signed_in_batches_that_its_reader_takes(settings: Settings, size: str | None):
    """A cluster's properties may ask for larger ones."""
    (flow,) = settings.flows
    side = settings.sides(flow)[1]
    if size is not None:
        side.client["batch.size"] = size
    topic = names.journal_topic(flow.source)
    ensure_own_topic(Cluster.connect(side), topic, ALL_KEPT)
    entries = [b"%d" % n + b"y" * 900_000 for n in range(6)]
    with closing(SignedLog(side.with_control(ControlKeys(OLD)), topic, lambda _record, _why: None)) as log:
        for entry in entries:
            log.append((b"run", entry))
    sign_all(look(settings, flow))
    assert values_in(side, topic) == entries


@pytest.mark.parametrize("kind", [SignedTopic.NOTES, SignedTopic.FENCES])
def test_what_is_written_while_topics_are_signed_is_not_replaced(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, kind: SignedTopic
):
    """A person pauses failovers, or a run raises a fence, after the topic was read."""
    (flow,) = settings.flows
    source, target = settings.sides(flow)
    old = target.with_control(ControlKeys(OLD))
    for note in (Pause("o", "earlier", 1).to_json(), None):
        put_note(Cluster.connect(old), flow, Pause.KEY, note)
    append(source, flow, ControlKeys(OLD), (FenceMark.RAISED, "r1"))
    both = ControlKeys(NEW, (OLD,))

    def signing_late(*given: Any) -> Any:
        if given[1] == kind.of(flow.source, flow.target):
            put_note(
                Cluster.connect(target.with_control(both)), flow, Pause.KEY, Pause("o", "now", 2).to_json()
            )
            append(source, flow, both, (FenceMark.RAISED, "r2"))
            monkeypatch.setattr(adopt, "deliver", deliver)
        return deliver(*given)

    monkeypatch.setattr(adopt, "deliver", signing_late)
    with pytest.raises(Refused, check=coded("adopt_state_changing")):
        sign_all(look(settings, flow))
    assert sign_all(look(settings, flow))
    assert "now" in read_notes(Cluster.connect(target.with_control(ControlKeys(NEW))), flow).pause
    with FenceTopic(source.with_control(ControlKeys(NEW)), flow) as fences:
        assert fences.read().records.keys() == {"r1", "r2"}


def append(
    settings: ClusterSettings, flow: FlowSettings, keys: ControlKeys | None, *marks: tuple[FenceMark, str]
) -> None:
    with FenceTopic(settings.with_control(keys), flow) as topic:
        for mark, run in marks:
            topic.append(topic.entry(mark, run, 1, topics=["pay"]))


def test_the_order_of_fences_outlives_the_key(settings: Settings):
    """While the key changes, entries of the old key precede one of the new key."""
    (flow,) = settings.flows
    side = settings.sides(flow)[0]
    append(side, flow, ControlKeys(OLD), (FenceMark.RAISED, "r1"), (FenceMark.ABORTED, "r1"))
    append(side, flow, ControlKeys(NEW, (OLD,)), (FenceMark.LIFTED, "r1"), (FenceMark.RAISED, "r2"))
    with FenceTopic(side.with_control(ControlKeys(NEW, (OLD,))), flow) as both:
        before = both.read().records
    with FenceTopic(side.with_control(ControlKeys(NEW)), flow) as new:
        assert set(new.read().records) == {"r2"}
        assert new.read().unreadable
        sign_all(look(settings, flow))
        assert new.read().records == before
        assert not new.read().unreadable
    append(side, flow, ControlKeys(NEW), (FenceMark.OPENING, "r2"))
    with FenceTopic(side.with_control(ControlKeys(NEW, (OLD,))), flow) as both:
        after = both.read().records
        assert after["r1"] == before["r1"]
        assert after["r2"].mark is FenceMark.OPENING


def test_fences_that_the_first_adoption_left_out_are_signed_on_demand(settings: Settings):
    """The source did not answer then. Afterwards a run with the key records another fence."""
    (flow,) = settings.flows
    side = settings.sides(flow)[0]
    append(side, flow, None, *((mark, "r1") for mark in (FenceMark.RAISED, *OPEN)))
    append(side, flow, ControlKeys(NEW), (FenceMark.RAISED, "r2"))
    assert len(values_in(side, names.fence_topic(flow.source, flow.target))) == 1
    assert sum(sign_all(look(settings, flow)).values()) == 0
    assert look(settings, flow).lacks_mac, "a person decides"
    sign_all(look(settings, flow), SIGN_ALL)
    assert not look(settings, flow).lacks_mac
    signed = {run: record.mark for run, record in fences(side, flow, ControlKeys(NEW)).items()}
    assert signed == {"r1": FenceMark.OPENED, "r2": FenceMark.RAISED}


def test_an_adoption_that_was_killed_does_not_hold_up_the_next(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Its transaction would hide the records for two minutes."""
    (flow,) = settings.flows
    side = settings.sides(flow)[1]
    ensure_state_topic(Cluster.connect(side), flow)
    with StateTopic(side.with_control(ControlKeys(OLD)), flow.source) as state:
        state.put(PromotionRecord(1, "run", 1))
    producers = list[Any]()

    def killed(producer: Any, *given: Any) -> Any:
        deliver(producer, *given)
        producers.append(producer)  # otherwise its end aborts the transaction
        raise Killed

    monkeypatch.setattr(adopt, "deliver", killed)
    with pytest.raises(Killed):
        sign_all(look(settings, flow))
    monkeypatch.undo()
    with pytest.raises(Failed, check=coded("own_topic_hidden")):
        sign_all(look(settings, flow))
    assert sum(sign_all(look(settings, flow, to_sign=True)).values()) > 0


class Killed(Exception):
    """Ends an adoption."""


@pytest.mark.wide
@pytest.mark.parametrize("sent", [1, 2, ALL], ids=["its mark", "its mark and an entry", "all, signed before"])
def test_two_adoptions_at_once_erase_no_fence(settings: Settings, monkeypatch: pytest.MonkeyPatch, sent: int):
    """The second one writes after the entries of the first, which then ends; it is killed, or late."""
    (flow,) = settings.flows
    side, both = settings.sides(flow)[0], ControlKeys(NEW, (OLD,))
    append(side, flow, ControlKeys(OLD), *((mark, "r1") for mark in (FenceMark.RAISED, *OPEN)))
    before = fences(side, flow, both)
    first, waiting = look(settings, flow), list[Any]()

    def interleaved(producer: Any, topic: str, records: Iterator[Any], seconds: float) -> Any:
        if not waiting:
            waiting.append((producer, records))
            with pytest.raises(Refused, check=coded("adopt_state_changing")):
                sign_all(first)
            if sent < ALL:
                raise Killed
            return waiting.pop()
        second, others = waiting.pop()
        mark, now = next(records), wall_ms()
        eventually(lambda: wall_ms() > now, what="a later order in the MACs of the second one")
        of_second = list(others) if sent == ALL else islice(others, sent)
        delivery = deliver(producer, topic, chain([mark], records), seconds)
        waiting.append(deliver(second, topic, of_second, seconds))
        return delivery

    monkeypatch.setattr(adopt, "deliver", interleaved)
    with pytest.raises((Killed, Refused)):
        sign_all(look(settings, flow))
    monkeypatch.undo()
    assert fences(side, flow, both) == before
    assert look(settings, flow).lacks_mac
    assert sum(sign_all(look(settings, flow)).values())
    assert fences(side, flow, both) == fences(side, flow, ControlKeys(NEW)) == before
    assert sum(sign_all(look(settings, flow)).values()) == 0


def fences(settings: ClusterSettings, flow: FlowSettings, keys: ControlKeys | None) -> dict[str, FenceRecord]:
    with FenceTopic(settings.with_control(keys), flow) as topic:
        log = topic.read()
        assert not log.unreadable
        return log.records


@pytest.mark.wide
def test_an_entry_between_those_that_are_signed_again_keeps_its_order(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    (flow,) = settings.flows
    side, both = settings.sides(flow)[0], ControlKeys(NEW, (OLD,))
    append(side, flow, ControlKeys(OLD), (FenceMark.RAISED, "r1"), (FenceMark.ABORTED, "r1"))

    def slow(producer: Any, topic: str, records: Iterator[Any], seconds: float) -> Any:
        def paused() -> Iterator[Any]:
            yield from islice(records, 2)
            producer.flush(seconds)
            append(side, flow, both, (FenceMark.LIFTED, "r1"))
            yield from records

        return deliver(producer, topic, paused(), seconds)

    monkeypatch.setattr(adopt, "deliver", slow)
    with pytest.raises(Refused, check=coded("adopt_state_changing")):
        sign_all(look(settings, flow))
    monkeypatch.undo()
    assert fences(side, flow, both)["r1"].lifted
    sign_all(look(settings, flow))
    assert fences(side, flow, ControlKeys(NEW))["r1"].lifted
