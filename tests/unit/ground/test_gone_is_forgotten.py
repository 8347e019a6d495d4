"""What is gone is forgotten by the objects that live as long as their process."""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.copy_task.core.partition import PartitionCopy
from drkit.copy_task.source.leaders import LeaderWatch
from drkit.detect.agents import Lease
from drkit.detect.seen import Sight
from drkit.detect.votes import Vote
from drkit.flow_state import events
from drkit.flow_state.copied_topics import CopiedTopics, Producers
from drkit.flow_state.events import TopicEvents
from drkit.flow_state.records import EventRecord, RoleRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.groups import asking, requests
from drkit.kafka.groups.asking import Coordinators
from drkit.kafka.groups.requests import Groups
from drkit.kafka.requests import LATEST, ListedOffset, PartitionLeader, TopicMetadata
from drkit.mm2_topics import offset_syncs
from drkit.mm2_topics.offset_syncs import OffsetSyncs
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket
from drkit.offset_map.locate import PartitionLocator
from drkit.offset_map.removed import RemovedLook
from drkit.pair import reverse_flow
from drkit.pair.reverse_flow import OppositeFlows
from drkit.replicate import flow_run
from drkit.replicate.flow_run import InternalTopics
from drkit.status.pair import reading
from drkit.status.pair.reading import DeltaLook
from drkit.watch.observer import Observer

DAY_MS = 86_400_000
PAY = TopicPartition("pay", 0)


