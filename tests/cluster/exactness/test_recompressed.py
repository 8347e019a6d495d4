"""A target that recompresses what it is sent: its batches have other checksums than those that were sent."""

from __future__ import annotations

import pytest

from tests.support.exactness.moments import soon, transactions
from tests.support.exactness.truth import Truth
from tests.support.flows.flow import Flow

SOURCE = None
TARGET = {"properties": {"compression.type": "gzip"}}


@pytest.mark.wide
@pytest.mark.parametrize("kind", ["", "producer"], ids=["recompressed", "as-sent"])
def test_a_compacted_source_and_tasks_killed_before_a_mark(
    flow_factory, pair, topic_name: str, kind: str
) -> None:
    flow: Flow = flow_factory(*pair, role="PROBE", merge_below_bytes=0)
    config = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000", "retention.ms": "-1"}
    own = {"compression.type": kind} if kind else {}
    flow.create_both(topic_name, config=config, target_config=own)
    truth = Truth(flow, topic_name, compacted=True)
    number = transactions(flow, topic_name, 20, 20, 0, compression_type="lz4")
    flow.copy(topic_name, compacted=True)
    truth.is_exact(more_than=399)
    transactions(flow, topic_name, 500, 30, number, compression_type="lz4")
    for _ in range(2):
        end = flow.offsets(flow.target, topic_name)[0] + 150
        task = flow.start(topic_name, once=False, seconds=300, compacted=True)
        soon(task, flow, topic_name, end, 60)
        task.kill()
    flow.copy(topic_name, compacted=True)
    truth.is_exact(more_than=15_399)
