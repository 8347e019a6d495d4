"""Progress never stops silently: every state of a partition is progress, or has a reason and its event."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from drkit.copy_task.core.activity import Activity, ReportedBy, activity
from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.copy_task.core.context import SAY_AT
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.copy_task.source.health import SourceHealth
from drkit.model import TopicPartition

BOTH = (False, True)


class View(NamedTuple):
    """The state that determines a partition's activity."""

    state: CopyState
    reason: str
    asked_before: bool
    exhausted: bool
    waiting: bool
    in_flight: bool
    leader_known: bool
    fetcher: bool
    source_error: str

    @property
    def activity(self) -> Activity:
        p = partition(
            state=self.state, leader=1 if self.leader_known else -1, end=0 if self.exhausted else None
        )
        p.reason, p.attempts, p.in_flight = self.reason, int(self.asked_before), int(self.in_flight)
        chunk: Any = "a chunk"
        p.waiting.extend([chunk] * self.waiting)
        return activity(p, fetcher=self.fetcher, source_error=self.source_error)


VIEWS = [
    View(*rest)
    for rest in product(CopyState, ("", "why"), BOTH, BOTH, BOTH, BOTH, BOTH, BOTH, ("", "an error"))
]


def at_work(view: View) -> bool:
    """Whether a part of the task has something to do for the partition, or waits for an answer to it."""
    appends = view.in_flight or (view.waiting and view.state in {CopyState.LIVE, CopyState.BULK})
    resolves = view.state is CopyState.RESOLVING and not view.asked_before
    fetches = view.leader_known and view.fetcher and not view.source_error
    copies = view.state in {CopyState.LIVE, CopyState.BULK} and (fetches or view.exhausted)
    return view.state is not CopyState.STOPPED and (appends or resolves or copies)


@pytest.mark.parametrize("state", CopyState)
def test_every_state_is_progress_or_has_a_reason_and_an_event(state: CopyState) -> None:
    for view in (v for v in VIEWS if v.state is state):
        found = view.activity
        assert found.text, view
        assert found.progress == (found.reported_by is ReportedBy.NOTHING)
        if found.progress:
            assert at_work(view), view
        if state is CopyState.STOPPED:
            assert found.reported_by is ReportedBy.STOP


def test_a_live_partition_that_the_source_does_not_feed_says_which_part_is_missing() -> None:
    live = View(CopyState.LIVE, "", False, False, False, False, True, True, "")  # noqa: FBT003 - a row
    assert live.activity.progress
    assert live._replace(leader_known=False).activity.reported_by is ReportedBy.SOURCE
    assert live._replace(fetcher=False).activity.reported_by is ReportedBy.SOURCE
    assert live._replace(source_error="an error").activity == (ReportedBy.SOURCE, "an error")
    assert live._replace(source_error="an error", exhausted=True).activity.progress, (
        "its source is not needed"
    )


def partition(
    number: int = 0, state: CopyState = CopyState.LIVE, leader: int = 1, end: int | None = None
) -> PartitionCopy:
    ids = str(UUID(int=1)), str(UUID(int=2))
    made = PartitionCopy(PartitionAssignment("t", ids[0], "t", ids[1], number, 0, end=end))
    made.begin(upstream=0, downstream=0, copied_end=0, sequence=0, delta=0, leader_epoch=0)
    made.state, made.leader = state, leader
    return made


def test_every_reason_of_the_source_is_reported_within_some_rounds() -> None:
    """All combinations again, as partitions of a task that nothing helps."""
    for state, leader, fetcher, error in product(CopyState, (-1, 1), BOTH, BOTH):
        health = SourceHealth(0.5, set())
        p = partition(state=state, leader=leader)
        if fetcher:
            health.fetcher_begins(1)
        if error:
            health.failed(p, "an error", 0.0)
        now, events = 0.0, list[str]()
        for _ in range(10):
            events += [f.reason for f in health.round([p], now)]
            now += max(health.pause(now), 0.001)
        found = health.activity(p, now)
        assert bool(events) == (found.reported_by is ReportedBy.SOURCE), (state, leader, fetcher, error)
        assert set(events) <= {found.text}


def test_not_every_try_is_reported_and_its_end_is_reported_once() -> None:
    reported: set[TopicPartition] = set()
    health, p = SourceHealth(0.5, reported), partition(leader=-1)
    now, tries = 0.0, list[int]()
    for _ in range(120):
        tries += [f.tries for f in health.round([p], now)]
        now += health.pause(now)
    assert tries == [n for n in sorted(SAY_AT) if n <= 120]
    p.leader = 1
    health.fetcher_begins(1)
    assert health.round([p], now) == []
    assert not health.works([])
    # The next epoch knows what this one has reported.
    following = SourceHealth(0.5, reported)
    assert following.works([p]) == [p]
    assert following.works([p]) == []


def test_a_partition_that_fails_is_fetched_less_often_and_the_others_as_before() -> None:
    health, p, other = SourceHealth(0.5, set()), partition(0), partition(1)
    waits, now = [], 0.0
    for _ in range(9):
        health.failed(p, "KafkaStorageError (56)", now)
        assert health.may_fetch(other, now)
        began = now
        while not health.may_fetch(p, now):
            now += 0.05
        waits.append(now - began)
    assert waits == sorted(waits)
    assert waits[0] < 0.2
    assert 4.9 < waits[-1] < 5.1
    health.failed(p, "NotLeaderForPartitionError (6)", now)
    assert not health.may_fetch(p, now)
    health.retry(p)  # another leader
    assert health.may_fetch(p, now)


def test_a_partition_whose_error_is_looked_into_is_not_fetched_meanwhile() -> None:
    health, p = SourceHealth(0.5, set()), partition()
    assert health.failed(p, "OffsetOutOfRangeError (1)", 0.0, hold=True)
    assert not health.may_fetch(p, 1000.0)
    health.settled(p, "")
    assert health.may_fetch(p, 0.0)
    health.failed(p, "OffsetOutOfRangeError (1)", 0.0, hold=True)
    health.retry(p)  # another leader
    assert health.may_fetch(p, 0.0)


def test_a_fetch_that_is_not_answered_is_a_reason_and_its_broker_is_not_waited_for() -> None:
    health, p = SourceHealth(0.5, set()), partition()
    health.fetcher_begins(1)
    health.fetch_begins(1, 100.0)
    assert health.round([p], 101.0) == []
    assert not health.needs_leaders()
    assert health.round([p], 103.0) == []
    assert health.needs_leaders(), "its leader is asked for"
    assert "broker 1 has not answered" in health.activity(p, 103.0).text
    p.leader = 2
    health.fetcher_begins(2)
    assert health.activity(p, 103.0).progress
