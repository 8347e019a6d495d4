"""What an error of a source partition leads to: never to silence."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kafka.errors import kafka_errors
import pytest

from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.copy_task.core.partition import PartitionCopy
from drkit.copy_task.source import leaders as source_errors
from drkit.kafka import codes
from drkit.kafka.requests import ListedOffset, TopicMetadata
from drkit.model import TopicPartition

TOPIC = UUID(int=1)


class Task:
    """A task that records its events."""

    def __init__(self, on_source_gap: str = "continue") -> None:
        self.flow = SimpleNamespace(on_source_gap=on_source_gap)
        self.links = SimpleNamespace(source=None)
        self.changed = SimpleNamespace(set=lambda: None)
        self.ending = ""
        self.events: list[str] = []

    def emit(self, kind: str, _p: PartitionCopy, **_fields: object) -> None:
        self.events.append(kind)

    def stop(self, p: PartitionCopy, kind: str, reason: str, **_evidence: object) -> None:
        p.stop(reason)
        self.events.append(kind)

    def trouble(self, p: PartitionCopy) -> None:
        p.void()


def partition(position: int = 50) -> PartitionCopy:
    made = PartitionCopy(PartitionAssignment("t", str(TOPIC), "t", str(UUID(int=2)), 0, 0))
    made.begin(upstream=position, downstream=0, copied_end=0, sequence=0, delta=None, leader_epoch=0)
    made.leader = 1
    return made


def result(coroutine: Coroutine[Any, Any, str]) -> str:
    """What a coroutine returns that waits for nothing."""
    with pytest.raises(StopIteration) as end:
        coroutine.send(None)
    return str(end.value.value)


def ask(task: Task, p: PartitionCopy, code: int) -> str:
    data = SimpleNamespace(error_code=code, diverging_epoch=None)
    return result(source_errors.source_trouble(task, p, data))  # type: ignore[arg-type]  # what it needs of one


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> dict[int, ListedOffset]:
    """Where the source's log begins and ends."""
    ends = {-2: ListedOffset(0, 0, 0), -1: ListedOffset(0, 100, 0)}

    async def listed(
        _cluster: None, _node: int, wanted: Mapping[TopicPartition, int], **_more: object
    ) -> dict[TopicPartition, ListedOffset]:
        return {tp: ends[when] for tp, when in wanted.items()}

    async def known(_cluster: None, topics: list[str]) -> dict[str, TopicMetadata]:
        return {t: TopicMetadata(0, TOPIC, {}) for t in topics}

    monkeypatch.setattr(source_errors, "list_offsets", listed)
    monkeypatch.setattr(source_errors, "metadata", known)
    return ends


@pytest.mark.usefixtures("log")
def test_every_error_code_leaves_a_reason_or_an_event() -> None:
    for code in {*kafka_errors, 9999} - {codes.NONE}:
        task, p = Task(), partition()
        reason = ask(task, p, code)
        assert reason or task.events, code
        assert not reason or f"({code})" in reason
    assert "KafkaStorageError (56)" in ask(Task(), partition(), codes.KAFKA_STORAGE_ERROR)


@pytest.mark.parametrize(
    ("position", "event", "reason"),
    [
        (0, "", "OffsetOutOfRangeError (1), though offset 0 lies between 0 and 100"),
        (100, "", "OffsetOutOfRangeError (1), though offset 100 lies between 0 and 100"),
        (101, "source_diverged", ""),
    ],
)
@pytest.mark.usefixtures("log")
def test_an_offset_that_is_refused_though_it_is_in_the_log(position: int, event: str, reason: str) -> None:
    task = Task()
    assert ask(task, partition(position), codes.OFFSET_OUT_OF_RANGE) == reason
    assert task.events == ([event] if event else [])


def test_a_log_that_does_not_say_where_it_begins_is_a_reason(log: dict[int, ListedOffset]) -> None:
    log[-2] = ListedOffset(codes.KAFKA_STORAGE_ERROR, -1, -1)
    assert ask(Task(), partition(), codes.OFFSET_OUT_OF_RANGE) == "KafkaStorageError (56)"


@pytest.mark.parametrize("policy", ["continue", "stop"])
def test_a_gap_is_an_event_and_moves_the_frontier(log: dict[int, ListedOffset], policy: str) -> None:
    log[-2] = ListedOffset(0, 70, 0)
    task, p = Task(policy), partition()
    assert not ask(task, p, codes.OFFSET_OUT_OF_RANGE)
    assert task.events == ["source_gap"]
    assert p.acked_upstream == (70 if policy == "continue" else 50)
