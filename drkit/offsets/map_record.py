"""Records of the offset-map topic, binary.

Key: version u8, source topic id 16 bytes, target topic id 16 bytes, partition i32, kind u8, and for
an intent its first target offset i64 and the writer's nonce i64, so that two writers that claim one
place never overwrite each other by compaction. A mark has one key per partition: the newest wins.

An *intent* lists what stands (or, in live mode, is about to stand) from a target offset on: the
fingerprint of each chunk and the runs of consecutive source offsets. A *mark* states that all up to
a point is acknowledged and holds no record of anyone else. A *pack* replaces many intents: a part of
all confirmed segments; the parts of one pack count when the last of them is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
import struct
from uuid import UUID
import zlib

from drkit.offsets.segments import SegmentMap

_VERSION = 1
_KEY = struct.Struct(">B16s16siB")
_KEY_INTENT = struct.Struct(">qq")
_INTENT = struct.Struct(">BBqhiqqqiII")
_CHUNK = struct.Struct(">iI")
_RUN = struct.Struct(">qi")
_KEY_PACK = struct.Struct(">qI")
_PACK = struct.Struct(">BIIqqI")
_MARK = struct.Struct(">Bqqqiqi")
SEQUENCE_MODULUS = 1 << 31
"""Sequence numbers run from 0 to 2³¹−1 and start again at 0."""


class Kind(IntEnum):
    """What a record of the map says."""

    INTENT = 1
    MARK = 2
    PACK = 3


class Mode(IntEnum):
    """How an intent's records reached the target."""

    LIVE = 1
    """An intent proper: durable before the first batch, true only if the log confirms it."""
    BULK = 2
    """Committed in the same transaction as its records: true."""
    REPAIR = 3
    """Found by comparing the log with earlier intents: true, cuts all behind its start."""


@dataclass(frozen=True, slots=True)
class MapKey:
    """What a record of the map is about."""

    source_id: UUID
    target_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class Intent:
    """Runs of source records from one target offset on."""

    mode: Mode
    nonce: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    downstream: int
    """Target offset of the first record."""
    previous_end: int
    """Target offset behind the last record before this intent."""
    leader_epoch: int
    chunks: tuple[tuple[int, int], ...]
    """(records, CRC-32C of the batch as sent) per batch; empty where no rival is possible."""
    runs: tuple[tuple[int, int], ...]
    """(first source offset, records) of each run of consecutive source offsets."""

    @property
    def count(self) -> int:
        """Records in all runs."""
        return sum(n for _, n in self.runs)

    def pieces(self) -> list[tuple[int, int, int]]:
        """(upstream, downstream, records) per run, were all of it on the target without a break."""
        out, down = [], self.downstream
        for up, n in self.runs:
            out.append((up, down, n))
            down += n
        return out


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything up to here is acknowledged and checked."""

    nonce: int
    upstream: int
    """Next source offset to copy (frontier)."""
    downstream: int
    """The target's end that was looked at."""
    copied_end: int
    """Target offset behind the last record of this flow; foreign records may follow."""
    sequence: int
    """Next live sequence number."""
    leader_epoch: int
    """Leader epoch of the last source batch, −1 if unknown."""


@dataclass(frozen=True, slots=True)
class Pack:
    """One part of the confirmed segments of a partition."""

    nonce: int
    """Tells the parts of one pack from those of another."""
    part: int
    parts: int
    until: int
    """Target offset up to which the pack speaks."""
    segments: SegmentMap


MapRecord = Intent | Mark | Pack
"""Whatever the map topic holds."""


def _key(key: MapKey, kind: Kind) -> bytes:
    return _KEY.pack(_VERSION, key.source_id.bytes, key.target_id.bytes, key.partition, kind)


def encode_intent(key: MapKey, intent: Intent) -> tuple[bytes, bytes]:
    """An intent as (key, value) of a Kafka record."""
    head = _INTENT.pack(
        _VERSION,
        intent.mode,
        intent.producer_id,
        intent.producer_epoch,
        intent.base_sequence,
        intent.downstream,
        intent.previous_end,
        intent.nonce,
        intent.leader_epoch,
        len(intent.chunks),
        len(intent.runs),
    )
    body = [head, *(_CHUNK.pack(*c) for c in intent.chunks), *(_RUN.pack(*r) for r in intent.runs)]
    return _key(key, Kind.INTENT) + _KEY_INTENT.pack(intent.downstream, intent.nonce), b"".join(body)


