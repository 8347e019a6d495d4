"""Maps of format 1 (drkit 0.1.0) are read: the bytes here were made by its own encoder."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import pytest

from drkit.model import SourceOffset
from drkit.offset_map.bucket import MapBucket
from drkit.offsets import Decoded, History, Intent, MapKey, Mark, Pack, Unavailable, decode_record
from drkit.offsets.map_codec import place
from drkit.offsets.map_record import NO_HISTORY, SEQUENCE_MODULUS, MapRecord, MapRecordKind, Mode
from drkit.offsets.resolution import LogLook, Resolution
from drkit.offsets.resolve import resolve

KEY: Final = MapKey(UUID(int=1), UUID(int=2), 3)
PREFIX: Final = "01000000000000000000000000000000010000000000000000000000000000000200000003"
HISTORY: Final = History(77, 4)

RECORDS: Final[dict[str, tuple[str, str, MapRecord]]] = {
    "live": (
        "010000000000000014000000000000000b",
        (
            "0101000000000000004d00040000006400000000000000140000000000000012000000000000000b000000060000"
            "00000000000200000000000000c80000000500000000000000cf00000002"
        ),
        Intent(Mode.LIVE, 11, HISTORY, 100, 20, 18, 6, ((200, 5), (207, 2)), legacy=True),
    ),
    "live with the checksums of two batches": (
        "01000000000000001b000000000000000c",
        (
            "0101000000000000004d00040000006b000000000000001b000000000000001b000000000000000cffffffff0000"
            "00020000000100000003deadbeef0000000100000007000000000000012c00000004"
        ),
        Intent(Mode.LIVE, 12, HISTORY, 107, 27, 27, -1, ((300, 4),), legacy=True),
    ),
    "bulk": (
        "01000000000000001f000000000000000d",
        (
            "01020000000000000037000900000000000000000000001f000000000000001f000000000000000d000000070000"
            "00000000000100000000000001900000000a"
        ),
        Intent(Mode.BULK, 13, NO_HISTORY, 0, 31, 31, 7, ((400, 10),), legacy=True),
    ),
    "repair": (
        "01000000000000002a000000000000000e",
        (
            "0103000000000000004d00047fffffff000000000000002a0000000000000029000000000000000e000000080000"
            "00000000000100000000000001f400000001"
        ),
        Intent(Mode.REPAIR, 14, HISTORY, SEQUENCE_MODULUS - 1, 42, 41, 8, ((500, 1),), legacy=True),
    ),
    "mark": (
        "02",
        "0100000000000001f5000000000000002c000000000000002b00000002000000000000000f00000008",
        Mark(15, NO_HISTORY, 501, 44, 43, 2, 8, target_epoch=-1, live=None),
    ),
}
"""Name → key after the prefix, value, and what is read."""

PACK: Final = (
    "03000000000000001000000001",
    (
        "010000000100000002000000000000002b000000000000001000000003789c6360008313108ae13c8462d481f245"
        "a0b424949686d2ac509ae93f14000097180a0c"
    ),
)


def decoded(key: str, value: str) -> Decoded:
    return decode_record(bytes.fromhex(PREFIX + key), bytes.fromhex(value))


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_of_format_1_is_read_with_every_field(name: str) -> None:
    key, value, wanted = RECORDS[name]
    found = decoded(key, value)
    assert (found.where, found.record) == (KEY, wanted)
    assert found.kind is (MapRecordKind.MARK if name == "mark" else MapRecordKind.INTENT)
    assert place(bytes.fromhex(PREFIX + key)) == (wanted.downstream if isinstance(wanted, Intent) else -1)


def test_a_pack_of_format_1_is_read_with_every_field() -> None:
    found = decoded(*PACK)
    pack = found.record
    assert (found.where, found.kind) == (KEY, MapRecordKind.PACK)
    assert isinstance(pack, Pack)
    assert (pack.nonce, pack.part, pack.parts, pack.until) == (16, 1, 2, 43)
    assert pack.segments.triples() == [(200, 20, 5), (207, 25, 2), (300, 27, -1)]


# -- whole partitions; of their marks the cleaner has left the newest ---------------------------------------

HEALED: Final = (
    # Three tasks, each with a claim; between the second and the third another producer wrote five records.
    (
        "0100000000000000000000000000000001",
        (
            "0101000000000000004d000000000000000000000000000000000000000000000000000000000001000000010000"
            "00000000000100000000000003e800000064"
        ),
    ),
    (
        "0100000000000000640000000000000002",
        (
            "0101000000000000004d000000000064000000000000006400000000000000640000000000000002000000020000"
            "000000000001000000000000047e00000028"
        ),
    ),
    (
        "0100000000000000cd0000000000000003",
        (
            "0101000000000000004d0000000000c800000000000000cd00000000000000c80000000000000003000000020000"
            "00000000000100000000000004e20000000a"
        ),
    ),
    ("02", "010000000000000546000000000000013100000000000001310000012c000000000000000300000002"),
)
WITH_TRANSACTION: Final = (
    # A live task, a transaction of ten records and its marker, another live task.
    HEALED[0],
    (
        "0100000000000000640000000000000002",
        (
            "01020000000000000037000100000000000000000000006400000000000000640000000000000002000000010000"
            "000000000002000000000000044c00000005000000000000045200000005"
        ),
    ),
    (
        "01000000000000006f0000000000000003",
        (
            "0101000000000000004d000000000064000000000000006f000000000000006e0000000000000003000000010000"
            "00000000000100000000000004570000003c"
        ),
    ),
    ("02", "0100000000000004bb00000000000000d300000000000000d3000000c8000000000000000300000001"),
)
OVERRULED: Final = (
    # The first task claimed (0, 10) and (50, 10) and appended the first ten; the second found others next.
    (
        "0100000000000000000000000000000001",
        (
            "0101000000000000004d000000000000000000000000000000000000000000000000000000000001000000010000"
            "00000000000100000000000000000000000a"
        ),
    ),
    (
        "01000000000000000a0000000000000001",
        (
            "0101000000000000004d00000000000a000000000000000a000000000000000a0000000000000001000000010000"
            "00000000000100000000000000320000000a"
        ),
    ),
    (
        "01000000000000000a0000000000000002",
        (
            "0101000000000000004d00000000000a000000000000000a000000000000000a0000000000000002000000010000"
            "000000000001000000000000002800000005"
        ),
    ),
    ("02", "0100000000000000320000000000000014000000000000001400000014000000000000000200000001"),
)
INCOMPLETE: Final = (
    # Ten records are marked; the next mark is twenty sequence numbers and thirty-five offsets further.
    OVERRULED[0],
    ("02", "01000000000000000a000000000000000a000000000000000a0000000a000000000000000100000001"),
    ("02", "010000000000000028000000000000002d000000000000002d0000001e000000000000000200000001"),
)


def read(records: tuple[tuple[str, str], ...]) -> MapBucket:
    bucket = MapBucket(0, "drkit-offset-map.a.internal")
    for offset, (key, value) in enumerate(records):
        bucket.apply(bytes.fromhex(PREFIX + key), bytes.fromhex(value), offset)
    assert not bucket.unreadable
    return bucket


def exact(records: tuple[tuple[str, str], ...], end: int, sequence: int | None) -> Resolution:
    bucket = read(records)
    assert bucket.doubt(KEY) is None
    state = bucket.of(KEY.source_id, KEY.target_id, KEY.partition)
    found = resolve(state, LogLook(end, sequence, frozenset({77})))
    assert isinstance(found, Resolution)
    assert (found.copied_end, found.history) == (end, History(77, 0))
    return found


def check(found: Resolution, runs: list[tuple[int, int, int]], end: int) -> None:
    """Every source offset leads to the first copied record at or after it.

    :param runs: (source offset, target offset, records) of all that was copied
    """
    truth = [(up + i, down + i) for up, down, n in runs for i in range(n)]
    assert found.upstream == truth[-1][0] + 1
    for upstream in range(truth[-1][0] + 2):
        wanted = next((down for up, down in truth if up >= upstream), end)
        assert found.segments.translate(SourceOffset(upstream), end) == wanted, upstream


@pytest.mark.parametrize("sequence", [300, None])
def test_a_partition_whose_older_marks_are_gone_translates_exactly(sequence: int | None) -> None:
    runs = [(1000, 0, 100), (1150, 100, 100), (1250, 205, 100)]
    check(exact(HEALED, 305, sequence), runs, 305)


def test_records_in_a_transaction_between_two_live_tasks_translate_exactly() -> None:
    runs = [(1000, 0, 100), (1100, 100, 5), (1106, 105, 5), (1111, 111, 100)]
    check(exact(WITH_TRANSACTION, 211, 200), runs, 211)


def test_a_claim_that_another_task_overruled_is_not_believed() -> None:
    """Its writer had not appended it when the other looked at the log: the second claim is right."""
    check(exact(OVERRULED, 20, 20), [(0, 0, 10), (40, 10, 10)], 20)


def test_claims_that_do_not_reach_from_one_mark_to_the_next_are_named() -> None:
    bucket = read(INCOMPLETE)
    doubt = bucket.doubt(KEY)
    assert doubt is not None
    assert doubt.reason == (
        "the offset map drkit-offset-map.a.internal-0 is incomplete: what was appended from sequence 10 on,"
        " at target offset 10, is not known up to sequence 30 at 45"
    )
    state = bucket.of(KEY.source_id, KEY.target_id, KEY.partition)
    assert isinstance(resolve(state, LogLook(45, 30, frozenset({77}))), Unavailable)
