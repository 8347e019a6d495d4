"""A task reads its flow's state without a pause while it is behind: tens of megabytes in a large flow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kafka.protocol.consumer.offsets import ListOffsetsRequest

from drkit.control_key import Signatures
from drkit.copy_task import copier
from drkit.copy_task.copier import ReadProgress
from drkit.flow_state.records import LeaseRecord
from drkit.kafka.requests import PartitionLeader, TopicMetadata
from drkit.model import TopicPartition
from drkit.wire import Record, encode

PAGES, PER_PAGE = 40, 10


def page(base: int) -> bytes:
    records = [Record(i, 1, LeaseRecord.key().encode() + b"-other", b"{}", ()) for i in range(PER_PAGE)]
    data = encode(records, 0)
    data[0:8] = base.to_bytes(8, "big")
    return bytes(data)


class Leading:
    """The leader of the state topic, with a few records in each answer."""

    control = None

    def __init__(self) -> None:
        self.fetches = 0

    async def send(self, request: Any, _node: int, **_: object) -> Any:
        end = PAGES * PER_PAGE
        if isinstance(request, ListOffsetsRequest):
            part = SimpleNamespace(partition_index=0, error_code=0, offset=end, leader_epoch=0)
            return SimpleNamespace(topics=[SimpleNamespace(name="state", partitions=[part])])
        self.fetches += 1
        offset = request.topics[0].partitions[0].fetch_offset
        part = SimpleNamespace(
            error_code=0, records=page(offset) if offset < end else b"", last_stable_offset=end,
            high_watermark=end,
            aborted_transactions=None, diverging_epoch=None,
        )  # fmt: skip
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[part])])


class World:
    """A task that only reads the state."""

    def __init__(self) -> None:
        self.leader, self.pauses = Leading(), 0
        topic = TopicMetadata(0, UUID(int=1), {0: PartitionLeader(0, 0)})

        async def internal(_name: str, *, refresh: bool) -> TopicMetadata:  # noqa: ARG001  as of a task
            return topic

        async def sleep(_seconds: float) -> None:
            self.pauses += 1

        self.task: Any = SimpleNamespace(
            lease=SimpleNamespace(state_topic="state"), state_topic=topic, internal=internal, ending="",
            signatures=Signatures(None, TopicPartition("state", 0)),
            links=SimpleNamespace(target=self.leader), loop=SimpleNamespace(sleep=sleep),
        )  # fmt: skip


def run(coroutine: Callable[[], Awaitable[None]]) -> None:
    """Run what waits for nothing."""
    steps: Any = coroutine()
    try:
        steps.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits")


def test_a_look_back_is_read_to_its_end_before_the_first_pause():
    world, reading = World(), ReadProgress()
    while not world.pauses:
        run(lambda: copier._look(world.task, reading))
    assert world.leader.fetches == PAGES
    assert reading.tail is not None
    assert reading.tail.next_offset == PAGES * PER_PAGE
    assert reading.complete_at is not None


def test_at_the_end_there_is_a_pause_after_each_look():
    world, reading = World(), ReadProgress()
    while not world.pauses:
        run(lambda: copier._look(world.task, reading))
    run(lambda: copier._look(world.task, reading))
    assert world.pauses == 2
