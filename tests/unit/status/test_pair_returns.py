"""What is said of a pair after an unplanned failover and during its return. No clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drkit.flow_state.kinds.run import Ends
from drkit.flow_state.records import IncompleteRecord, SourceSeenRecord, UnreplayedRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.unreplayed import Unreplayed
from drkit.model import TopicPartition
from drkit.pair.promotions import never_noted
from drkit.status.faults import with_pair
from drkit.status.model import FlowStatus, PartitionStatus
from drkit.status.pair.facts import DirectionFacts, TopicLag
from drkit.status.pair.judge import judge
from drkit.status.pair.model import PairAlarm, PairState
from drkit.status.pair.text import pair_lines
from drkit.status.sums import lags_of, topics_of
from tests.support.status.pair_facts import (
    NOT_KNOWN,
    OVER,
    RPO,
    TOPIC,
    back,
    codes,
    direction,
    only,
    promoted,
    returned,
    status,
)

LOST = replace(OVER, promoted=promoted(planned=False))


@pytest.mark.parametrize("running", [True, False])
def test_after_an_unplanned_failover_a_person_decides_once_the_old_primary_answers(*, running: bool):
    found = only(LOST, back(running=running))
    assert (found.state, found.since_ms) == (PairState.DIVERGED, 1000)
    assert found.why == (
        "what becomes of the records that only p has is not decided: drkit reprotect --flow 'p->s'"
    )
    [fault] = (
        f for f in with_pair(status("promoted"), judge(LOST, back(), RPO)).faults if f.code == "diverged"
    )
    assert "drkit reprotect" in fault.text


def test_a_silent_old_primary_is_not_called_diverged():
    found = only(replace(LOST, silent=True), back(unread="p does not answer"))
    assert (found.state, found.why) == (PairState.UNPROTECTED, "p does not answer")


RETURNED: dict[str, Any] = {"running": True, "copies": {TOPIC: TOPIC}, "returns": returned()}


@pytest.mark.parametrize(
    ("ages", "state"),
    [
        ((0.0, 99.0, None), PairState.RETURNING),
        ((RPO, RPO + 0.1, RPO), PairState.RETURNING),
        ((0.0, 0.0, RPO), PairState.PROTECTED),
    ],
)
def test_a_primary_that_comes_home_is_no_failover_target_before_all_partitions_are_in_step(
    ages: tuple[float | None, ...], state: PairState
):
    oldest = max(a or 0.0 for a in ages)
    found = judge(LOST, back(**RETURNED, lags={TOPIC: TopicLag(9, oldest, "", 3 << 20, ages)}), RPO)
    [topic] = found.topics
    assert topic.state is state
    assert (topic.in_step, topic.partitions) == (sum(a is not None and a <= RPO for a in ages), 3)
    if state is PairState.RETURNING:
        [line] = pair_lines(found)
        assert line.word == "RETURNING"
        assert f"s->p: {topic.in_step} of 3 partitions in step, 3.0 MiB left to copy" in line.text
        assert "p is no failover target until all are" in line.text
    else:
        assert found.since_ms is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"running": False}, "the replicator of s->p does not run"),
        ({"lags": NOT_KNOWN}, "the lag of s->p is unknown: x"),
        ({"lags": {}, "selects": lambda _: False}, "topics or topics_exclude of s->p leave it out"),
    ],
)
def test_a_return_that_nothing_copies_is_unprotected(change: dict[str, Any], why: str):
    found = only(LOST, back(**RETURNED | {"lags": {TOPIC: TopicLag(9, 99.0)}} | change))
    assert (found.state, found.why) == (PairState.UNPROTECTED, why)


def test_a_rolled_back_return_that_had_emptied_a_topic_is_an_alarm_until_it_begins_again():
    emptied = replace(LOST, incomplete={TOPIC: IncompleteRecord("r7", 1, {0: 9, 1: 4})})
    found = only(emptied, back())
    assert (found.state, found.alarm) == (PairState.DIVERGED, PairAlarm.INCOMPLETE)
    assert found.why_of(PairAlarm.INCOMPLETE) == (
        "p was emptied in 2 partitions by the return r7, which was rolled back; only s has the records:"
        " drkit reprotect --flow 'p->s'"
    )
    assert found.why == (
        "p was emptied by the return r7, which was rolled back; the next one copies everything to it, and"
        " asks about what only p had, if that is open: drkit reprotect --flow 'p->s'"
    )
    assert only(emptied, back(**RETURNED)).alarm is None
    assert codes(with_pair(status("promoted"), judge(emptied, back(), RPO))) == ["incomplete", "diverged"]


def test_a_replay_that_was_decided_and_not_carried_out_is_an_alarm_though_the_pair_is_protected():
    record = UnreplayedRecord("r7", 1, 24, "/saved/manifest.json", "5a", "quarantine")
    left = replace(LOST, unreplayed={TOPIC: (Unreplayed(TOPIC, "r7-5a", record),)})
    found = only(left, back(**RETURNED))
    assert (found.state, found.alarm) == (PairState.PROTECTED, PairAlarm.UNREPLAYED)
    command = "drkit replay --from /saved/manifest.json --topic orders"
    assert found.why_of(PairAlarm.UNREPLAYED) == (
        "24 records of orders: quarantine was decided in r7, not carried out, and s lacks them: "
        f'{command} --sha256 5a --to-quarantine; or give them up by name: {command} --give-up "WHY"'
    )
    assert codes(with_pair(status("promoted"), judge(left, back(**RETURNED), RPO))) == ["unreplayed"]
    assert only(left, back()).why == (
        "an export alone has what p has lost; quarantine was decided in r7, not carried out, and the next"
        " return asks again: drkit reprotect --flow 'p->s'"
    )
    emptied = replace(left, incomplete={TOPIC: IncompleteRecord("r7", 1, {0: 9})})
    assert "was emptied by the return r7" in only(emptied, back()).why
    assert judge(emptied, back(), RPO).alarms == (PairAlarm.INCOMPLETE, PairAlarm.UNREPLAYED)


@pytest.mark.parametrize(("first", "state"), [(OVER, PairState.UNPROTECTED), (LOST, PairState.RETURNING)])
def test_a_copy_that_a_failover_would_not_trust_yet_is_not_called_protected(
    first: DirectionFacts, state: PairState
):
    """A primary that died between PROTECTED and the next note of its ends could not be left."""
    lag = TopicLag(0, 0.0, ages=(0.0,))
    way_back = back(**RETURNED, lags={TOPIC: lag}, not_noted=frozenset({TOPIC}))
    found = only(first, way_back)
    assert (found.state, "is not noted on p yet" in found.why) == (state, True)
    assert only(first, replace(way_back, not_noted=frozenset())).state is PairState.PROTECTED


def test_a_partition_that_is_younger_than_the_note_is_not_called_protected():
    """What a failover would lose of it is unknown. A deleted topic is in no note, and stays as it is."""
    lag = TopicLag(0, 0.0, ages=(0.0, 0.0))
    flow = direction("p", "s", lags={TOPIC: lag}, never_noted=frozenset({TOPIC}))
    assert only(flow, back()).state is PairState.UNPROTECTED
    assert only(replace(flow, never_noted=frozenset()), back()).state is PairState.PROTECTED
    assert only(replace(flow, lags={}, never_noted=frozenset()), back()).state is PairState.PROTECTED


def looked_at(partitions: tuple[PartitionStatus, ...]) -> FlowStatus:
    """Return the status of a flow with these partitions."""
    return replace(status("standby"), partitions=partitions, topics=topics_of([*partitions]))


def test_a_topic_with_a_partition_that_the_copy_lacks_is_not_called_protected():
    """Its records are within the RPO, and a failover would refuse it."""
    copied = PartitionStatus(TOPIC, TOPIC, 0, 9, 9, 9, records=0, bytes=0, seconds=0.0)
    grown = (copied, replace(copied, partition=1, frontier=0, target_end=None, records=9, seconds=0.1))
    found = {
        each: only(direction("p", "s", lags=lags_of(looked_at(each))), back()) for each in ((copied,), grown)
    }
    assert found[(copied,)].state is PairState.PROTECTED
    assert (found[grown].state, found[grown].why) == (PairState.UNPROTECTED, "s lacks 1 partition of it")


@pytest.mark.parametrize(
    ("noted", "partitions", "young"),
    [((0, 1), 2, False), ((0,), 2, True), ((), 1, True), ((0, 1, 2), 2, False)],
)
def test_what_is_younger_than_the_note_is_told_by_partition(
    noted: tuple[int, ...], partitions: int, *, young: bool
):
    ends = {TopicPartition(TOPIC, n): Ends(0, 9) for n in noted}
    state, note = FlowState(), SourceSeenRecord(1, ends, 1, {})
    state.take(note.key().encode(), note.encode())
    assert never_noted(state, {TOPIC: partitions}) == (frozenset({TOPIC}) if young else frozenset())


def test_a_topic_without_a_leader_is_not_called_protected_nor_gone():
    """The note of that look does not know its age, and a failover refuses."""
    away = PartitionStatus(TOPIC, TOPIC, 0, 9, None, 9, None, None, None, reason="no leader")
    copied = PartitionStatus(TOPIC, TOPIC, 1, 9, 9, 9, records=0, bytes=0, seconds=0.0)
    found = only(direction("p", "s", lags=lags_of(looked_at((away, copied)))), back())
    assert (found.state, found.why) == (PairState.UNPROTECTED, "the lag of p->s is unknown: no leader")
