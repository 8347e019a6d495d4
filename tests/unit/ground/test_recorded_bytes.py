"""Every record that drkit writes has the bytes that were recorded, and recorded bytes are read."""

from __future__ import annotations

import json

import pytest

from drkit.flow_state.records import kind_of
from drkit.flow_state.source_fence.entries import FenceEntry
from tests.support.flow_state.old_bytes import FENCE_ENTRIES
from tests.support.recorded import FILE, RECORDED, STATE, TASK_DATA

BYTES = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RECORDED)
def test_a_record_has_the_recorded_bytes(name: str):
    assert RECORDED[name].encode() == BYTES[name]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_bytes_are_read(name: str):
    assert RECORDED[name].decode(BYTES[name]) == RECORDED[name].value


@pytest.mark.parametrize("name", TASK_DATA)
def test_what_a_task_gets_is_what_was_sent(name: str):
    assert TASK_DATA[name].decode(TASK_DATA[name].encode()) == TASK_DATA[name].value


def test_nothing_recorded_is_left_out():
    assert RECORDED.keys() == BYTES.keys()
    for key, record in STATE:
        found = kind_of(key)
        assert found is not None
        assert found[0] is type(record)


@pytest.mark.parametrize("value", FENCE_ENTRIES)
def test_entries_of_a_fence_are_written_again_as_they_were(value: bytes):
    assert FenceEntry.decode(value).encode() == value
