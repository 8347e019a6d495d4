"""A range in the middle of a log is read without much of what follows it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from drkit.failover.loss.log_cursor import LogSide, PieceCursor, first_answers
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.requests import all_topics
from drkit.model import TopicPartition
from tests.support.flows.flow import Flow
from tests.support.flows.produce import fill

SIZE, SPAN = 500, (500, 1_500)
FIRST = 200 << 10
"""Less than the range has: the rest is fetched by itself."""


@pytest.mark.parametrize("batch", [16 << 10, 400 << 10])
def test_a_range_is_read_once_and_little_of_what_follows(flow: Flow, topic_name: str, batch: int) -> None:
    """The records before the frontier are compared over the link between both sites.

    What clients wrote since the failover follows them on the new primary. It came along, up to a megabyte for
    each partition. Batches that drkit copied are large: an answer begins with records before the range.
    """
    flow.create_both(topic_name, 1)
    batches: dict[str, Any] = {"linger.ms": 50, "batch.size": batch}
    fill(flow.source, topic_name, 6_000, size=SIZE, **batches)
    at, loop = TopicPartition(topic_name, 0), EventLoop()

    async def read(raw: RawCluster) -> tuple[list[int], int]:
        await raw.connected()
        side = LogSide(raw, await all_topics(raw))
        first = (await first_answers(side, {at: SPAN[0]}, FIRST))[at]
        cursor, offsets = PieceCursor(side, at, SPAN, first=first), list[int]()
        while pieces := await cursor.pieces():
            offsets += [offset for offset, _, _ in pieces]
        return offsets, cursor.bytes

    with closing(loop), closing(RawCluster(loop, flow.source, "test")) as raw:
        offsets, received = loop.run(read, raw)
    assert offsets == list(range(*SPAN))
    assert received < 1.25 * (SPAN[1] - SPAN[0]) * (SIZE + 60) + batch
