"""Reading a flow's state parses one note of the source's ends, however many the topic holds."""

from __future__ import annotations

from drkit.flow_state.records import Ends, SourceSeenRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import NewestRecords
from drkit.model import TopicPartition

KEY = SourceSeenRecord.KEY.encode()
GARBAGE = b"\x01\x02garbage"
Read = tuple[bytes, bytes]


def note(at_ms: int) -> Read:
    return KEY, SourceSeenRecord(at_ms, {TopicPartition("orders", 0): Ends(0, at_ms)}).encode()


def read(*topic: Read) -> tuple[FlowState, list[Read]]:
    """The state after one reading of a topic, and what was parsed for it."""
    state, parsed = FlowState(), list[Read]()

    def take(found: Read) -> None:
        parsed.append(found)
        state.take(*found)

    newest = NewestRecords(take, lambda key: key in state.unreadable)
    for found in topic:
        newest.put(found[0], found)
    newest.flush()
    return state, parsed


def at(state: FlowState) -> int | None:
    found = state.get(SourceSeenRecord)
    return None if found is None else found.at_ms


def test_only_the_newest_note_is_parsed_and_everything_else_in_its_order():
    others = [(b"a", b"{}"), (b"b", b"{}")]
    state, parsed = read(note(1), others[0], *(note(n) for n in range(2, 5000)), others[1])
    assert at(state) == 4999
    assert parsed == [*others, note(4999)]


def test_the_note_before_a_damaged_one_counts():
    state, _ = read(note(1), note(2), (KEY, GARBAGE))
    assert at(state) == 2
    assert SourceSeenRecord.KEY in state.unreadable
    state, _ = read((KEY, GARBAGE), note(3))
    assert at(state) == 3
    assert not state.unreadable


def test_a_damaged_note_alone_counts_as_missing():
    state, _ = read((KEY, GARBAGE))
    assert at(state) is None
