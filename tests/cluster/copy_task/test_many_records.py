"""Four ordinary requests have 4,800,000 records: to copy one answer takes longer than a task's lease."""

from __future__ import annotations

from dataclasses import replace
import uuid

import pytest

from drkit.clock import boottime
from drkit.flow_state.processes import boot_id
from drkit.flow_state.records import ControlRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import Append, produce_request
from drkit.local.cluster import LocalCluster
from drkit.wire import stamp
from drkit.wire.building import build
from drkit.wire.codecs import ZSTD
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.produce import now_ms
from tests.support.flows.renewed_lease import LEASE_SECONDS, renewing
from tests.support.waiting import eventually

RECORDS = 1_200_000
REQUESTS = 4
NO_KEY_NO_VALUE = b"\x01\x01\x00"


async def append(cluster: RawCluster, node: int, what: Append) -> None:
    answer = await cluster.send(produce_request([what]), node)
    assert answer.responses[0].partition_responses[0].error_code == 0


def many_records() -> bytearray:
    began_ms = now_ms()
    batch = build([(n, began_ms, NO_KEY_NO_VALUE) for n in range(RECORDS)], ZSTD)
    stamp(batch, -1, -1, -1, transactional=False)
    assert len(batch) < 1_000_000, "what every broker takes"
    return batch


@pytest.mark.wide
@pytest.mark.timeout(300)
def test_a_task_sees_its_lease_and_keeps_its_position_within_a_batch_of_very_many_records(
    source: LocalCluster, target: LocalCluster, flow_factory: FlowFactory
):
    flow = flow_factory(source, target, fetch_partition_max_bytes=8 << 20)
    topic = flow.create_both(f"t{uuid.uuid4().hex[:8]}", config={"message.timestamp.type": "LogAppendTime"})
    where, batch = flow.topic(flow.source, topic), many_records()
    request = where.leaders[0].node, Append(topic, where.topic_id, 0, batch)

    def copied() -> int:
        return flow.offsets(flow.target, topic)[0]

    with StateTopic(flow.target, flow.source.alias) as state, renewing(state):
        for _ in range(REQUESTS):
            flow.ask_once(flow.source, append, *request)
        held = {"lease_seconds": LEASE_SECONDS, "held_until": boottime() + LEASE_SECONDS}
        lease = replace(flow.lease(topic, once=False, seconds=250.0), **held, boot_id=boot_id())  # type: ignore[arg-type]
        began = boottime()
        task = flow.start(lease=lease)
        eventually(lambda: copied() == REQUESTS * RECORDS or not task.running, 200, "one answer")
        flow.ask_once(flow.source, append, *request)
        eventually(lambda: copied() > REQUESTS * RECORDS or not task.running, 60, "a part of the next")
        state.put(ControlRecord(lease.run_id, lease.plan, "stop"))
        report = task.report()
        state.delete(ControlRecord)
    assert report["ended"] == "stop", (report, copied(), boottime() - began)
    assert copied() < (REQUESTS + 1) * RECORDS

    flow.copy(topic)
    assert copied() == (REQUESTS + 1) * RECORDS
    assert flow.settled(topic)[0][1] == (REQUESTS + 1) * RECORDS