def encode_mark(key: MapKey, mark: Mark) -> tuple[bytes, bytes]:
    """A mark as (key, value) of a Kafka record."""
    value = _MARK.pack(
        _VERSION,
        mark.upstream,
        mark.downstream,
        mark.copied_end,
        mark.sequence,
        mark.nonce,
        mark.leader_epoch,
    )
    return _key(key, Kind.MARK), value


def encode_pack(key: MapKey, pack: Pack) -> tuple[bytes, bytes]:
    """A part of a pack as (key, value) of a Kafka record."""
    body = zlib.compress(pack.segments.to_bytes())
    head = _PACK.pack(_VERSION, pack.part, pack.parts, pack.until, pack.nonce, len(pack.segments))
    return _key(key, Kind.PACK) + _KEY_PACK.pack(pack.nonce, pack.part), head + body


def encode_map_record(key: MapKey, record: MapRecord) -> tuple[bytes, bytes]:
    """Any record of the map as (key, value) of a Kafka record."""
    if isinstance(record, Intent):
        return encode_intent(key, record)
    return encode_mark(key, record) if isinstance(record, Mark) else encode_pack(key, record)


def about(key: bytes) -> tuple[MapKey, Kind]:
    """Which partition a record's key is about, and what kind of record it belongs to.

    :raises ValueError: the key is not of this format
    """
    try:
        version, source, target, partition, kind = _KEY.unpack_from(key)
    except struct.error as error:
        raise ValueError(f"a key of {len(key)} bytes: {error}") from error
    if version != _VERSION:
        raise ValueError(f"version {version}, this drkit reads {_VERSION}")
    return MapKey(UUID(bytes=source), UUID(bytes=target), partition), Kind(kind)


def place(key: bytes) -> int:
    """The target offset in the key of an intent; −1 in any other key.

    :raises ValueError: the key is not of this format
    """
    if about(key)[1] is not Kind.INTENT:
        return -1
    downstream: int = _KEY_INTENT.unpack_from(key, _KEY.size)[0]
    return downstream


def decode_record(key: bytes | None, value: bytes | None) -> tuple[MapKey, MapRecord] | None:
    """Read a record of the map topic; None for a tombstone.

    :raises ValueError: the record is not of this format or version
    """
    if key is None:
        raise ValueError("a record without a key")
    where, kind = about(key)
    if value is None:
        return None
    try:
        return where, _DECODE[kind](value)
    except (struct.error, zlib.error) as error:
        raise ValueError(f"a record of {len(key)} + {len(value)} bytes: {error}") from error


def _decode_mark(value: bytes) -> Mark:
    _, up, down, copied_end, sequence, nonce, leader_epoch = _MARK.unpack_from(value)
    return Mark(nonce, up, down, copied_end, sequence, leader_epoch)


def _decode_intent(value: bytes) -> Intent:
    (_, mode, pid, epoch, sequence, down, previous, nonce, leader_epoch, n_chunks, n_runs) = (
        _INTENT.unpack_from(value)
    )
    at = _INTENT.size
    chunks = tuple(_CHUNK.unpack_from(value, at + i * _CHUNK.size) for i in range(n_chunks))
    at += n_chunks * _CHUNK.size
    runs = tuple(_RUN.unpack_from(value, at + i * _RUN.size) for i in range(n_runs))
    if not runs:
        raise ValueError("an intent without runs")
    return Intent(Mode(mode), nonce, pid, epoch, sequence, down, previous, leader_epoch, chunks, runs)


def _decode_pack(value: bytes) -> Pack:
    _, part, parts, until, nonce, count = _PACK.unpack_from(value)
    segments = SegmentMap.from_bytes(zlib.decompress(value[_PACK.size :]))
    if len(segments) != count:
        raise ValueError(f"a pack of {count} segments holds {len(segments)}")
    return Pack(nonce, part, parts, until, segments)


_DECODE: dict[Kind, Callable[[bytes], MapRecord]] = {
    Kind.INTENT: _decode_intent,
    Kind.MARK: _decode_mark,
    Kind.PACK: _decode_pack,
}
