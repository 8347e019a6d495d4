"""One record of every kind that drkit writes, with each optional field present and absent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
import json
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from drkit.checkpoints.shard import Shard, ShardReport
from drkit.copy_task.core.assignment import PartitionAssignment, TaskAssignment
from drkit.detect.agents import AgentNote, Hold
from drkit.detect.note_kinds import LOOK, Automatic, KnownBrokers, Pause
from drkit.detect.notes import read_note
from drkit.detect.seen import Address, Sight
from drkit.detect.votes import Vote
from drkit.drill.entry import DrillEntry, MadeItem
from drkit.endpoint import Endpoint, parse_endpoint
from drkit.export.manifest import (
    ExportedFile,
    ExportFormat,
    ExportPart,
    Manifest,
    TailRange,
    partition_export,
)
from drkit.export.record import HoleKind
from drkit.failover.core.context import Scope
from drkit.failover.core.request import RunRequest
from drkit.flow_state.copied_topics import CopiedTopics, Producers
from drkit.flow_state.left_out import KeptTail
from drkit.flow_state.records import (
    CheckpointsRecord,
    ConfigsRecord,
    ConfigurationRecord,
    ControlRecord,
    CutRecord,
    DelayedSetting,
    Ends,
    EventRecord,
    GenerationRecord,
    GuardAclsRecord,
    HeldBack,
    HeldSettingsRecord,
    LeaseRecord,
    NotSynchronised,
    Process,
    ReturnRecord,
    Role,
    RoleRecord,
    SourceSeenRecord,
    StandbyRecord,
    StateRecord,
    TailRecord,
    TakenOverPartition,
    TakeoverRecord,
    UnreplayedRecord,
    VerifiedRecord,
    WrittenRecord,
)
from drkit.flow_state.source_fence.entries import FenceEntry, FenceMark
from drkit.journal.entries import EntryKind, JournalEntry
from drkit.journal.machine import StepName
from drkit.model import TopicPartition
from drkit.offsets.crossing import Crossing
from drkit.replay.compare import Same
from drkit.replay.progress import QuarantineRecord, ReplayProgress, packed
from drkit.topology.acls import ANY_HOST, Acl, AclOperation, PatternKind, Permission, ResourceKind
from drkit.verify.compare import Counts, Difference, DifferenceKind, Segment
from drkit.verify.ranges import Range
from drkit.verify.task import RangeResult

FILE: Final = Path(__file__).with_name("recorded.json")
_MS: Final = 1_763_826_448_123
_A, _B = UUID("5f0c1f6e-6d0b-4f8a-9d1a-1f2e3d4c5b6a"), UUID("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9")
_AT, _COPY = TopicPartition("orders", 0), TopicPartition("primary.orders", 0)
_ACLS: Final = frozenset(
    Acl(ResourceKind.TOPIC, PatternKind.LITERAL, name, user, ANY_HOST, AclOperation.WRITE, Permission.DENY)
    for name in ("orders", "payments")
    for user in ("User:*", "User:ädä")
)
_HASH: Final = "ab" * 32
_PROCESS: Final = Process("a-höst", 4711, "8c1b/pid:[4026531836]", 123)
_CROSSING: Final = Crossing(1003, 1020, 1000, 1009)


class Recorded(NamedTuple):
    """A record and its two directions."""

    value: Any
    encode: Callable[[], str]
    decode: Callable[[str], Any]


def _own(value: Any) -> Recorded:
    """A record with ``encode`` and ``of``."""
    return Recorded(value, lambda: value.encode().decode(), lambda text: type(value).of(json.loads(text)))


def _data(value: Any, read: Callable[[Any], Any]) -> Recorded:
    """A part of a larger JSON document."""
    return Recorded(value, lambda: json.dumps(value.to_json()), lambda text: read(json.loads(text)))


def _text(value: Any) -> Recorded:
    """What has ``to_json`` and ``from_json`` of a text."""
    return Recorded(value, value.to_json, type(value).from_json)


STATE: Final[tuple[tuple[str, StateRecord], ...]] = (
    ("control", ControlRecord("r", 0, "stop")),
    ("lease", LeaseRecord("r", _PROCESS, _MS, 15_000, 99)),
    ("lease", LeaseRecord("r", Process("h", 1, "", None), _MS, 15_000)),
    ("standby/r", StandbyRecord(_PROCESS, _MS, _MS, 15_000, ready=True)),
    ("checkpoints", CheckpointsRecord(_MS)),
    ("checkpoints", CheckpointsRecord(_MS, verdicts={}, unread={})),
    (
        "checkpoints",
        CheckpointsRecord(
            _MS,
            _MS,
            3,
            2,
            4,
            1,
            {"WRITE": 3},
            (("g", "t-0", "NOT_STORED", "…"),),
            {"g": -1},
            NotSynchronised(1, {"s": "share"}),
            0.25,
            "code 30",
        ),
    ),
    ("topic/orders", GenerationRecord("orders", _A, _B)),
    ("topic/orders", GenerationRecord("orders", _A, _B, 2, "c-id")),
    (
        "role/orders",
        RoleRecord(
            Role.PROMOTED, 2, "r", _MS, {0: None}, {0: 5}, planned=False, clients_cut="é", epochs={0: 7}
        ),
    ),
    (
        "configs/orders",
        ConfigsRecord({"retention.ms": "1"}, {"retention.ms": DelayedSetting(_MS, None, "1")}),
    ),
    ("takeover/orders", TakeoverRecord(_A, _B, {})),
    ("takeover/orders", TakeoverRecord(_A, _B, {3: TakenOverPartition(None, 1, 2, 0, committed=False)})),
    ("verified/orders/0", VerifiedRecord(_A, _B, 1, 2, 0)),
    ("event/acl/User:ä/-1", EventRecord("acl", "User:ä", -1, _MS, {"deep": [{"x": None}, 1.5, True]})),
    ("cut/orders", CutRecord(_A, _B, {})),
    (
        "cut/orders",
        CutRecord(_A, _B, {}).with_cut(
            0, 1003, emptied=4, rebuilt=7, crossings=(_CROSSING,), kept=(1020, (8, 9))
        ),
    ),
    ("tail/orders", TailRecord("r", _MS, 1, {0: (1, 2)}, None, None, "discard", {}, "…", "ops")),
    (
        "unreplayed/orders/r",
        UnreplayedRecord("r", _MS, 1, "m", "s", "replay", ended="replayed", ended_ms=_MS),
    ),
    ("return/orders", ReturnRecord("p", "r", _MS, "")),
    ("held-settings/orders", HeldSettingsRecord(0, "ops", {"a": None}, {"a": "-1"})),
    ("written/orders/0", WrittenRecord(_A, _B, 0, -1, _MS, 0)),
    ("guard-acls", GuardAclsRecord(_ACLS)),
    (
        "source-seen",
        SourceSeenRecord(
            _MS,
            {
                _AT: Ends(0, 5),
                TopicPartition("orders", 10): Ends(0, 5, 6),
                _COPY: Ends(0, 5, 6, HeldBack(1, 1, None, None)),
                TopicPartition("orders", 2): Ends(0, 5, 6, HeldBack(1, 1, -1, 9)),
                TopicPartition("payments", 0): Ends(0, 5, 6, HeldBack(0), 5),
                TopicPartition("payments", 1): Ends(0, 5, 6, HeldBack(1), 3, 0),
            },
            _MS,
            {"r": 1},
        ),
    ),
    ("source-seen", SourceSeenRecord(_MS, {}, None, {})),
    ("verified/orders/0", VerifiedRecord(_A, _B, 1, 2, 0, "r")),
    ("configuration", ConfigurationRecord({"topics": "0123456789abcdef"})),
)
"""Records of a flow's state, with the keys under which they are; `old_bytes` has one of each other kind."""

