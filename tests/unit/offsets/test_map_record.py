"""Every record of the map, there and back; and what is damaged is refused in one way."""

from __future__ import annotations

from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from drkit.offset_map.bucket import MapBucket
from drkit.offsets import (
    History,
    Intent,
    MapKey,
    MapRecord,
    Mark,
    Pack,
    Reign,
    SegmentMap,
    Turn,
    decode_record,
    encode_map_record,
)
from drkit.offsets.map_codec import about, place, turned_to
from drkit.offsets.map_record import BUCKET_KEY, SEQUENCE_MODULUS, MapRecordKind, Mode

i16, i32, i64 = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (15, 31, 63))
sequences, target_epochs = st.integers(0, SEQUENCE_MODULUS - 1), st.integers(-1, (1 << 31) - 1)
histories = st.builds(History, i64, i16)
keys = st.builds(MapKey, st.uuids(), st.uuids(), i32)
intents = st.builds(
    Intent,
    mode=st.sampled_from(Mode),
    nonce=i64,
    history=histories,
    base_sequence=sequences,
    downstream=i64,
    previous_end=i64,
    leader_epoch=i32,
    runs=st.lists(st.tuples(i64, i32), min_size=1, max_size=5).map(tuple),
    target_epoch=target_epochs,
)
marks = st.builds(
    Mark,
    nonce=i64,
    history=histories,
    upstream=i64,
    downstream=i64,
    copied_end=i64,
    sequence=sequences,
    leader_epoch=i32,
    target_epoch=i32,
    live=st.booleans(),
)
segments = st.lists(st.tuples(i64, i64, i64), max_size=6).map(SegmentMap.of)
parts = st.integers(0, (1 << 32) - 1)
packs = st.builds(Pack, nonce=i64, part=parts, parts=parts, until=i64, segments=segments)
turns = st.builds(
    Turn,
    nonce=i64,
    reign=i64,
    ended=histories,
    ended_sequence=sequences,
    history=histories,
    upstream=i64,
    downstream=i64,
    copied_end=i64,
    leader_epoch=i32,
    target_epoch=i32,
)
reigns = st.builds(Reign, nonce=i64, number=i64, ended=st.booleans(), unclean=i64)
records = st.one_of(intents, marks, packs, turns, reigns)
KINDS = {
    Intent: MapRecordKind.INTENT,
    Mark: MapRecordKind.MARK,
    Pack: MapRecordKind.PACK,
    Turn: MapRecordKind.TURN,
    Reign: MapRecordKind.REIGN,
}


def fields(record: MapRecord | None) -> object:
    """To compare by: segments are equal when their triples are."""
    if isinstance(record, Pack):
        return record.nonce, record.part, record.parts, record.until, record.segments.triples()
    return record


@given(keys, records)
def test_what_is_written_is_read(key: MapKey, record: MapRecord) -> None:
    name, value = encode_map_record(key, record)
    found = decode_record(name, value)
    assert fields(found.record) == fields(record)
    assert found.where == (BUCKET_KEY if isinstance(record, Reign) else key)
    assert found.kind is KINDS[type(record)]
    assert about(name) == (found.where, found.kind)
    assert place(name) == (record.downstream if isinstance(record, Intent) else -1)
    assert turned_to(name) == (record.history if isinstance(record, Turn) else None)


@given(keys, records)
def test_a_tombstone_says_what_it_is_about(key: MapKey, record: MapRecord) -> None:
    found = decode_record(encode_map_record(key, record)[0], None)
    assert (found.kind, found.record) == (KINDS[type(record)], None)


@given(keys, intents, intents, turns, turns)
def test_only_records_that_say_the_same_share_a_key(
    key: MapKey, one: Intent, other: Intent, turn: Turn, next_turn: Turn
) -> None:
    same = (one.downstream, one.nonce) == (other.downstream, other.nonce)
    assert (encode_map_record(key, one)[0] == encode_map_record(key, other)[0]) == same
    same = turn.history == next_turn.history
    assert (encode_map_record(key, turn)[0] == encode_map_record(key, next_turn)[0]) == same


def refused_or_read(key: bytes | None, value: bytes | None) -> None:
    """Nothing but ValueError comes of any bytes."""
    for read in (lambda: decode_record(key, value), lambda: place(key or b""), lambda: turned_to(key or b"")):
        try:
            read()
        except ValueError:
            continue


damages = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4)


@given(records, damages, damages, st.integers(0, 200), st.integers(0, 200), st.sampled_from([1, 2]))
def test_damaged_records_are_refused_as_such(
    record: MapRecord,
    in_key: list[tuple[int, int]],
    in_value: list[tuple[int, int]],
    key_size: int,
    value_size: int,
    version: int,
) -> None:
    name, value = (bytearray(b) for b in encode_map_record(MapKey(UUID(int=1), UUID(int=2), 0), record))
    value[0] = version
    for data, damage in ((name, in_key), (value, in_value)):
        for at, byte in damage:
            data[at % len(data)] = byte
    refused_or_read(bytes(name[:key_size]), bytes(value[:value_size]))
    refused_or_read(bytes(name), bytes(value))


@given(st.binary(max_size=80), st.one_of(st.none(), st.binary(max_size=200)))
@example(b"", b"")
@example(b"\x01", None)
def test_whatever_others_wrote_is_refused(key: bytes, value: bytes | None) -> None:
    refused_or_read(key, value)


@given(
    records,
    st.sampled_from(MapRecordKind),
    st.one_of(st.binary(max_size=120), st.just(b"")),
    st.sampled_from([1, 2]),
)
def test_a_bucket_outlives_whatever_is_under_the_key_of_a_record(
    record: MapRecord, kind: MapRecordKind, rest: bytes, version: int
) -> None:
    name, value = encode_map_record(MapKey(UUID(int=1), UUID(int=2), 0), record)
    bucket = MapBucket(0, "map")
    other = name[:37] + bytes([kind]) + name[38:]
    for found in (value, bytes([version]) + rest, value[: len(value) // 2]):
        bucket.apply(other, found, 7)
    assert all(u.offset == 7 for u in bucket.unreadable)


def test_a_record_without_a_key_and_a_newer_version_are_refused() -> None:
    with pytest.raises(ValueError, match="without a key"):
        decode_record(None, b"\x02")
    name, value = encode_map_record(BUCKET_KEY, Reign(1, 1, ended=False, unclean=0))
    with pytest.raises(ValueError, match="version 3, this drkit reads 1 and 2"):
        decode_record(name, b"\x03" + value[1:])
    with pytest.raises(ValueError, match="version none"):
        decode_record(name, b"")
    with pytest.raises(ValueError, match="version 9"):
        decode_record(b"\x09" + name[1:], value)


def test_an_intent_says_how_long_it_is() -> None:
    key = MapKey(UUID(int=1), UUID(int=2), 0)
    name, value = encode_map_record(key, Intent(Mode.LIVE, 1, History(7, 0), 0, 0, 0, 0, ((5, 2), (9, 1))))
    for damaged in (value[:-1], value + b"\x00", value[:-24]):
        with pytest.raises(ValueError, match="2 runs"):
            decode_record(name, damaged)
