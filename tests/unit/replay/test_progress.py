"""What replays keep: written and read back, and nothing else is read."""

from __future__ import annotations

from base64 import b64encode
import json
from typing import Any
from uuid import UUID
import zlib

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.flow_state.codec.fields import Malformed
from drkit.model import TopicPartition
from drkit.replay import progress as module
from drkit.replay.compare import Same
from drkit.replay.progress import (
    QuarantineRecord,
    ReplayBook,
    ReplayProgress,
    packed,
    part_keys,
    unpacked,
)

AT = TopicPartition("orders", 3)
PROGRESS = ReplayProgress(
    run_id="r1", manifest="ab" * 32, source_topic="orders", source_id=UUID(int=1), partition=3, first=10,
    end=20, topic="orders", topic_id=UUID(int=2), same=Same.CONTENT, compared_to=99, records=8, next=15,
    appended=3, already=2, kept_back=0, begun_ms=5,
)  # fmt: skip


def test_a_book_of_everything() -> None:
    quarantine = QuarantineRecord("r1", "orders.divergent.7", UUID(int=3))
    values = {r.key: r.encode() for r in (PROGRESS, quarantine)} | dict(packed("r1", AT, bytes(8)))
    values[b"later/thing"] = b"of a later drkit"
    book = ReplayBook.of(values)
    assert book.progress == {PROGRESS.key: PROGRESS}
    assert book.quarantines == {quarantine.topic: quarantine}
    assert book.of_partition(AT) == book.progress
    assert book.of_partition(TopicPartition("orders", 4)) == {}
    assert book.flags(PROGRESS) == bytes(8)
    assert not PROGRESS.is_done


@pytest.mark.parametrize(
    "change",
    [
        {"next": -1},
        {"next": "15"},
        {"same": "maybe"},
        {"manifest": "ab"},
        {"topic": "or ders"},
        {"records": None},
    ],
)
def test_a_record_that_is_not_drkits(change: dict[str, Any]) -> None:
    raw = {**PROGRESS.to_json(), **change}
    with pytest.raises(Malformed):
        ReplayBook.of({PROGRESS.key: json.dumps(raw).encode()})


def test_a_record_under_the_key_of_another() -> None:
    with pytest.raises(Malformed, match="it is the record of"):
        ReplayBook.of({b"progress/r2/orders/3": PROGRESS.encode()})


@given(st.binary(max_size=40))
def test_flags_are_read_back(flags: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART", 7)
        values = dict(packed("r1", AT, flags))
        assert list(values) == list(part_keys("r1", AT, len(flags)))
        assert unpacked("r1", AT, len(flags), values) == flags
        for key in values:
            with pytest.raises(Malformed, match="missing"):
                unpacked("r1", AT, len(flags), {k: v for k, v in values.items() if k != key})


@pytest.mark.parametrize(
    "body",
    [
        b64encode(zlib.compress(bytes(9))), b64encode(zlib.compress(bytes(8))[:-3]), b64encode(b"no zlib"),
        b"no base64!", b64encode(zlib.compress(bytes(3_000_000))),
    ],
)  # fmt: skip
def test_flags_that_are_damaged(body: bytes) -> None:
    (key,) = part_keys("r1", AT, 8)
    with pytest.raises(Malformed, match="flags"):
        unpacked("r1", AT, 8, {key: json.dumps({"flags": body.decode()}).encode()})