_VOTE: Final = Vote("b", "r1", 1, _MS, Sight.GONE, ("x", "ü"), 9.0, 1.5, 3.0, _MS, {"dc1": 7}, "auto")
NOTES: Final[tuple[tuple[str, StateRecord], ...]] = (
    (LOOK, _VOTE),
    ("vote/b", _VOTE),
    ("vote/b", Vote("b", "r1", 1, _MS, Sight.CLEAR)),
    ("agent/dc9", AgentNote("dc9", "r1", 4, Hold.LEASED, _MS, fenced=True, evidence=("y",), sequence=8)),
    ("agent/dc9", AgentNote("dc9", "r1", 4, Hold.LEASED, _MS)),
    ("pause", Pause("me", "räck move", _MS)),
    ("pause", Pause("me")),
    ("automatic", Automatic("o1", "r1", _MS)),
    ("automatic", Automatic("o1", "r1", _MS, ("z",), "done", "me", _MS)),
    ("known", KnownBrokers("abc", (Address("elsewhere", "broker-1.example:9092", 1),))),
    ("known", KnownBrokers(None, ())),
)
"""Notes of the observers' topic, with their keys."""

_PROGRESS: Final = ReplayProgress(
    run_id="r1",
    manifest=_HASH,
    source_topic="orders",
    source_id=_A,
    partition=3,
    first=10,
    end=20,
    topic="orders",
    topic_id=_B,
    same=Same.CONTENT,
    compared_to=99,
    records=8,
    next=15,
)
_KEPT: Final = replace(
    _PROGRESS, appended=3, already=2, kept_back=1, begun_ms=5, ids=(7, 8), copied_to=60, rolled_back_ms=_MS
)
_PARTS: Final = (
    ExportPart(
        10,
        15,
        4,
        99,
        {HoleKind.MARKER: 1},
        -1,
        _MS,
        _HASH,
        ExportedFile("0.parquet", 5, _HASH),
        ExportedFile("0.holes.jsonl", 6, _HASH),
    ),
    ExportPart(
        15, 20, 0, 0, {HoleKind.ABORTED: 5}, None, None, _HASH, None, ExportedFile("1.jsonl", 6, _HASH)
    ),
)
_MANIFEST: Final = Manifest(
    1,
    "c-id",
    "a->b",
    "r-1",
    3,
    ExportFormat.PARQUET,
    _MS,
    tuple(
        partition_export(TailRange("orders", _A, number, 10, 20), _PARTS, term)
        for number, term in enumerate((None, 2))
    ),
)
_KNOWN: Final = CopiedTopics(
    {"orders": ("primary.orders", _A, _B)},
    Producers(7, frozenset({7, 8}), frozenset({9}), str(_A)),
    {_AT: 1003},
    {_AT: 7},
    {_AT: 4},
    crossings={_AT: (_CROSSING, _CROSSING)},
    kept={_AT: KeptTail(1020, frozenset({8, 9}))},
)
_REQUEST: Final = RunRequest(
    planned=True,
    accept_data_loss="why",
    leave_behind=("a", "b"),
    dispositions={"*": "discard"},
    methods={"orders": "rebuild"},
    give_up_history=("c",),
    copy_limit=5,
)
_PARTITION: Final = PartitionAssignment("orders", str(_A), "primary.orders", str(_B), 0, 3)
_TASK: Final = TaskAssignment(
    "x->y", "run", 3, 0, 0, 7, 0, (7,), (), "map", "state", 300.0, 10.0, 1000, (_PARTITION,)
)
_FULL_TASK: Final = replace(
    _TASK,
    bulk_producer_ids=(1, 2),
    planned_at_ms=_MS,
    map_id="m",
    lease_seconds=1.5,
    held_until=2.5,
    held_seconds=3.5,
    boot_id="b",
    partitions=(
        replace(
            _PARTITION,
            compacted=True,
            end=5,
            skip_from=6,
            rebuilt_from=7,
            kept_to=8,
            kept_ids=(9, 10),
            returning=True,
            written_at=11,
        ),
    ),
)
_RANGE: Final = Range(_AT, _COPY, 0, 5, 1, 6, (Segment(0, 1, 5),), True, False)  # noqa: FBT003  its fields
_RESULT: Final = RangeResult(
    "orders",
    0,
    5,
    Counts(5, 5, 4, different=1),
    [
        Difference(DifferenceKind.DIFFERENT, 1, 2, "d", ("key", "value"), "é"),
        Difference(DifferenceKind.MISSING, 3, None),
    ],
    "why",
    7,
    0.5,
    9,
    before=True,
    committed=False,
    compared_from=3,
)
_REPORT: Final = ShardReport(
    1,
    2,
    3,
    4,
    5,
    ["g"],
    6,
    {"WRITE": 1},
    synced=True,
    positions_of={"g": 1},
    verdicts_of={"g": {"WRITE": 1}},
    same=["h"],
    again=["i"],
    refused=[("g", "orders-0", "NOT_STORED", "…")],
    unread={"j": -1},
    deleted=["k"],
    forgotten=["l"],
    started_ms=_MS,
    seconds=0.25,
    error="e",
)
_ENTRY: Final = JournalEntry("r-1", 0, "t", 3, EntryKind.RUN, None, "", _MS, {"holder": {"token": "tö"}})
_DRILL: Final = DrillEntry(
    id="20261129t040000-7d1f0a", name="weekly", kind="bubble", flow="a->b", verdict="unfinished", began_ms=_MS
)


