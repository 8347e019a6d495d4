"""What the log cleaner of a real broker leaves: holes, lost ends, empty batches, delete horizons."""

from __future__ import annotations

from collections.abc import Callable
import random
import time
from typing import Any

import pytest

from drkit.wire import How, split
from drkit.wire.header import DELETE_HORIZON_BIT
from tests.support.wire.forge import copied
from tests.support.wire.partition import (
    EVERY_WAY,
    PASSIVE,
    PATIENCE_SECONDS,
    Broker,
    Partition,
    producer,
)


def _wait_for(condition: Callable[[], bool], step: Callable[[], None]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the broker did not compact in time"
        step()


@pytest.fixture(scope="module")
def compacted(broker: Broker) -> Partition:
    """Holes inside batches, lost ends of batches, empty batches, tombstones with a delete horizon."""
    broker.configure(log_cleaner_backoff_ms="100")
    partition = broker.create(
        f"compacted-{time.time_ns()}",
        cleanup_policy="compact",
        segment_ms="50",
        min_cleanable_dirty_ratio="0.0",
        min_compaction_lag_ms="0",
        delete_retention_ms="3600000",
        **PASSIVE,
    )
    rng = random.Random(11)
    # Of the first producer nothing stays but an empty batch, of the last everything, of the others parts.
    for codec, step in (("none", 1), ("lz4", 1), ("none", 2), ("zstd", 3), ("none", 5)):
        to = producer(broker, compression_type=codec, batch_num_messages=25)
        for key in range(0, 40, step):
            value = None if key % 4 == 1 else bytes(rng.randrange(60))
            to.produce(partition.topic, key=b"%d" % key, value=value)
        to.flush()
    roll = producer(broker, linger_ms=0)

    def more() -> None:
        roll.produce(partition.topic, key=b"roll", value=b"")
        roll.flush()

    def done() -> bool:
        headers = [header for header, _ in split(partition.fetch(0).records)]
        holes = any(0 < header.count != header.last_offset_delta + 1 for header in headers)
        empty = any(header.count == 0 for header in headers)
        horizon = any(header.attributes & DELETE_HORIZON_BIT and header.count for header in headers)
        return holes and empty and horizon

    _wait_for(done, more)
    return partition


@EVERY_WAY
def test_a_compacted_topic(
    compacted: Partition, topic: Callable[..., Partition], knobs: dict[str, Any]
) -> None:
    # The cleaner may still be at work: compare only what both readings saw the same.
    while True:
        before = compacted.consume()
        done = list(compacted.transformed(**knobs))
        if before == compacted.consume():
            break
    assert [record for part in done for record in copied(part)] == before
    assert any(record.value is None for record in before)
    chunks = [chunk for part in done for chunk in part.chunks]
    copy = topic("-copy", **PASSIVE)
    copy.append_all(chunks)
    assert copy.consume() == [record._replace(offset=n) for n, record in enumerate(before)]
    assert {How.RENUMBERED, How.MERGED} & {chunk.how for chunk in chunks}
    assert any(len(chunk.runs) > 1 for chunk in chunks)
