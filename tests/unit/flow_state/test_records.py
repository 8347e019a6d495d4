"""The records of a flow's state: old bytes are read, anything else has a name."""

from __future__ import annotations

from collections.abc import Iterator
import json
import re
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.flow_state.codec.fields import LONG, Malformed
from drkit.flow_state.records import (
    KINDS,
    ControlRecord,
    Ends,
    EventRecord,
    GenerationRecord,
    HeldBack,
    LeaseRecord,
    ProducerIdsRecord,
    Role,
    RoleRecord,
    decoded,
    kind_of,
)
from drkit.kafka.transactions import ProducerIdentity
from drkit.model import TopicPartition
from tests.support.flow_state.old_bytes import MORE, RECORDS, SEEN_WITH_HELD

OLD = [*RECORDS.items(), *MORE]
OF_TASKS = "event/resync/orders/0"
"""Copy tasks wrote the name of the flow before the topic."""


def read(key: str, value: bytes) -> Any:
    found = kind_of(key)
    assert found is not None
    return decoded(*found, value)


@pytest.mark.parametrize(("key", "value"), OLD)
def test_old_bytes_are_read_and_written_again_as_they_were(key: str, value: bytes):
    record = read(key, value)
    assert record.key(key.removeprefix(record.KEY)) == key
    if key == OF_TASKS:
        assert json.loads(record.encode()) == json.loads(value)
    else:
        assert record.encode() == value
    assert read(key, record.encode()) == record


def test_both_shapes_of_the_source_s_offsets_are_read():
    seen = read("source-seen", RECORDS["source-seen"]).ends
    assert seen[TopicPartition("orders", 0)] == Ends(0, 1000)
    assert seen[TopicPartition("orders", 1)] == Ends(5, 5)
    ends = read("source-seen", SEEN_WITH_HELD).ends
    assert [ends[TopicPartition("orders", n)] for n in range(4)] == [
        Ends(0, 1000, 1030, HeldBack(30, 10, 1763826440000, 4096)),
        Ends(5, 5, 5),
        Ends(5, 5, 9, HeldBack(4, 4, None, None)),
        Ends(0, 10, 20, HeldBack(10, 10, -1, 900)),
    ]


