"""What ends neither an epoch nor a task: a map that takes no marks, a source that dies while it is asked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from drkit.copy_task import copier
from drkit.copy_task.core.assignment import TaskAssignment
from drkit.copy_task.core.context import TaskContext
from drkit.copy_task.core.partition import PartitionCopy
from drkit.copy_task.source import leaders as source_errors
from drkit.errors import Failed
from drkit.flow_state.topic import StateTopic
from drkit.kafka.raw import RawError
from drkit.local.cluster import LocalCluster
from drkit.offset_map.reading import load
from tests.support.flows.compare import check_copy
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import Flow
from tests.support.flows.produce import Load, fill
from tests.support.stored import put as put_record
from tests.support.waiting import eventually


def confirmed(flow: Flow, lease: TaskAssignment) -> dict[int, int]:
    """Up to which source offset marks go, by partition."""
    raw = flow._raw[flow.target.alias]
    buckets = load(flow._loop, raw, flow.map_topic, range(flow.settings.buckets))
    known = {p.partition: buckets[p.bucket].partitions.get(PartitionCopy(p).key) for p in lease.partitions}
    return {p: state.tail.upstream if state and state.tail else -1 for p, state in known.items()}


@pytest.mark.wide
def test_a_map_that_takes_no_marks_holds_nothing_up(
    flow: Flow, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when too few of its replicas are left; afterwards they are made up for."""
    monkeypatch.setattr(copier, "_MARK_SECONDS", 0.2)
    refused: list[Failed] = []
    write = TaskContext.write_map

    async def seen(task: TaskContext, bucket: int, records: Any) -> None:
        try:
            await write(task, bucket, records)
        except Failed as error:
            refused.append(error)
            raise

    monkeypatch.setattr(TaskContext, "write_map", seen)
    flow.create_both(topic_name, 2)
    fill(flow.source, topic_name, 200)
    lease = flow.lease(topic_name, once=False, seconds=120)
    ends = flow.offsets(flow.source, topic_name)
    with ThreadPoolExecutor(1) as pool, StateTopic(flow.target, flow.source.alias) as state:
        copying = pool.submit(copier.copy_task, lease, flow.source, flow.target, flow.settings)
        try:
            eventually(lambda: copying.done() or confirmed(flow, lease) == ends, what="the copy")
            flow.configure(flow.target, flow.map_topic, "max.message.bytes", "1")
            with Load(flow.source, [topic_name], per_second=200, transactions=False):
                eventually(lambda: copying.done() or len(refused) > 1, what="marks refused")
                flow.grown(topic_name, 100)
            flow.configure(flow.target, flow.map_topic, "max.message.bytes", "1048588")
            ends = flow.offsets(flow.source, topic_name)
            eventually(lambda: copying.done() or confirmed(flow, lease) == ends, what="marks of everything")
        finally:
            put_record(state, "control", {"run_id": lease.run_id, "action": "stop"})
        assert copying.result(60).ended == "stop"
    check_copy(flow, topic_name)


@pytest.mark.wide
def test_a_source_that_dies_while_it_is_asked_what_is_wrong(
    flow_factory: FlowFactory,
    source: LocalCluster,
    target: LocalCluster,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is asked again; the other partitions never notice."""
    flow = flow_factory(source, target, on_source_gap="continue")
    flow.create_both(topic_name)
    fill(flow.source, topic_name, 100)
    flow.copy(topic_name)
    fill(flow.source, topic_name, 200, first=100)
    flow.delete_records(topic_name, 0, 200)
    ask = source_errors.source_trouble
    died: list[int] = []

    async def dying(task: TaskContext, p: PartitionCopy, data: Any) -> str:
        if not died:
            died.append(data.error_code)
            raise RawError("the broker was killed")
        return await ask(task, p, data)

    monkeypatch.setattr(source_errors, "source_trouble", dying)
    flow.copy(topic_name)
    assert died == [1], "OFFSET_OUT_OF_RANGE"
    assert flow.offsets(flow.target, topic_name) == {0: 200}
    assert [e["lost_offsets"] for e in flow.events("source_gap")] == [100]


@pytest.mark.wide
def test_a_copy_with_an_end_ends_where_retention_removed_the_rest(flow: Flow, topic_name: str) -> None:
    """The frontier, by which `--once` ends, moves with the gap; the gap is reported once, in its epoch."""
    flow.create_both(topic_name, retention_ms="-1")
    fill(flow.source, topic_name, 50)
    flow.copy(topic_name)
    fill(flow.source, topic_name, 50, first=50)
    flow.delete_records(topic_name, 0, 100)
    for _ in range(3):
        (part,) = flow.copy(topic_name).partitions
        assert part.frontier == 100
        (event,) = flow.events("source_gap")
        assert (event["from_offset"], event["to_offset"]) == (50, 100)
    fill(flow.source, topic_name, 10, first=100)
    flow.copy(topic_name)
    assert flow.offsets(flow.target, topic_name) == {0: 60}
