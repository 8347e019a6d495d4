"""Encoding of offset-map records; decision 0021 defines their meaning.

Key: version u8, source topic id 16 bytes, target topic id 16 bytes, partition i32, kind u8, and for
an intent its first target offset i64 and its writer's nonce i64, for a pack its nonce i64 and part u32,
for a turn the new history's producer id i64 and epoch i16. A mark has one key per partition and a reign
one per bucket: the newest replaces the older ones when the topic is compacted.

Values of format 1 are read as well: `Intent.legacy` and marks without a history identify them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
import struct
from typing import Any
from uuid import UUID
import zlib

from drkit.offsets.map_record import (
    BUCKET_KEY,
    NO_HISTORY,
    History,
    Intent,
    MapKey,
    MapRecord,
    MapRecordKind,
    Mark,
    Mode,
    Pack,
    Reign,
    Turn,
)
from drkit.offsets.segments import SegmentMap

_KEY_VERSION = 1
_VERSION = 2
_LEGACY = 1
_KEY = struct.Struct(">B16s16siB")
_KEY_INTENT = struct.Struct(">qq")
_INTENT = struct.Struct(">BBqhiqqqiII")
_LEGACY_CHUNK = struct.Struct(">iI")
_RUN = struct.Struct(">qi")
_UNSIGNED = (1 << 32) - 1
_KEY_PACK = struct.Struct(">qI")
_PACK = struct.Struct(">BIIqqI")
_LEGACY_MARK = struct.Struct(">Bqqqiqi")
_MARK = struct.Struct(">BqqqiqiqhiB")
_KEY_TURN = struct.Struct(">qh")
_TURN = struct.Struct(">Bqhiqhqqqiiqq")
_REIGN = struct.Struct(">BqBqq")
# Fields that are side by side in a value, in its order.
_MARK_FIELDS = ("upstream", "downstream", "copied_end", "sequence", "nonce", "leader_epoch")
_fields_of_mark = attrgetter(*_MARK_FIELDS)
_TURN_FIELDS = ("upstream", "downstream", "copied_end", "leader_epoch", "target_epoch", "reign", "nonce")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A record of the map topic: whose it is, of which kind, and what it says (None: a tombstone)."""

    where: MapKey
    kind: MapRecordKind
    record: MapRecord | None = field(default=None)
    legacy: bool = False
    """In format 1, which names no reigns."""


def _key(key: MapKey, kind: MapRecordKind) -> bytes:
    return _KEY.pack(_KEY_VERSION, key.source_id.bytes, key.target_id.bytes, key.partition, kind)


def mark_key(key: MapKey) -> bytes:
    """The key of the mark of a partition."""
    return _key(key, MapRecordKind.MARK)


def encode_intent(key: MapKey, intent: Intent) -> tuple[bytes, bytes]:
    """An intent as (key, value) of a Kafka record."""
    fields = (intent.base_sequence, intent.downstream, intent.previous_end, intent.nonce, intent.leader_epoch)
    target_epoch, number = intent.target_epoch & _UNSIGNED, len(intent.runs)
    head = _INTENT.pack(_VERSION, intent.mode, *intent.history, *fields, target_epoch, number)
    body = b"".join([head, *(_RUN.pack(*r) for r in intent.runs)])
    return _key(key, MapRecordKind.INTENT) + _KEY_INTENT.pack(intent.downstream, intent.nonce), body


def encode_mark(key: MapKey, mark: Mark) -> tuple[bytes, bytes]:
    """A mark as (key, value) of a Kafka record."""
    value = _MARK.pack(_VERSION, *_fields_of_mark(mark), *mark.history, mark.target_epoch, bool(mark.live))
    return _key(key, MapRecordKind.MARK), value


def encode_pack(key: MapKey, pack: Pack) -> tuple[bytes, bytes]:
    """A part of a pack as (key, value) of a Kafka record."""
    body = zlib.compress(pack.segments.to_bytes())
    head = _PACK.pack(_VERSION, pack.part, pack.parts, pack.until, pack.nonce, len(pack.segments))
    return _key(key, MapRecordKind.PACK) + _KEY_PACK.pack(pack.nonce, pack.part), head + body


def encode_turn(key: MapKey, turn: Turn) -> tuple[bytes, bytes]:
    """A turn as (key, value) of a Kafka record."""
    fields = attrgetter(*_TURN_FIELDS)(turn)
    value = _TURN.pack(_VERSION, *turn.ended, turn.ended_sequence, *turn.history, *fields)
    return _key(key, MapRecordKind.TURN) + _KEY_TURN.pack(*turn.history), value


def encode_reign(reign: Reign) -> tuple[bytes, bytes]:
    """A reign as (key, value) of a Kafka record."""
    value = _REIGN.pack(_VERSION, reign.number, reign.ended, reign.unclean, reign.nonce)
    return _key(BUCKET_KEY, MapRecordKind.REIGN), value


def encode_map_record(key: MapKey, record: MapRecord) -> tuple[bytes, bytes]:
    """Any record of the map as (key, value) of a Kafka record."""
    if isinstance(record, Intent):
        return encode_intent(key, record)
    if isinstance(record, Mark):
        return encode_mark(key, record)
    if isinstance(record, Turn):
        return encode_turn(key, record)
    return encode_reign(record) if isinstance(record, Reign) else encode_pack(key, record)


