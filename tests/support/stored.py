"""A flow's state as plain data: what its topic holds, and what another version of drkit would write."""

from __future__ import annotations

from collections.abc import Mapping
import json
from typing import Any

from drkit.flow_state.records import KINDS, decoded, kind_of
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic


def stored(state: StateTopic | FlowState) -> dict[str, Any]:
    """Key → the JSON data of its record."""
    records = state.records if isinstance(state, StateTopic) else state
    return {
        kind.key(name): json.loads(record.encode())
        for kind in KINDS
        for name, record in records.readable(kind).items()
    }


def read_on(state: StateTopic) -> dict[str, Any]:
    """The same, after reading the topic on."""
    state.load()
    return stored(state)


def flow_state(values: Mapping[str, Any]) -> FlowState:
    """The state in which these JSON data are found under these keys."""
    found = FlowState.of({key.encode(): json.dumps(value).encode() for key, value in values.items()})
    assert not found.unreadable, found.unreadable
    return found


def put(state: StateTopic, key: str, value: Mapping[str, Any] | None) -> None:
    """Write JSON data under a key; None deletes it."""
    found = kind_of(key)
    assert found is not None, key
    kind, name = found
    if value is None:
        state.delete(kind, name)
    else:
        state.put(decoded(kind, name, json.dumps(value).encode()), name)
