"""Reading a flow's state parses one note of the source's ends, however many the topic holds."""

from __future__ import annotations

from drkit.config import ClusterSettings
from drkit.control_key import NO_KEY
from drkit.flow_state.records import Ends, SourceSeenRecord
from drkit.flow_state.state import FlowState, StateChange
from drkit.flow_state.topic import StateTopic
from drkit.model import TopicPartition
from drkit.wire import Record

KEY = SourceSeenRecord.KEY.encode()
GARBAGE = b"\x01\x02garbage"
Read = tuple[bytes, bytes]


def note(at_ms: int) -> Read:
    return KEY, SourceSeenRecord(at_ms, {TopicPartition("orders", 0): Ends(0, at_ms)}).encode()


class Counting(FlowState):
    """A state that remembers which records it parsed."""

    parsed: list[Read]

    def take(self, key: bytes, value: bytes | None, offset: int | None = None) -> StateChange | None:
        self.parsed.append((key, value or b""))
        return super().take(key, value, offset)


def read(*topic: Read, refused: str = "") -> tuple[FlowState, list[Read]]:
    """Return the state after one reading of a topic, and the records that it parsed.

    :param refused: why the last record does not count
    """
    state = StateTopic(ClusterSettings(alias="b", bootstrap_servers="127.0.0.1:1"), "a")
    state.records = counting = Counting()
    counting.parsed = []

    def take() -> None:
        for offset, (key, value) in enumerate(topic):
            state._read_one(Record(offset, 0, key, value), refused if offset == len(topic) - 1 else "")

    state._read(take)
    return counting, counting.parsed


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


def test_a_note_precedes_the_one_that_is_refused_after_it():
    """A process without the key does not take an older note for the newest one."""
    state, _ = read(note(1), note(2), refused="it has no MAC")
    assert (at(state), SourceSeenRecord.KEY in state.refused) == (1, True)
    state, _ = read(note(1), note(2), refused=NO_KEY)
    assert at(state) is None