def result(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that waits for nothing."""
    with pytest.raises(StopIteration) as end:
        coroutine.send(None)
    return end.value.value


def metadata_of(name: str, number: int) -> TopicMetadata:
    leader = PartitionLeader(1, 0, (1,), (1,))
    return TopicMetadata(name=name, topic_id=UUID(int=number), leaders={0: leader}, error=0)


def known(*names: str, generation: int = 1) -> CopiedTopics:
    ids = UUID(int=generation), UUID(int=100 + generation)
    return CopiedTopics({name: (name, *ids) for name in names}, Producers(1, frozenset()))


def test_an_observer_keeps_nothing_of_a_partition_of_which_nothing_was_written():
    locator = PartitionLocator(None, "map")  # type: ignore[arg-type]  # not asked
    locator.topics = {"map": metadata_of("map", 9)}
    locator._buckets = {0: MapBucket(0, "map")}
    assert locator.state(known("pay").pair("pay", 0)).tail is None
    assert locator._buckets[0].partitions == {}


def test_the_retention_of_partitions_that_are_gone_is_forgotten():
    look = RemovedLook()
    look.due = {TopicPartition("gone", 0): (None, 5), PAY: (None, 5)}
    target: Any = None
    assert result(look.missing((None, target), {known("pay").pair("pay", 0): None}, {}, frozenset())) == {}  # type: ignore[dict-item]
    assert look.due == {PAY: (None, 5)}


def test_the_first_record_of_promotions_that_are_over_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    async def metadata(_cluster: object, names: list[str]) -> dict[str, TopicMetadata]:
        return {name: metadata_of(name, 1) for name in names}

    async def list_offsets(_cluster: object, _node: int, asked: dict[Any, int], **_more: object) -> Any:
        return {at: ListedOffset(0, 10 if which == LATEST else 0, 0) for at, which in asked.items()}

    async def first_ms(*_asked: object) -> int:
        return 77

    monkeypatch.setattr(reading, "metadata", metadata)
    monkeypatch.setattr(reading, "list_offsets", list_offsets)
    monkeypatch.setattr(reading, "_first_ms", first_ms)
    look, cluster = DeltaLook(), SimpleNamespace()
    for run in ("r1", "r2", "r3"):
        role: Any = SimpleNamespace(run_id=run, ends={0: 5})
        found = result(look.partitions(cluster, {"pay": role}, sizes=False))  # type: ignore[arg-type]
        assert found["pay"][0].oldest_ms == 77
    assert look._oldest == {("r3", PAY): 77}


def test_a_topic_that_is_created_again_and_again_leaves_one_end(monkeypatch: pytest.MonkeyPatch):
    syncs = object.__new__(OffsetSyncs)
    syncs._state = SimpleNamespace(records=FlowState())  # type: ignore[assignment]
    syncs._held, syncs._seen, syncs._topics = {}, {}, frozenset({"pay"})
    syncs._open = lambda: SimpleNamespace(write=list)  # type: ignore[method-assign,assignment,return-value]
    syncs._planned = None  # type: ignore[method-assign,assignment]
    for generation in range(5):
        now = known("pay", generation=generation)
        monkeypatch.setattr(offset_syncs, "known_of", lambda _state, now=now: now)
        seen = {now.pair("pay", 0): 7}
        syncs._loop = SimpleNamespace(run=lambda *_asked, seen=seen: ({}, seen))  # type: ignore[assignment]
        syncs.look()
    assert syncs._seen == seen


def test_coordinators_of_as_many_groups_as_there_are_are_remembered(monkeypatch: pytest.MonkeyPatch):
    async def two(_cluster: object) -> tuple[list[Any], int]:
        listed = (SimpleNamespace(group_id=g, group_state="", group_type="", protocol_type="") for g in "yz")
        return list(listed), 0

    monkeypatch.setattr(requests, "list_everywhere", two)
    groups = Groups(None)  # type: ignore[arg-type]  # not asked
    groups._coordinators._of = {f"g{number}": 1 for number in range(1000)}
    assert set(result(groups.listed())) == {"y", "z"}
    assert list(groups._coordinators._of) == ["g998", "g999"]
    assert not hasattr(asking, "_REMEMBERED"), "no fixed number of groups"
    assert Coordinators(None)._of == {}  # type: ignore[arg-type]


def test_a_fence_agent_forgets_observers_that_ended():
    lease = Lease(3, 10.0)
    for number in range(50):
        lease.heard(f"pod-{number}", lease.ask(float(number)))
    for number in range(2000):
        lease.heard("pod", lease.ask(50.0 + number))
    assert set(lease._answered) == {"pod"}


def test_a_stranger_that_writes_one_key_again_and_again_leaves_one_line(monkeypatch: pytest.MonkeyPatch):
    internal = object.__new__(InternalTopics)
    internal._reported = type(internal._reported)() if hasattr(internal, "_reported") else {}
    records = FlowState()
    internal._state = SimpleNamespace(records=records, name="drkit-state.a.internal")  # type: ignore[assignment]
    internal._flow, internal._target = SimpleNamespace(name="a->b"), SimpleNamespace(alias="b")  # type: ignore[assignment]
    monkeypatch.setattr(flow_run, "restore", lambda *_key: True)
    for offset in range(100):
        records.refuse(b"role/pay", "it has no MAC", offset)
        internal.restore()
    assert len(internal._reported) == 1


def test_state_topics_that_were_deleted_are_no_strangers(monkeypatch: pytest.MonkeyPatch):
    opposite = object.__new__(OppositeFlows)
    opposite._others, opposite._strangers, opposite.source = {}, {"drkit-state.x.internal"}, None  # type: ignore[assignment]
    opposite._named = set()
    opposite._unnamed = SimpleNamespace(keep=list)  # type: ignore[assignment]
    monkeypatch.setattr(reverse_flow, "topic_names", lambda _cluster: [])
    monkeypatch.setattr(reverse_flow, "newest_values", lambda *_asked, **_more: {})
    opposite.find()
    assert opposite._strangers == set()


def test_a_worker_forgets_partitions_that_its_task_does_not_have():
    mine = PartitionCopy(PartitionAssignment("pay", str(UUID(int=1)), "pay", str(UUID(int=2)), 0, 0))
    links = SimpleNamespace(unavailable={PAY, TopicPartition("gone", 0)})
    task: Any = SimpleNamespace(
        loop=SimpleNamespace(), partitions=[mine], links=links, flow=SimpleNamespace(fetch_max_wait_ms=500)
    )
    LeaderWatch(task)
    assert links.unavailable == {PAY}


class Board:
    """The notes of one topic."""

    def __init__(self, *votes: Vote) -> None:
        self.votes, self.published = votes, list[tuple[str, object]]()

    def all(self, _kind: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(body=vote) for vote in self.votes]

    def publish(self, key: str, note: object) -> None:
        self.published.append((key, note))


@pytest.mark.parametrize("votes", [True, False])
def test_votes_of_observers_that_ended_are_deleted(*, votes: bool):
    def vote(name: str, at_ms: int) -> Vote:
        return Vote(name, "r", 1, at_ms, Sight.CLEAR)

    board = Board(vote("pod-1", 1), vote("pod-2", 2 * DAY_MS), vote("ahead", 9 * DAY_MS))
    observer: Any = SimpleNamespace(identity=SimpleNamespace(votes=votes))
    Observer._forget_ended(observer, board, vote("pod-3", 2 * DAY_MS))  # type: ignore[arg-type]
    assert board.published == ([("vote/pod-1", None)] if votes else [])


class State:
    """Events of a flow's state."""

    def __init__(self) -> None:
        self.records, self.at_ms = FlowState(), 0

    def get(self, kind: type[EventRecord], name: str) -> EventRecord | None:
        return self.records.get(kind, name)

    def emit(self, kind: str, topic: str, **fields: object) -> None:
        record = EventRecord(kind, topic, -1, self.at_ms, fields)
        self.records.keep(record.key(record.name), record, record.encode())

    def delete_all(self, kind: type[EventRecord], names: list[str]) -> None:
        for name in names:
            self.records.take(kind.key(name).encode(), None)


def test_findings_about_what_is_gone_leave_no_memory_and_no_record(monkeypatch: pytest.MonkeyPatch):
    """An ACL for each short-lived topic or group that stays left out, until it is deleted."""
    now = [0.0]
    monkeypatch.setattr(events, "monotonic", lambda: now[0], raising=False)
    monkeypatch.setattr(events, "wall_ms", lambda: round(1000 * now[0]), raising=False)
    state = State()
    found = TopicEvents(SimpleNamespace(name="a->b"), state, effects=True)  # type: ignore[arg-type]
    for day in range(60):
        now[0], state.at_ms = 86_400.0 * day, DAY_MS * day
        for which in ("lasting", f"topic of day {day}"):
            found.once("acl_left_out", which, which)
        found.written("config_drift", "pay", level="info")
        found.forget({"acl_left_out"}, 7 * DAY_MS)
    left = sorted(event.topic for event in state.records.readable(EventRecord).values())
    assert left == ["lasting", "pay", *(f"topic of day {day}" for day in range(52, 60))]
    assert [topic for _, topic, _ in found._reported][-2:] == ["lasting", "topic of day 59"]
    assert len(found._reported) <= 4
    assert deque(state.records.readable(RoleRecord)) == deque()
