"""Records that a client with write access makes to harm a reader: refused at small cost, or read as today."""

from __future__ import annotations

from collections import defaultdict
import json
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError
import pytest

from drkit.detect.note_kinds import Pause
from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.records import (
    ConfigsRecord,
    EventRecord,
    FenceSizesRecord,
    PendingFence,
    Role,
    RoleRecord,
    SourceSeenRecord,
    StateRecord,
)


def full_of(entry: str, before: str, after: str) -> bytes:
    """A record as large as drkit's largest with one wrong value after another; 16 MiB are read."""
    count = (1 << 20) // (len(entry) + 9)
    return (before + ",".join(entry % number for number in range(count)) + after).encode()


HOSTILE: dict[str, tuple[type[StateRecord], bytes]] = {
    "wrong values of an object": (FenceSizesRecord, full_of('"%d":1', '{"topics":{', "}}")),
    "wrong keys of an object": (SourceSeenRecord, full_of('" %d":{}', '{"at_ms":1,"topics":{', "}}")),
    "wrong objects in objects": (
        SourceSeenRecord,
        full_of('"%d":{"x":1,"y":2,"z":3,"u":4,"v":5}', '{"at_ms":1,"topics":{', "}}"),
    ),
    "wrong values of a list": (
        PendingFence,
        full_of("%d", '{"run_id":"r","term":1,"since_ms":1,"why":"","topics":[', "]}"),
    ),
    "objects without fields": (ConfigsRecord, full_of('"%d":{}', '{"set":{},"delayed":{', "}}")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_record_full_of_errors_is_refused_at_the_first_ones(name: str):
    """pydantic keeps an error for each wrong value: 2.8 million of them take gigabytes."""
    kind, value = HOSTILE[name]
    with pytest.raises(Malformed) as caught:
        kind.decode(value)
    found = caught.value.__context__
    assert isinstance(found, ValidationError)
    assert found.error_count() <= 10_000


@pytest.mark.parametrize("text", ["\udce9", "a\ud800b", "\U0001f600", "\x00"])
def test_any_text_of_a_person_is_read_as_it_was_written(text: str):
    """A shell hands over bytes that are no UTF-8 as lone surrogates; the record is needed nevertheless."""
    record = RoleRecord(Role.PROMOTED, 1, "r", 1, clients_cut=text)
    assert RoleRecord.decode(record.encode()) == record
    assert Pause.decode(Pause("me", text).encode()).why.isprintable()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [{"x": float("-inf")}]])
def test_an_event_has_no_number_that_json_does_not_have(value: Any):
    """`drkit status --json` prints events."""
    raw = {"kind": "k", "topic": "t", "at_ms": 1, "x": value}
    with pytest.raises(Malformed):
        EventRecord.decode(json.dumps(raw).encode())


@pytest.mark.parametrize("wrong", ["1", 1.0, True, None, [1], {"1": 1}])
def test_no_value_is_converted(wrong: Any):
    raw = {"role": "promoted", "term": wrong, "run_id": "r", "at_ms": 1}
    with pytest.raises(Malformed, match=r"^term: an integer was expected"):
        RoleRecord.of(raw)
    with pytest.raises(Malformed, match=r"^frontiers: "):
        RoleRecord.of({**raw, "term": 1, "frontiers": {"0": wrong} if wrong is not None else None})


def test_what_a_program_gives_is_written_whatever_its_class_is():
    """A record that cannot be written, or is written as another value, would stop a failover."""
    odd = RoleRecord(Role.FROZEN, 1, "r", 1, MappingProxyType({1: None}), defaultdict(int, {2: 3}))
    assert odd.encode() == RoleRecord(Role.FROZEN, 1, "r", 1, {1: None}, {2: 3}).encode()