def test_every_kind_has_old_bytes():
    assert {kind_of(key)[0] for key in RECORDS if kind_of(key)} == set(KINDS)  # type: ignore[index]
    assert len({kind.KEY for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize(("key", "value"), OLD)
def test_fields_of_a_later_drkit_do_not_matter(key: str, value: bytes):
    more = {**json.loads(value), "of-a-later-drkit": [1, {"x": None}]}
    record = read(key, json.dumps(more).encode())
    if not isinstance(record, EventRecord):  # an event may tell anything
        assert record == read(key, value)


def leaves(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values within JSON data."""
    inner = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for at, value in inner:
        yield (*path, at)
        yield from leaves(value, (*path, at))


def value_at(body: Any, path: tuple[Any, ...]) -> Any:
    for at in path:
        body = body[at]
    return body


def with_value(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    copied = json.loads(json.dumps(body))
    inner = copied
    for at in path[:-1]:
        inner = inner[at]
    inner[path[-1]] = value
    return copied


STRANGE: list[Any] = [
    None,
    True,
    False,
    -5,
    1.5,
    2**63,
    "",
    "x" * 20_000,
    [],
    {},
    [[]],
    {"x": 1},
    ["x", True],
]


@pytest.mark.parametrize(("key", "value"), OLD)
def test_each_value_of_another_type_is_refused_by_name_and_none_is_replaced(key: str, value: bytes):
    """A strange value anywhere in a record is an error, or it is kept as it is: never a silent default."""
    body = json.loads(value)
    for path in leaves(body):
        for strange in STRANGE:
            try:
                record = read(key, json.dumps(with_value(body, path, strange)).encode())
            except Malformed as error:
                refused = str(error)
                if not refused.startswith(str(path[0])):
                    pytest.fail(f"{path} = {strange!r}: {refused}")
                continue
            if strange not in (None, [], {}):  # an optional field, or one that has nothing in it
                assert json.dumps(value_at(json.loads(record.encode()), path)) == json.dumps(strange)
            assert read(key, record.encode()) == record


def noted(ends: list[Any]) -> dict[str, Any]:
    return {"at_ms": 1, "topics": {"a": {"0": ends}}}


@pytest.mark.parametrize(
    ("key", "body", "reason"),
    [
        ("lease", {"run_id": 7}, "run_id: a text was expected, not an integer"),
        ("producer-ids", {"current": [True, 0], "all": []}, "not a truth value"),
        ("producer-ids", {"current": [1, 0, 2], "all": []}, "a list of 2 was expected, it has 3"),
        ("producer-ids", {"current": [1, 40_000], "all": []}, "an integer from 0 to 32767"),
        ("producer-ids", {"current": [1, 0]}, "all is missing"),
        ("producer-ids/bulk/x", {"bucket": 0}, "its key: a number"),
        ("producer-ids/bulk/01", {"bucket": 0}, "its key: a number"),
        ("offset-map", {"topic_id": "0" * 32}, "in lower case with dashes"),
        ("topic/a b", {}, "its key: the name of a topic"),
        ("topic/orders", {"target": "../x"}, "target: the name of a topic"),
        ("role/orders", {"role": "king", "term": 1, "run_id": "r", "at_ms": 1}, "one of frozen, promoted"),
        ("fence-acls", {"acls": [{"acl": ["TOPIC", "LITERAL", "", "u", "*", "FLY", "DENY"], "names": ["x"]}]},
         "acls: an ACL of a kind that does not exist"),
        ("verified/orders", {}, "its key: "),
        ("source-seen", {"at_ms": 1, "topics": {"a": {"-1": [0, 0]}}}, "topics: a: a key: a number"),
        ("source-seen", noted([0]), "topics: a: 0: a list of 2 to 6 was expected, it has 1"),
        ("source-seen", noted([0, 1, 1, None]), "topics: a: 0: [3]: a list was expected, not null"),
        ("source-seen", noted([0, 1, 2, [1, 1, 5]]), "topics: a: 0: [3]: a list of 4 was expected"),
        ("source-seen", noted([0, 1, 2, [1, 1, 5, 9], 7, 8, 9]), "topics: a: 0: a list of 2 to 6"),
        ("checkpoints", {"at_ms": 1, "seconds": 10**400}, "seconds: a finite number from 0 on"),
        ("checkpoints", {"at_ms": 1, "not_synchronised": {"total": 1}}, "not_synchronised: shown is missing"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_with_its_field(key: str, body: dict[str, Any], reason: str):
    with pytest.raises(Malformed, match=re.escape(reason)):
        read(key, json.dumps(body).encode())


@pytest.mark.parametrize(
    "value",
    [b"", b"\x00\xff", b"[]", b"7", b"null", b'"x"', b"[" * 200_000, b'{"a":' * 100_000, b'{"at_ms": NaN}',
     b'{"at_ms": 1e999}', b'{"at_ms": -Infinity}', b'{"at_ms": ' + b"9" * 5000 + b"}", b"\xff\xfe{\x00}"],
    ids=lambda value: repr(value[:12]),
)  # fmt: skip
@pytest.mark.parametrize("key", RECORDS)
def test_bytes_that_are_no_record_are_refused_by_name(key: str, value: bytes):
    with pytest.raises(Malformed):
        read(key, value)


@given(key=st.sampled_from(sorted(RECORDS)), value=st.binary(max_size=60))
def test_any_bytes_are_a_record_or_refused_by_name(key: str, value: bytes):
    try:
        record = read(key, value)
    except Malformed:
        return
    assert read(key, record.encode()) == record


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
def test_any_json_in_a_field_is_kept_or_refused_by_name(data: st.DataObject):
    key = data.draw(st.sampled_from(sorted(RECORDS)))
    body = json.loads(RECORDS[key])
    field = data.draw(st.sampled_from(sorted(body)))
    try:
        record = read(key, json.dumps({**body, field: data.draw(JSON)}).encode())
    except Malformed:
        return
    assert read(key, record.encode()) == record


ids = st.integers(0, LONG)


@given(current=ids, epoch=st.integers(0, 32_767), every=st.lists(ids, max_size=5))
def test_producer_ids_come_back(current: int, epoch: int, every: list[int]):
    record = ProducerIdsRecord(ProducerIdentity(current, epoch), tuple(every))
    assert ProducerIdsRecord.decode(record.encode()) == record


partitions = st.dictionaries(st.integers(0, 9), st.none() | ids, max_size=3)


optional_partitions = st.none() | partitions


@given(st.sampled_from(Role), optional_partitions, optional_partitions, optional_partitions)
def test_roles_come_back(
    role: Role,
    frontiers: dict[int, int | None] | None,
    ends: dict[int, int | None] | None,
    epochs: dict[int, int | None] | None,
):
    record = RoleRecord(role, 3, "run", 5, frontiers, ends, epochs=epochs)
    assert RoleRecord.decode(record.encode()) == record
    assert (b"epochs" in record.encode()) == (epochs is not None), "as earlier releases wrote it"


def test_what_an_earlier_release_left_out_has_its_old_meaning():
    ids = {"source_id": str(UUID(int=1)), "target_id": str(UUID(int=2))}
    for cluster in ({}, {"source_cluster": None}):
        entry = GenerationRecord.decode(json.dumps({"target": "orders", **ids, **cluster}).encode())
        assert (entry.generation, entry.source_cluster) == (1, None)
    assert ControlRecord.decode(b'{"run_id": "r", "action": "stop"}').plan == 0
    lease = LeaseRecord.decode(b'{"run_id": "r", "host": "h", "pid": 1, "renewed_ms": 1000}')
    assert lease.is_fresh(16_000)
    assert not lease.is_fresh(16_001)