def _pairs(name: str, kind: Callable[[Any], Recorded], *values: Any) -> Iterator[tuple[str, Recorded]]:
    return ((f"{name} {number}", kind(value)) for number, value in enumerate(values))


def _drill(value: DrillEntry) -> Recorded:
    return Recorded(value, value.model_dump_json, DrillEntry.model_validate_json)


def _note(key: str, value: StateRecord) -> Recorded:
    return Recorded(value, lambda: value.encode().decode(), lambda text: read_note(key, text.encode()))


[_FLAGS] = packed("r1", _AT, bytes(range(9)))
RECORDED: Final[dict[str, Recorded]] = dict(
    (
        *((f"{key} {number}", _own(value)) for number, (key, value) in enumerate(STATE)),
        *((f"{key} {number}", _note(key, value)) for number, (key, value) in enumerate(NOTES)),
        *_pairs(
            "fence",
            _own,
            FenceEntry(
                FenceMark.RAISED, "r", "t", "a->b", 2, _MS, ("orders",), "acl", {"orders": None}, _ACLS, "…"
            ),
            FenceEntry(FenceMark.TAKEN, "*", "t", "a->b", 2, _MS),
        ),
        *_pairs(
            "replay", _own, _PROGRESS, _KEPT, QuarantineRecord("r1", "q", _A), QuarantineRecord("r1", "q")
        ),
        ("replay flags", Recorded(_FLAGS[1], _FLAGS[1].decode, str.encode)),
        *_pairs(
            "journal",
            _text,
            _ENTRY,
            _ENTRY._replace(
                number=1, kind=EntryKind.RESULT, step=StepName.FENCE, effect="e", body={"n": [1.5]}
            ),
            _ENTRY._replace(number=2, kind=EntryKind.END, body={"state": "done"}),
        ),
        ("scope", _data(Scope({"orders": "primary.orders"}, ("g",), whole_flow=True), Scope.from_json)),
        *_pairs("request", lambda value: _data(value, RunRequest.from_json), RunRequest(), _REQUEST),
        *_pairs(
            "drill",
            _drill,
            _DRILL,
            _DRILL.model_copy(
                update={
                    "seconds": 1.5,
                    "due_ms": 5,
                    "hash": "h",
                    "reason": "é",
                    "holder": _PROCESS,
                    "made": (MadeItem("target", "topic", f"drkit-drill.{_DRILL.id}.n", str(_A)),),
                    "cleanup_owed": True,
                    "written_ms": 6,
                }
            ),
        ),
        (
            "manifest",
            Recorded(_MANIFEST, lambda: _MANIFEST.to_bytes().decode(), lambda t: Manifest.parse(t.encode())),
        ),
        *_pairs(
            "endpoint",
            lambda value: Recorded(value, value.to_json, parse_endpoint),
            Endpoint(5, "b", "id", "h:1"),
            Endpoint(5, "b", "id", "h:1", {"client.rack": "ä"}, {"orders": "primary.orders"}),
        ),
    )
)
"""By name; the number tells samples of one kind apart."""
TASK_DATA: Final[dict[str, Recorded]] = dict(
    (
        *_pairs(
            "shard",
            _text,
            Shard(1, "a", ("g",), CopiedTopics({}, Producers(7, frozenset()))),
            Shard(
                1,
                "a",
                ("g", "h"),
                _KNOWN,
                "topic",
                sync=True,
                refresh_ms=5,
                promoted=frozenset({"p"}),
                gone=("i",),
                recorded=(("g", "t", 3),),
                topic_id=str(_A),
                round=3,
                last=(1, 2),
                quick=frozenset({"g"}),
            ),
        ),
        *_pairs("report", _text, ShardReport(1), _REPORT),
        *_pairs("task", _text, _TASK, _FULL_TASK),
        *_pairs(
            "range",
            _text,
            _RANGE,
            replace(_RANGE, lag_until=9, committed=False, again_from=2, apart=((1, 2, 3, 4),), keys_from=1),
        ),
        *_pairs("result", _text, RangeResult("orders", 0, 5, Counts()), _RESULT),
    )
)
"""What travels to Spark's tasks and back, between processes of one release."""


if __name__ == "__main__":
    made = {name: recorded.encode() for name, recorded in RECORDED.items()}
    FILE.write_text(json.dumps(made, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
