"""Of which groups a piece of the log of group offsets tells, transactions and damage included."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.wire import CorruptBatch, Record
from drkit.wire.group_log import GroupLog
from tests.support.wire.forge import ABORT, COMMIT, Batch, log, marker

TRANSACTIONAL = 0x10
TIME = 1_700_000_000_000


def commit_key(group: str, version: int = 1) -> bytes:
    name = group.encode()
    return (
        struct.pack(">hh", version, len(name))
        + name
        + struct.pack(">h", 6)
        + b"orders"
        + struct.pack(">i", 3)
    )


def told(base: int, *groups: str, version: int = 1, tombstones: bool = False, **fields: int) -> Batch:
    value = None if tombstones else b"whatever it says"
    records = (Record(base + i, TIME, commit_key(g, version), value, ()) for i, g in enumerate(groups))
    return Batch(base, tuple(records), **fields)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("version", [0, 1, 2, 3, 17])
def test_every_kind_of_record_names_its_group(codec: int, version: int) -> None:
    """Commits, groups and what KIP-848 keeps of them: version and name come first in every key."""
    reader = GroupLog(10)
    assert reader.take(log(told(10, "orders", "größe", version=version, codec=codec))) == {"orders", "größe"}
    assert reader.next_offset == 12


def test_deleted_and_expired_offsets_count() -> None:
    assert GroupLog(0).take(log(told(0, "gone", tombstones=True))) == {"gone"}


def test_what_was_read_is_not_reported_again() -> None:
    both = log(told(0, "a"), told(1, "b"))
    reader = GroupLog(1)
    assert reader.take(both) == {"b"}
    assert reader.take(both) == set()


def test_a_piece_of_a_batch_at_the_end_waits_for_the_rest() -> None:
    whole = log(told(0, "a"), told(1, "b"))
    reader = GroupLog(0)
    assert reader.take(whole[:-3]) == {"a"}
    assert reader.next_offset == 1
    assert reader.take(whole) == {"b"}


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_a_transaction_reports_its_groups_when_written_and_when_decided(kind: int) -> None:
    reader = GroupLog(0)
    assert reader.take(log(told(0, "t1", "t2", attributes=TRANSACTIONAL, producer_id=7))) == {"t1", "t2"}
    assert reader.take(log(told(2, "other"), marker(3, 8, kind))) == {"other"}
    assert reader.take(log(marker(4, 7, kind))) == {"t1", "t2"}
    assert reader.take(log(marker(5, 7, kind))) == set()
    assert reader.next_offset == 6


def test_batches_that_compaction_has_emptied_report_no_group() -> None:
    reader = GroupLog(0)
    assert reader.take(log(Batch(0, (), span=5), told(9, "late"))) == {"late"}
    assert reader.next_offset == 10


@pytest.mark.parametrize("key", [None, b"", b"\0", b"\0\1\0\5abc", b"\0\1\xff\xff", b"\0\1\0\2\xff\xfe"])
def test_a_key_that_names_no_group_is_an_error(key: bytes | None) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  what it says depends on what is wrong with it
        GroupLog(0).take(log(Batch(0, (Record(0, TIME, key, b"v", ()),))))


def test_what_is_no_batch_is_an_error() -> None:
    with pytest.raises(CorruptBatch):
        GroupLog(0).take(b"\0" * 200)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-1, 2)), max_size=30), st.data())
def test_however_it_is_cut_every_group_is_reported(
    commits: list[tuple[str, int]], data: st.DataObject
) -> None:
    """Any answers that a broker may give of a log: each begins at the reader's offset and ends anywhere."""
    batches = [
        told(i, g, attributes=TRANSACTIONAL if pid >= 0 else 0, producer_id=pid)
        for i, (g, pid) in enumerate(commits)
    ]
    reader, found = GroupLog(0), set[str]()
    while reader.next_offset < len(batches):
        left = log(*batches[reader.next_offset :])
        found |= reader.take(
            left[: data.draw(st.integers(batches[reader.next_offset].to_bytes().__len__(), len(left)))]
        )
    assert found == {g for g, _ in commits}
    for pid in range(3):
        assert reader.take(log(marker(reader.next_offset, pid, COMMIT))) == {
            g for g, p in commits if p == pid
        }
