"""Files of an export that anyone may have written, with right hashes: reading them takes bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
import io
import tracemalloc
from typing import Any, BinaryIO, cast

import pyarrow as pa
from pyarrow import parquet
import pytest

from drkit.export import parquet as groups
from drkit.export import parts
from drkit.export.manifest import ExportFormat
from drkit.export.parquet import SCHEMA, ParquetWriter, read_parquet
from drkit.export.parts import read_holes, read_records
from drkit.export.record import ExportedRecord, TimestampType
from drkit.flow_state.codec.fields import Malformed
from drkit.wire.codecs import MAX_DECOMPRESSED

MIB = 1 << 20


class Endless(io.RawIOBase):
    """A line that does not end."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        buffer[:] = b"A" * len(buffer)
        self.read_bytes += len(buffer)
        assert self.read_bytes < 64 * MIB
        return len(buffer)


def records(file: BinaryIO) -> object:
    return read_records(ExportFormat.JSONL, file)


@pytest.mark.parametrize("reader", [records, read_holes])
def test_a_line_has_an_end(monkeypatch: pytest.MonkeyPatch, reader: Any):
    assert parts._LONGEST_LINE > MAX_DECOMPRESSED * 4 // 3
    monkeypatch.setattr(parts, "_LONGEST_LINE", MIB)
    file = Endless()
    with pytest.raises(Malformed):
        next(iter(reader(cast("BinaryIO", io.BufferedReader(file)))))
    assert file.read_bytes < 18 * MIB


@pytest.mark.parametrize("entry", [b"[]", b'""', b"{}", b"0"])
def test_a_line_has_so_many_values(entry: bytes):
    line = b'{"partition":0,"offset":0,"x":[' + (entry + b",") * (4 * MIB) + b"0]}\n"
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            next(iter(read_records(ExportFormat.JSONL, io.BytesIO(line))))
        assert tracemalloc.get_traced_memory()[1] < 2 * len(line)
    finally:
        tracemalloc.stop()


def table(rows: int, value: bytes) -> pa.Table:
    columns: dict[str, list[object]] = {
        "partition": [0] * rows, "offset": [*range(rows)], "timestamp": [0] * rows,
        "timestamp_type": [0] * rows, "key": [b"k"] * rows, "value": [value] * rows, "headers": [[]] * rows,
        "producer_id": [-1] * rows,
    }  # fmt: skip
    return pa.Table.from_arrays([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)


def written(content: pa.Table, **how: Any) -> io.BytesIO:
    file = io.BytesIO()
    parquet.write_table(content, file, compression="zstd", row_group_size=len(content), **how)
    file.seek(0)
    return file


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """Counts what Arrow takes."""
    before, counting = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counting)
    yield counting
    pa.set_memory_pool(before)


@pytest.mark.parametrize("file", [(70_000, b""), (3_000, bytes(100_000))], ids=["rows", "bytes"])
def test_a_group_is_not_larger_than_the_largest_of_drkits(
    pool: pa.MemoryPool, file: tuple[int, bytes]
) -> None:
    hostile = written(table(*file), use_dictionary=False)
    before = pool.max_memory()
    with pytest.raises(ValueError, match="larger than drkit's"):
        next(read_parquet(hostile))
    assert pool.max_memory() - before < 10 * MIB


def test_a_value_that_all_rows_share_is_not_copied_for_all_at_once(
    pool: pa.MemoryPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_AT_ONCE_BYTES", 8 * MIB)
    hostile = written(table(2_000, bytes(100_000)))
    assert len(hostile.getvalue()) < MIB
    counting = pa.proxy_memory_pool(pool)
    pa.set_memory_pool(counting)
    assert sum(len(record.value or b"") for _, record in read_parquet(hostile)) == 2_000 * 100_000
    assert counting.max_memory() < 40 * MIB


def test_a_group_holds_records_of_many_headers_by_what_they_take():
    """A header of no bytes takes memory all the same."""
    file = io.BytesIO()
    writer = ParquetWriter(cast("Any", file), 0)
    headers = ((b"", None),) * 1000
    for offset in range(200):
        writer.add(ExportedRecord(offset, 0, TimestampType(0), None, None, headers, -1))
    writer.close()
    found = parquet.ParquetFile(io.BytesIO(file.getvalue())).metadata
    assert max(found.row_group(n).num_rows for n in range(found.num_row_groups)) < 50
