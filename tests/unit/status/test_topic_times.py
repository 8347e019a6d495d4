"""What the note of the source's ends has of each partition: how far it was copied, and until when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from drkit.failover.core.context import Scope
from drkit.failover.loss.silent import noted_copied, unprotected
from drkit.flow_state.records import ReturnRecord, SourceSeenRecord
from drkit.flow_state.state import FlowState
from drkit.model import TopicPartition
from drkit.status.facts import noted, seen_record, status_of
from drkit.status.lag.source import Ends
from drkit.status.lag.target import CopyPosition
from drkit.status.model import PartitionStatus

NOW = 1_000_000_000


def part(topic: str, records: int | None, seconds: float | None, number: int = 0) -> PartitionStatus:
    frontier = 5 if records else 9
    return PartitionStatus(topic, topic, number, frontier, 9, 5, records, None, seconds, exact=True)


def note(*parts: PartitionStatus, copied: int | None = None) -> SourceSeenRecord:
    """The note as a failover reads it back."""
    ends = {
        TopicPartition(p.topic, p.partition): noted(Ends(0, 9, 9), p.frontier or 0, p, NOW) for p in parts
    }
    return SourceSeenRecord.decode(seen_record(ends, NOW, copied, {}).encode())


def test_each_topic_has_the_time_of_its_oldest_missing_record() -> None:
    seen = note(part("a", 0, 0.0), part("b", 3, 2.0), part("b", 3, 9.0, 1), part("c", 7, None))
    times = {topic: seen.copied_of({topic}) for topic in "abc"}
    assert times == {"a": NOW, "b": NOW - 9000, "c": None}
    assert seen.copied_of({"a", "b"}) == NOW - 9000
    assert note(part("a", 1, 2 * NOW / 1000.0)).copied_of({"a"}) is None, "older than any time"


def test_what_was_copied_at_the_note_and_is_not_there_now_is_counted() -> None:
    """Also where records waited to be copied then."""
    at = TopicPartition("a", 0)
    for waiting in (part("a", 4, 1.0), part("a", 0, 0.0)):
        ends = note(waiting).ends[at]
        assert waiting.frontier is not None
        for frontier in (2, waiting.frontier, 9):
            lost = max(0, waiting.frontier - frontier)
            assert status_of(NOW, at, "a", CopyPosition(frontier, 1), ends, None).dropped == lost
        assert status_of(NOW, at, "a", CopyPosition(None, 1), ends, None).dropped == 0, "unknown"


def test_a_failover_of_some_topics_counts_the_worst_of_these_alone() -> None:
    seen = note(part("back", 3, 2.0), part("waits", 3, 600.0), part("unknown", 3, None))

    def of(*topics: str, whole: bool = False) -> int | None:
        return noted_copied(seen, Scope({t: t for t in topics}, (), whole_flow=whole))

    assert of("back") == NOW - 2000
    assert of("back", "waits") == NOW - 600_000
    assert of("back", "unknown") is None
    assert of("back", whole=True) is None, "all of the flow has the time of the flow"
    assert of("back", "younger") is None, "the note does not have it"
    assert noted_copied(None, Scope({"back": "back"}, (), whole_flow=False)) is None


def test_the_note_of_an_earlier_release_has_one_time_for_all() -> None:
    ends = {TopicPartition("back", 0): Ends(0, 9)}
    seen = SourceSeenRecord.decode(seen_record(ends, NOW, NOW - 5000, {}).encode())
    assert seen.copied_of({"back"}) == NOW - 5000
    assert note(part("back", 0, 0.0), copied=NOW - 5000).copied_of(()) == NOW - 5000


def test_returned_topics_are_in_step_while_another_one_waits() -> None:
    """The failover was refused: "not wholly copied back"."""
    state = FlowState()
    seen = note(part("back", 3, 2.0), part("waits", 3, 600.0), copied=NOW - 600_000)
    state.take(seen.key().encode(), seen.encode())
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
