"""Claims whose records never came, or came late: a gap or a rewind of the source in between."""

from __future__ import annotations

from typing import Any

import pytest

from drkit.local.link import Direction
from tests.support.exactness.fixtures import Pair
from tests.support.exactness.moments import (
    DELAY_MS,
    killed_after_its_claim,
    map_records,
    soon,
    transactions,
)
from tests.support.exactness.truth import Truth
from tests.support.flows.compare import read
from tests.support.flows.flow import Flow
from tests.support.flows.kept_folder import KeptFolder
from tests.support.flows.produce import fill
from tests.support.waiting import eventually

TARGET = {"linked": ("CLIENT", "REPLICATION")}
NARROW: dict[str, Any] = {"linger_ms": 200}
"""One batch for all records of a call."""


@pytest.mark.wide
def test_a_late_append_a_source_gap_and_another_task(flow: Flow, pair: Pair, topic_name: str) -> None:
    """The first task is frozen, its last append is in the network; retention takes what it had read."""
    flow.create_both(topic_name, retention_ms="-1")
    truth, target = Truth(flow, topic_name), pair.target
    fill(flow.source, topic_name, 100)
    flow.copy(topic_name)
    frozen = flow.start(topic_name, once=False, seconds=300, through=target.bootstrap())
    fill(flow.source, topic_name, 10, first=100, **NARROW)
    soon(frozen, flow, topic_name, 110, 60)
    target.link("CLIENT").stall(Direction.TO_BROKER)
    fill(flow.source, topic_name, 10, first=200, **NARROW)
    assert not frozen.ended_within(2.0)
    frozen.freeze()
    truth.read()
    flow.delete_records(topic_name, 0, 120)
    fill(flow.source, topic_name, 30, first=300, **NARROW)
    before = map_records(flow)
    target.link("REPLICATION").slow(delay_ms=DELAY_MS)
    other = flow.start(topic_name, once=False, seconds=300, through=target.bootstrap("REPLICATION"))
    eventually(lambda: map_records(flow) > before, what=f"the other's claim; {other.told()}")
    target.link("CLIENT").restore()
    soon(other, flow, topic_name, 120, 3)
    target.link("REPLICATION").restore()
    soon(other, flow, topic_name, 1 << 40)
    other.kill()
    frozen.kill()
    fill(flow.source, topic_name, 5, first=400)
    flow.copy(topic_name)
    truth.is_exact(more_than=100)


def copied_and_killed(flow: Flow, topic: str, numbers: int) -> None:
    """The next task continues, also with records that need no claim of their own; then it is killed."""
    task = flow.start(topic, once=False, seconds=300)
    has_come(flow, topic, read(flow.source, topic)[0][-1].content)
    for i in range(12):
        fill(flow.source, topic, 100, first=numbers + 100 * i)
        assert not task.ended_within(0.2), task.told()
    has_come(flow, topic, read(flow.source, topic)[0][-1].content)
    task.kill()


def has_come(flow: Flow, topic: str, content: tuple[Any, ...]) -> None:
    """Its offset depends on the target, so the target's records are read."""
    eventually(lambda: content in {s.content for s in read(flow.target, topic)[0]}, what=f"copy of {content}")


@pytest.mark.soak
def test_a_source_gap_after_claims_that_never_came(flow: Flow, pair: Pair, topic_name: str) -> None:
    flow.create_both(topic_name, retention_ms="-1")
    truth = Truth(flow, topic_name)
    number = transactions(flow, topic_name, 20, 10, 0)
    flow.copy(topic_name)
    transactions(flow, topic_name, 200, 10, number)
    killed_after_its_claim(flow, pair.target, topic_name)
    truth.read()
    flow.delete_records(topic_name, 0, flow.offsets(flow.source, topic_name)[0])
    fill(flow.source, topic_name, 300, first=100_000)
    copied_and_killed(flow, topic_name, 200_000)
    fill(flow.source, topic_name, 50, first=300_000)
    flow.copy(topic_name)
    count = truth.is_exact(more_than=1700)
    assert count["gone"] == 2000, count
    assert len(flow.events("source_gap")) == 1, flow.events("source_gap")


@pytest.mark.soak
def test_a_source_that_lost_its_tail_after_claims_that_never_came(
    flow: Flow, pair: Pair, topic_name: str
) -> None:
    flow.create_both(topic_name, retention_ms="-1")
    truth, broker = Truth(flow, topic_name), pair.source.broker(0)
    folder = KeptFolder(broker, f"{topic_name}-0")
    fill(flow.source, topic_name, 1500)
    broker.terminate()
    folder.keep()
    pair.source.restart()
    fill(flow.source, topic_name, 500, first=1500)
    flow.copy(topic_name)
    transactions(flow, topic_name, 200, 10, 10_000)
    killed_after_its_claim(flow, pair.target, topic_name)
    truth.read()
    broker.kill()
    folder.put_back()
    pair.source.restart()
    assert flow.offsets(flow.source, topic_name)[0] == 1500
    assert truth.lost_tail() == 2500
    fill(flow.source, topic_name, 700, first=100_000)
    copied_and_killed(flow, topic_name, 200_000)
    fill(flow.source, topic_name, 1500, first=300_000)
    flow.copy(topic_name)
    count = truth.is_exact(more_than=4000)
    assert count["destroyed"] >= 2000, count
