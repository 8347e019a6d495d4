"""Until when each topic was copied at the last note of the source's ends."""

from __future__ import annotations

from dataclasses import replace
import json
from types import SimpleNamespace
from typing import Any

from drkit.failover.core.context import Scope
from drkit.failover.loss.silent import noted_copied, unprotected
from drkit.flow_state.records import ReturnRecord, SourceSeenRecord
from drkit.flow_state.state import FlowState
from drkit.model import TopicPartition
from drkit.status.facts import seen_record
from drkit.status.lag.source import Ends
from drkit.status.model import Findings, PartitionStatus
from drkit.status.sums import TopicTimes, times_of

NOW = 1_000_000_000


def part(topic: str, records: int | None, seconds: float | None, number: int = 0) -> PartitionStatus:
    frontier = 5 if records else 9
    return PartitionStatus(topic, topic, number, frontier, 9, 5, records, None, seconds, exact=True)


def noted(*topics: str, copied: int | None, times: TopicTimes | None) -> SourceSeenRecord:
    """The note as a failover reads it back."""
    ends = {TopicPartition(topic, 0): Ends(0, 9) for topic in topics}
    return SourceSeenRecord.decode(seen_record(ends, NOW, copied, {}, times).encode())


def test_each_topic_has_the_time_of_its_oldest_missing_record() -> None:
    parts = [
        part("a", 0, 0.0),
        part("b", 3, 2.0),
        part("b", 3, 9.0, 1),
        part("c", 7, None),
        part("d", 0, 0.0),
    ]
    assert times_of(Findings(NOW), parts) == ({"c": None, "b": NOW - 9000}, NOW)
    assert times_of(Findings(NOW), []) == ({}, NOW)
    markers = [part("a", 0, 0.0), replace(part("b", 0, 0.0), frontier=8)]
    assert times_of(Findings(NOW), markers) == ({"b": NOW - 1}, NOW), "its copy ends before the source"


def test_where_not_every_partition_was_seen_no_topic_has_one() -> None:
    away = Findings(NOW, unanswered={"a": (0,)})
    for found in (away, Findings(NOW, source_error="x"), Findings(NOW, target_error="x")):
        assert times_of(found, [part("a", 0, 0.0)]) is None


def test_in_a_large_flow_few_topics_are_named_and_the_rest_has_its_earliest_time() -> None:
    parts = [part(f"t{i:05}", 1, float(i)) for i in range(20_000)]
    times = times_of(Findings(NOW), parts)
    assert times is not None
    assert len(times.late) == 64
    assert min(times.late) == "t19936"
    assert times.rest_ms == NOW - 19_935_000
    unknown = times_of(Findings(NOW), [part(f"t{i}", 1, None) for i in range(100)])
    assert unknown is not None
    assert unknown.rest_ms is None, "one that is not named is unknown, too"


def test_a_failover_of_some_topics_counts_the_worst_of_these_alone() -> None:
    times = TopicTimes({"waits": NOW - 600_000, "unknown": None}, NOW - 2000)
    note = noted("back", "waits", "unknown", copied=None, times=times)

    def of(*topics: str, whole: bool = False) -> int | None:
        return noted_copied(note, Scope({t: t for t in topics}, (), whole_flow=whole))

    assert of("back") == NOW - 2000
    assert of("back", "waits") == NOW - 600_000
    assert of("back", "unknown") is None
    assert of("back", whole=True) is None, "all of the flow has the time of the flow"
    assert of("back", "younger") is None, "the note does not have it"
    assert noted_copied(None, Scope({"back": "back"}, (), whole_flow=False)) is None


def test_the_note_of_an_earlier_release_has_one_time_for_all() -> None:
    note = noted("back", copied=NOW - 5000, times=None)
    assert not {"late", "rest_ms"} & json.loads(note.encode()).keys()
    assert note.copied_of({"back"}) == NOW - 5000
    assert noted("back", copied=NOW - 5000, times=TopicTimes({}, NOW)).copied_of(()) == NOW - 5000


def test_returned_topics_are_in_step_while_another_one_waits() -> None:
    """The failover was refused: "not wholly copied back"."""
    state = FlowState()
    note = noted(
        "back", "waits", copied=NOW - 600_000, times=TopicTimes({"waits": NOW - 600_000}, NOW - 2000)
    )
    state.take(note.key().encode(), note.encode())
    turn = ReturnRecord("over", "turn", 1)
    state.take(turn.key("back").encode(), turn.encode())
    made = SimpleNamespace(
        records=state, get=state.get, settings=SimpleNamespace(failover=SimpleNamespace(rpo_seconds=30.0))
    )

    def lines(*, whole: bool) -> tuple[str, ...]:
        scope = Scope({"back": "back"}, (), whole_flow=whole)
        context: Any = SimpleNamespace(state=made, settings=made.settings, scope=scope)
        return unprotected(context, [part("back", 3, None)], ())

    assert lines(whole=False) == ()
    assert len(lines(whole=True)) == 1
