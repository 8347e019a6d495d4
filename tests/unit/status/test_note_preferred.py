"""Which note of the source's ends a failover goes by, while a source answers in part."""

from __future__ import annotations

from collections.abc import Iterable

from drkit.flow_state.records import ReturnRecord
from drkit.flow_state.state import FlowState
from drkit.model import TopicPartition
from drkit.status.facts import is_note_preferred, seen_record
from drkit.status.lag.source import Ends

NOW = 1_000_000_000
PARTITIONS = [TopicPartition("orders", number) for number in range(3)]


def noted(age_seconds: int, copied_ms: int | None = NOW) -> FlowState:
    state = FlowState()
    note = seen_record(dict.fromkeys(PARTITIONS, Ends(0, 9)), NOW - 1000 * age_seconds, copied_ms)
    state.take(note.key().encode(), note.encode())
    return state


def is_preferred(state: FlowState, answered: Iterable[TopicPartition] = PARTITIONS[:2]) -> bool:
    return is_note_preferred(state, set(answered), NOW)


def test_a_recent_note_of_all_partitions_is_preferred() -> None:
    assert is_preferred(noted(0))
    assert is_preferred(noted(60))
    assert is_preferred(noted(5), ())


def test_an_old_note_or_one_of_the_future_is_replaced() -> None:
    """A partition may have no leader for days; the note of the others must not be as old."""
    assert not is_preferred(noted(61))
    assert not is_preferred(noted(-1))


def test_a_note_that_does_not_bound_the_loss_is_replaced() -> None:
    assert not is_preferred(FlowState())
    assert not is_preferred(noted(5, copied_ms=None))
    assert not is_preferred(noted(5), [TopicPartition("new", 0)])
    turned, turn = noted(5), ReturnRecord("over", "turn", NOW)
    turned.take(turn.key("orders").encode(), turn.encode())
    assert not is_preferred(turned)
