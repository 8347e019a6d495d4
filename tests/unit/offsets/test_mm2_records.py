"""MirrorMaker 2's records: samples of the real ones, round trips, and what its readers refuse."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.config import ClusterSettings
from drkit.mm2_topics.checkpoint_topic import CheckpointTail
from drkit.offsets.mm2_records import Checkpoint, Heartbeat, OffsetSync, group_of, is_checkpoint
from drkit.wire import Record as StoredRecord

Record = OffsetSync | Checkpoint | Heartbeat
SYNC = OffsetSync("orders", 3, 100, 42)
CHECKPOINT = Checkpoint("g1", "A.orders", 3, 100, 42)
HEARTBEAT = Heartbeat("A", "B", 1_700_000_000_000)

names = st.text(max_size=40)
offsets = st.integers(-(1 << 63), (1 << 63) - 1)
partitions = st.integers(0, (1 << 31) - 1)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (SYNC, "00066f726465727300000003", "0000000000000064000000000000002a"),
        (
            CHECKPOINT,
            "000267310008412e6f726465727300000003",
            "00000000000000000064000000000000002a0000",
        ),
        (HEARTBEAT, "000141000142", "00000000018bcfe56800"),
    ],
)
def test_records_of_the_real_mirror_maker(record: Record, key: str, value: str) -> None:
    """P15: heartbeats in the bytes of the real MirrorMaker 2."""
    assert (record.key.hex(), record.value.hex()) == (key, value)
    assert type(record).decode(bytes.fromhex(key), bytes.fromhex(value)) == record


@given(
    st.one_of(
        st.builds(OffsetSync, names, partitions, offsets, offsets),
        st.builds(Checkpoint, names, names, partitions, offsets, offsets, names),
        st.builds(Heartbeat, names, names, offsets),
    )
)
def test_what_is_written_is_read(record: Record) -> None:
    assert type(record).decode(record.key, record.value) == record


@given(st.sampled_from([SYNC, CHECKPOINT, HEARTBEAT]), st.data())
def test_a_record_cut_anywhere_is_refused(record: Record, data: st.DataObject) -> None:
    key = data.draw(st.integers(0, len(record.key)))
    value = data.draw(st.integers(0, len(record.value)))
    if key == len(record.key) and value == len(record.value):
        return
    with pytest.raises(ValueError, match=r"bytes"):
        type(record).decode(record.key[:key], record.value[:value])


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_a_record_or_refused(key: bytes, value: bytes) -> None:
    for kind in (OffsetSync, Checkpoint, Heartbeat):
        try:
            found = kind.decode(key, value)
        except ValueError:
            continue
        assert key.startswith(found.key)
        assert value.startswith(found.value)


@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda b: b"\0\0" + b))
def test_a_glance_at_a_value_says_what_decoding_would(value: bytes) -> None:
    try:
        Checkpoint.decode(CHECKPOINT.key, value)
    except UnicodeDecodeError:
        return  # what no glance sees
    except ValueError:
        assert not is_checkpoint(value)
    else:
        assert is_checkpoint(value)


@given(names, names)
def test_the_group_of_a_checkpoint_is_known_by_its_key(group: str, topic: str) -> None:
    assert group_of(Checkpoint(group, topic, 3, 1, 1).key) == group


@given(st.binary(max_size=60))
def test_a_key_of_something_else_has_the_group_that_would_be_decoded_or_none(key: bytes) -> None:
    try:
        decoded = Checkpoint.decode(key, CHECKPOINT.value)
    except ValueError:
        group_of(key)
    else:
        assert group_of(key) == decoded.group


@pytest.mark.parametrize("record", [CHECKPOINT, HEARTBEAT], ids=["checkpoint", "heartbeat"])
@pytest.mark.parametrize("version", [1, -1, 257])
def test_another_version_is_refused(record: Checkpoint | Heartbeat, version: int) -> None:
    value = version.to_bytes(2, "big", signed=True) + record.value[2:]
    with pytest.raises(ValueError, match=f"version {version}"):
        type(record).decode(record.key, value)


def test_a_name_too_long_is_refused() -> None:
    assert len(Heartbeat("é" * 16383, "B", 0).key) == 2 + 32766 + 3
    with pytest.raises(ValueError, match="32768 bytes"):
        _ = Heartbeat("é" * 16384, "B", 0).key


def test_the_last_readable_record_of_a_key_wins() -> None:
    older, newer = Checkpoint("g", "t", 0, 5, 3), Checkpoint("g", "t", 0, 9, 7)
    other = Checkpoint("g", "t", 1, 1, 1)
    gone = Checkpoint("h", "t", 0, 5, 3)
    tail = CheckpointTail(ClusterSettings(alias="b", bootstrap_servers="b:9092"), "a.checkpoints.internal")
    for key, value in (
        (older.key, older.value),
        (other.key, other.value),
        (gone.key, gone.value),
        (newer.key, newer.value),
        (gone.key, None),
        (None, newer.value),
        (newer.key, b"\x00\x01" + newer.value[2:]),
        (newer.key, newer.value[:5]),
        (b"\x00", newer.value),
    ):
        tail._take(StoredRecord(0, 1, key, value))
    found = {at.partition: seen[:2] for at, seen in tail.of(["g", "h"])["g"].items()}
    assert found == {0: (9, 7), 1: (1, 1)}
    assert set(tail.newest) == {"g"}
    assert tail.gone == {"h"}
    assert tail.unreadable == 3
