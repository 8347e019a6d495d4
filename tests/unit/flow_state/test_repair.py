"""What a forged record hides is written again, and never over what another process of drkit wrote since."""

from __future__ import annotations

from typing import Final

from drkit.flow_state.creation import restore
from drkit.flow_state.records import Role, RoleRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic

KEY: Final = RoleRecord.key("t")
FORGED: Final = "it has no MAC"
FROZEN, PROMOTED = (RoleRecord(role, 1, "r", 5).encode() for role in (Role.FROZEN, Role.PROMOTED))


class Topic(StateTopic):
    """A state topic in memory; `before` is what others write just before each write of drkit."""

    def __init__(self, *before: bytes | None) -> None:
        self.records = FlowState("here")
        self.followed: dict[str, list[bytes | None]] = {}
        self.log: list[tuple[bytes | None, str]] = []
        self._before = list(before)
        self._position = 0

    def load(self) -> None:
        for value, why in self.log[self._position :]:
            if why:
                self.records.refuse(KEY.encode(), why, live=self._position > 0)
            elif self.records.take(KEY.encode(), value) is not None:
                self.followed.get(KEY, []).append(value)
            self._position += 1

    def write(self, key: str, value: bytes | None) -> None:
        assert key == KEY
        if self._before:
            self.log.append((self._before.pop(0), ""))
        self.log.append((value, ""))


def read(*log: tuple[bytes | None, str], before: tuple[bytes | None, ...] = ()) -> Topic:
    """Of which the first two records were read."""
    topic = Topic(*before)
    for entry in log[:2]:
        topic.log.append(entry)
        topic.load()
    topic.log += log[2:]
    return topic


def newest(topic: Topic) -> bytes | None:
    return [value for value, why in topic.log if not why][-1]


def test_what_is_hidden_is_written_again():
    topic = read((FROZEN, ""), (None, FORGED))
    assert restore(topic, KEY)
    assert newest(topic) == FROZEN
    assert not topic.records.unreadable
    assert topic.followed == {}


def test_what_never_was_there_is_deleted():
    topic = read((FROZEN, ""), (None, ""), (PROMOTED, FORGED))
    topic.load()
    assert restore(topic, KEY)
    assert newest(topic) is None


def test_what_was_written_since_stays():
    """A replicator that knew a topic as frozen must not undo its promotion."""
    topic = read((FROZEN, ""), (None, FORGED), (PROMOTED, ""))
    assert not restore(topic, KEY)
    assert newest(topic) == PROMOTED


def test_what_is_written_at_the_same_moment_wins():
    topic = read((FROZEN, ""), (None, FORGED), before=(PROMOTED,))
    assert restore(topic, KEY)
    assert newest(topic) == PROMOTED
    assert topic.records.value(KEY) == PROMOTED


def test_a_role_that_is_given_while_a_forged_one_is_deleted_stays():
    topic = read((FROZEN, ""), (None, ""), (PROMOTED, FORGED), before=(FROZEN,))
    topic.load()
    assert restore(topic, KEY)
    assert newest(topic) == FROZEN
