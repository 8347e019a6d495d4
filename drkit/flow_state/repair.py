"""Writes a record of a flow's state again when a record not written by drkit hides it."""

from __future__ import annotations

from typing import Final, Protocol

from drkit.flow_state.state import FlowState

_TRIES: Final = 5
"""Attempts to be the last writer of a key; other processes write a key less often."""


class Written(Protocol):
    """The part of :class:`drkit.flow_state.topic.StateTopic` that is needed here."""

    records: FlowState
    followed: dict[str, list[bytes | None]]

    def load(self) -> None:
        """See there."""

    def write(self, key: str, value: bytes | None) -> None:
        """See there."""


def restore(state: Written, key: str) -> bool:
    """Write the newest readable record under a key again; returns whether there was something to repair.

    A key without any earlier record is deleted. A record that another drkit process writes meanwhile is newer
    than the one known here: if this write came after it, that record is written again.

    :raises DrkitError: the topic cannot be read, or does not take it
    """
    since = state.followed[key] = []
    try:
        state.load()
        records, value = state.records, state.records.value(key)
        if key not in (records.forged if value is None else records.unreadable):
            return False
        for _ in range(_TRIES):
            since.clear()
            state.write(key, value)
            state.load()
            others = [v for v in since if v != value]
            if not others or since[-1] != value:
                break
            value = others[-1]
    finally:
        del state.followed[key]
    return True