def about(key: bytes) -> tuple[MapKey, MapRecordKind]:
    """Return the partition and the record kind of a record's key.

    :raises ValueError: the key is not of this format
    """
    try:
        version, source, target, partition, kind = _KEY.unpack_from(key)
    except struct.error as error:
        raise ValueError(f"a key of {len(key)} bytes: {error}") from error
    if version != _KEY_VERSION:
        raise ValueError(f"version {version}, this drkit reads {_KEY_VERSION}")
    return MapKey(UUID(bytes=source), UUID(bytes=target), partition), MapRecordKind(kind)


def place(key: bytes) -> int:
    """Return the target offset in the key of an intent, or −1 for any other key.

    :raises ValueError: the key is not of this format
    """
    if about(key)[1] is not MapRecordKind.INTENT:
        return -1
    try:
        downstream: int = _KEY_INTENT.unpack_from(key, _KEY.size)[0]
    except struct.error as error:
        raise ValueError(f"a key of {len(key)} bytes: {error}") from error
    return downstream


def turned_to(key: bytes) -> History | None:
    """Return the new history in the key of a turn, or None for any other key.

    :raises ValueError: the key is not of this format
    """
    if about(key)[1] is not MapRecordKind.TURN:
        return None
    try:
        return History(*_KEY_TURN.unpack_from(key, _KEY.size))
    except struct.error as error:
        raise ValueError(f"a key of {len(key)} bytes: {error}") from error


def decode_record(key: bytes | None, value: bytes | None) -> Decoded:
    """Read a record of the map topic. Raises ValueError if the record is not of this format or version."""
    if key is None:
        raise ValueError("a record without a key")
    map_key, kind = about(key)
    if value is None:
        return Decoded(map_key, kind)
    if value[:1] not in {bytes([_VERSION]), bytes([_LEGACY])}:
        raise ValueError(
            f"version {value[0] if value else 'none'}, this drkit reads {_LEGACY} and {_VERSION}"
        )
    try:
        return Decoded(map_key, kind, _DECODE[kind](value), value[0] == _LEGACY)
    except (struct.error, zlib.error) as error:
        raise ValueError(f"a record of {len(key)} + {len(value)} bytes: {error}") from error


def _named(names: Sequence[str], values: Sequence[int]) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))


def _decode_mark(value: bytes) -> Mark:
    if value[0] == _LEGACY:
        return Mark(history=NO_HISTORY, **_named(_MARK_FIELDS, _LEGACY_MARK.unpack_from(value)[1:]))
    _, *fields, producer_id, epoch, target_epoch, live = _MARK.unpack_from(value)
    history, named = History(producer_id, epoch), _named(_MARK_FIELDS, fields)
    return Mark(history=history, target_epoch=target_epoch, live=bool(live), **named)


def _decode_intent(value: bytes) -> Intent:
    (version, mode, pid, epoch, sequence, down, previous, nonce, leader_epoch, number, n_runs) = (
        _INTENT.unpack_from(value)
    )
    # Format 1 has the number of batches here, and their checksums in front of the runs.
    legacy = version == _LEGACY
    target_epoch = -1 if legacy or number == _UNSIGNED else number
    runs_start = _INTENT.size + (number * _LEGACY_CHUNK.size if legacy else 0)
    if not n_runs or len(value) != runs_start + n_runs * _RUN.size:
        raise ValueError(f"an intent of {n_runs} runs in {len(value)} bytes")
    runs = tuple(_RUN.unpack_from(value, runs_start + i * _RUN.size) for i in range(n_runs))
    history = NO_HISTORY if legacy and mode == Mode.BULK else History(pid, epoch)
    return Intent(
        Mode(mode), nonce, history, sequence, down, previous,
        leader_epoch=leader_epoch, runs=runs, target_epoch=target_epoch, legacy=legacy,
    )  # fmt: skip


def _decode_pack(value: bytes) -> Pack:
    _, part, parts, until, nonce, count = _PACK.unpack_from(value)
    segments = SegmentMap.from_bytes(zlib.decompress(value[_PACK.size :]))
    if len(segments) != count:
        raise ValueError(f"a pack of {count} segments holds {len(segments)}")
    return Pack(nonce, part, parts, until, segments)


def _decode_turn(value: bytes) -> Turn:
    _, old_id, old_epoch, sequence, producer_id, epoch, *fields = _TURN.unpack_from(value)
    ended, history = History(old_id, old_epoch), History(producer_id, epoch)
    return Turn(ended=ended, ended_sequence=sequence, history=history, **_named(_TURN_FIELDS, fields))


def _decode_reign(value: bytes) -> Reign:
    _, number, ended, unclean, nonce = _REIGN.unpack_from(value)
    return Reign(nonce, number, bool(ended), unclean)


_DECODE: dict[MapRecordKind, Callable[[bytes], MapRecord]] = {
    MapRecordKind.INTENT: _decode_intent,
    MapRecordKind.MARK: _decode_mark,
    MapRecordKind.PACK: _decode_pack,
    MapRecordKind.TURN: _decode_turn,
    MapRecordKind.REIGN: _decode_reign,
}
