"""Every parser of bytes that others may have written, with valid samples and the errors that it may raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import hashlib
import json
from pathlib import Path
import struct
import tempfile
from typing import Any, Final, NamedTuple
from uuid import UUID

from drkit.config.files.document import lines_of
from drkit.config.loader import read
from drkit.config.mm2.properties import MalformedEscape, parse
from drkit.detect.notes import read_note
from drkit.endpoint import Endpoint, parse_endpoint
from drkit.errors import ConfigError, DrkitError
from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.records import decoded, kind_of
from drkit.journal.entries import Assembly, EntryKind, JournalEntry, JournalHistory, parts_of
from drkit.journal.machine import StepName
from drkit.kafka import probe
from drkit.kafka.security.keystores import StoreError, read_store
from drkit.kafka.security.oauth import read_answer
from drkit.kafka.security.settings import parse_jaas
from drkit.masking import scrubbed
from drkit.offsets import map_codec, map_record, spark_query
from drkit.offsets.mm2_records import Checkpoint, Heartbeat, OffsetSync, group_of, is_checkpoint
from drkit.offsets.spark_query import FirstOffsets, LoggedBatch, UnreadableLog
from drkit.watch.agent import find_state
from drkit.wire import CorruptBatch, Record, decode, records_in, split, visible
from drkit.wire.group_log import GroupLog
from tests.fuzz.mutations import with_checksums
from tests.support.detect.any_notes import GOOD
from tests.support.flow_state.old_bytes import RECORDS
from tests.support.wire.forge import Batch, batch, log, marker, run

DrkitErrors = type[BaseException] | tuple[type[BaseException], ...]


class Parser(NamedTuple):
    """One parser."""

    parse: Callable[[bytes], object]
    raises: DrkitErrors
    samples: Sequence[bytes]
    prepare: Callable[[bytes], bytes] = bytes


def pair(key: bytes | str, value: bytes) -> bytes:
    """A record in one piece."""
    raw = key if isinstance(key, bytes) else key.encode()
    return struct.pack(">H", len(raw)) + raw + value


def parted(data: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(data[:2], "big") % 200
    return data[2 : 2 + size], data[2 + size :]


def _copy(data: bytes) -> None:
    for more in (
        {"merge_below": 16384},
        {"position": 1},
        {"max_batch_bytes": 70},
        {"end": 3},
    ):
        run(data, aborted=[(5, 0)], skip_producer_ids=frozenset({7}), **more)


def _read_as_consumer(data: bytes) -> None:
    for chunk in visible(data, 0, aborted=[(5, 0)]).chunks:
        list(records_in(chunk))
    for header, each in split(data):
        decode(header, each)


def _map(data: bytes) -> None:
    key, value = parted(data)
    for read_key in (map_codec.about, map_codec.place, map_codec.turned_to):
        try:
            read_key(key)
        except ValueError:
            continue
    map_codec.decode_record(key, value)


def _state(data: bytes) -> None:
    key, value = parted(data)
    found = kind_of(key.decode(errors="replace"))
    if found is not None:
        decoded(*found, value)


def _note(data: bytes) -> None:
    key, value = parted(data)
    read_note(key.decode(errors="replace"), value)


def _journal(data: bytes) -> None:
    assembly, history = Assembly(), JournalHistory()
    for value in data.split(b"\n"):
        entry = assembly.take(value)
        if entry is not None:
            history.take(entry)


def _on_disk(name: str, work: Callable[[Path], object]) -> Callable[[bytes], None]:
    def parse_file(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(data)
            work(path)

    return parse_file


def _toml(path: Path) -> None:
    loaded = read(path, {"X": "x"})
    lines_of(path.read_text(encoding="utf-8"))
    repr(loaded.settings)


def _spark(data: bytes) -> None:
    LoggedBatch.parse(data).kafka()


def _spark_state(data: bytes) -> None:
    spark_query.places(data)
    spark_query.moved(data, "/elsewhere")


def _jks() -> bytes:
    entry = struct.pack(">I", 2) + pair("ca", b"") + struct.pack(">Q", 1) + pair("X.509", b"")
    body = struct.pack(">III", 0xFEEDFEED, 2, 1) + entry + struct.pack(">I", 30) + b"\x30\x1c" + bytes(28)
    return body + hashlib.sha1(body).digest()  # noqa: S324  the format's


CONFIG: Final = b"""
[clusters.a]
bootstrap_servers = "h:1" # x
client = { "security.protocol" = "SASL_SSL", "sasl.jaas.config" = "${env:X}" }
[clusters.b]
bootstrap_servers = "h:2"
[[flows]]
source = "a"
target = "b"
topics = [
  "orders", 'pay.*',
]
[failover]
repoint = [{ kind = "print" }]
"""
ROWS: Final = tuple(Record(n, 1_700_000_000_000 + n, b"k", b"v" * n, ((b"h", None),)) for n in range(14))
BATCHES: Final = (
    *(log(batch(0, 3, codec=codec), batch(5, 20, codec=codec)) for codec in range(5)),
    log(batch(0, 2, producer_id=5, attributes=0x10), marker(2, 5, 0), batch(3, 1)),
    *(Batch(0, ROWS, codec=codec, attributes=bits).to_bytes() for codec, bits in ((0, 8), (1, 0x40), (4, 8))),
)
GROUPS: Final = tuple(
    Batch(
        0, (Record(0, 1, struct.pack(">hh", 1, 1) + b"g" + pair("orders", bytes(4)), b"v", ()),), codec=codec
    ).to_bytes()
    for codec in range(5)
)
ENTRY: Final = JournalEntry(
    "r-1", 0, "t", 3, EntryKind.RUN, None, "", 1, {"holder": {"token": "t"}, "scope": ["orders"]}
)
ENDED: Final = JournalEntry("r-1", 1, "t", 3, EntryKind.END, None, "", 2, {"state": "done"})
STEP: Final = JournalEntry("r-1", 2, "t", 3, EntryKind.INTENT, StepName.FENCE, "", 2, {})
JSON: Final = '{"orders":{"0":5,"1":-2}}'
MAP_KEY: Final = map_record.MapKey(UUID(int=5), UUID(int=6), 3)
HISTORY: Final = map_record.History(5, 1)
MAP: Final = (
    map_record.Intent(map_record.Mode.LIVE, 9, HISTORY, 3, 10, 10, 2, ((100, 5), (107, 2))),
    map_record.Mark(9, HISTORY, 100, 10, 15, 8, 2, live=True),
    map_record.Turn(9, 1, HISTORY, 8, HISTORY, 100, 10, 15, 2, 3),
)
OFFSETS: Final = (
    (OffsetSync("orders", 0, 5, 7), OffsetSync.decode),
    (Checkpoint("g", "orders", 0, 5, 7, ""), Checkpoint.decode),
    (Heartbeat("a", "b", 1), Heartbeat.decode),
)


def _mm2(data: bytes) -> None:
    key, value = parted(data)
    is_checkpoint(value)
    group_of(key)
    for _, decode_record in OFFSETS:
        try:
            decode_record(key, value)
        except ValueError:
            continue


def _texts(work: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda data: work(data.decode(errors="replace"))


BROKEN: Final = (Malformed,)
PARSERS: Final[dict[str, Parser]] = {
    "batches copied": Parser(_copy, CorruptBatch, BATCHES),
    "batches with right checksums copied": Parser(_copy, CorruptBatch, BATCHES, with_checksums),
    "batches read": Parser(_read_as_consumer, CorruptBatch, BATCHES, with_checksums),
    "group offsets": Parser(
        lambda data: GroupLog(0).take(data), (CorruptBatch, ValueError), GROUPS, with_checksums
    ),
    "notes": Parser(_note, Malformed, [pair(k, json.dumps(v.to_json()).encode()) for k, v in GOOD.items()]),
    "state": Parser(_state, Malformed, [pair(key, value) for key, value in RECORDS.items()]),
    "journal": Parser(
        _journal, ValueError, [b"\n".join(b"".join(parts_of(e)) for e in (ENTRY, STEP, ENDED))]
    ),
    "offset map": Parser(
        _map, ValueError, [pair(*map_codec.encode_map_record(MAP_KEY, each)) for each in MAP]
    ),
    "MirrorMaker 2": Parser(_mm2, (), [pair(record.key, record.value) for record, _ in OFFSETS]),
    "properties": Parser(_texts(parse), MalformedEscape, [b"a.b=c\\u0041\\\n  d\n# x\n! y\nk : v\n"]),
    "configuration": Parser(_on_disk("drkit.toml", _toml), ConfigError, [CONFIG]),
    "MirrorMaker 2's file": Parser(
        _on_disk("mm2.properties", lambda path: read(path, {})),
        ConfigError,
        [b"clusters = a, b\na.bootstrap.servers = h:1\nb.bootstrap.servers = h:2\na->b.enabled = true\n"],
    ),
    "endpoint": Parser(
        _texts(parse_endpoint), ValueError, [Endpoint(5, "b", "id", "h:1").to_json().encode()]
    ),
    "Spark's offsets": Parser(
        _spark, UnreadableLog, [f"v1\n{{}}\n{JSON}\n-".encode(), f"v2\n{{}}\na:{JSON}".encode()]
    ),
    "Spark's first offsets": Parser(FirstOffsets.parse, UnreadableLog, [b"\0v1\n" + JSON.encode()]),
    "Spark's state": Parser(
        _spark_state,
        UnreadableLog,
        [b'v2\n{"stateStoreInfo":[{"stateSchemaFilePaths":["/c/state/0/_stateSchema/x"]}]}'],
    ),
    "JKS": Parser(_on_disk("s.jks", lambda path: read_store(str(path), None)), StoreError, [_jks()]),
    "JAAS": Parser(_texts(parse_jaas), ValueError, [b'a.B required username="u" password="p\\"x";']),
    "OAuth": Parser(read_answer, ValueError, [b'{"access_token": "t", "expires_in": 60}']),
    "SaslHandshake": Parser(probe._offered, probe._NoKafkaError, [struct.pack(">hih", 0, 1, 5) + b"PLAIN"]),
    "agent's state": Parser(
        _on_disk("agent.json", find_state),
        DrkitError,
        [b'{"armed":true,"fenced":true,"at_ms":1,"evidence":["x"]}'],
    ),
    "texts of errors": Parser(_texts(scrubbed), (), [b'password="x" https://u:p@h/?token=1 Bearer a.1']),
}
"""By name. What a parser raises besides, is a defect."""
