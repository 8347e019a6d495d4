"""Records in Parquet: one row each, every text as bytes, and absent apart from empty.

The rows of a group are kept in memory until it is full; nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa
from pyarrow import parquet

from drkit.export.record import ExportedRecord, TimestampType
from drkit.export.storage import NewFile
from drkit.wire.codecs import MAX_DECOMPRESSED

_GROUP_BYTES: Final = 8 << 20
_GROUP_ROWS: Final = 1 << 16
_MOST_OF_GROUP: Final = _GROUP_BYTES + MAX_DECOMPRESSED
"""The last row of a group may be the largest record."""
_AT_ONCE_BYTES: Final = 512 << 20
"""Of rows in memory: each may be one value of a dictionary, so as large as its group."""
_MOST_ENTRIES: Final = 100_000
"""Of one list in a footer."""
_ROW_BYTES: Final = 200
"""Of Python's objects of one row, or of one header."""
_HEADER: Final = pa.struct([pa.field("name", pa.binary(), nullable=False), pa.field("value", pa.binary())])
SCHEMA: Final = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("timestamp_type", pa.int8(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.field("element", _HEADER, nullable=False)), nullable=False),
        pa.field("producer_id", pa.int64(), nullable=False),
    ]
)


class ParquetWriter:
    """Writes records into one file."""

    def __init__(self, file: NewFile, partition: int) -> None:
        self._writer = parquet.ParquetWriter(file, SCHEMA, compression="zstd", write_statistics=False)
        self._partition = partition
        self._rows: list[ExportedRecord] = []
        self._bytes = 0

    def add(self, record: ExportedRecord) -> None:
        """Add one record."""
        self._rows.append(record)
        self._bytes += record.size + _ROW_BYTES * (1 + len(record.headers))
        if self._bytes >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        """Write the rest; the file stays open."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        rows, self._rows, self._bytes = self._rows, [], 0
        if not rows:
            return
        columns: dict[str, list[Any]] = {
            "partition": [self._partition] * len(rows),
            "offset": [row.offset for row in rows],
            "timestamp": [row.timestamp for row in rows],
            "timestamp_type": [int(row.timestamp_type) for row in rows],
            "key": [row.key for row in rows],
            "value": [row.value for row in rows],
            "headers": [[{"name": n, "value": v} for n, v in row.headers] for row in rows],
            "producer_id": [row.producer_id for row in rows],
        }
        arrays = [pa.array(columns[field.name], field.type) for field in SCHEMA]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), len(rows))


def read_parquet(file: BinaryIO) -> Iterator[tuple[int, ExportedRecord]]:
    """Yield the partition and the record of each row. Raises ValueError if the file holds something else."""
    try:
        found = parquet.ParquetFile(file, pre_buffer=False, thrift_container_size_limit=_MOST_ENTRIES)
        if not found.schema_arrow.equals(SCHEMA):
            raise ValueError("its columns are not those of an export")
        for group in range(found.num_row_groups):
            footer = found.metadata.row_group(group)
            rows, size = footer.num_rows, footer.total_byte_size
            if rows > _GROUP_ROWS or size > _MOST_OF_GROUP:
                raise ValueError(f"a row group of {rows:,} rows and {size:,} bytes is larger than drkit's")
            batch_rows = max(1, min(rows, _AT_ONCE_BYTES // max(1, size)))
            for batch in found.iter_batches(batch_rows, [group], use_threads=False):
                yield from _rows(batch)
    except pa.ArrowException as error:
        raise ValueError(str(error).splitlines()[0]) from error


def _rows(batch: Any) -> Iterator[tuple[int, ExportedRecord]]:
    columns = [column.to_pylist() for column in batch.columns]
    for partition, offset, timestamp, kind, key, value, headers, producer_id in zip(*columns, strict=True):
        yield (
            partition,
            ExportedRecord(
                offset=offset,
                timestamp=timestamp,
                timestamp_type=TimestampType(kind),
                key=key,
                value=value,
                headers=tuple((header["name"], header["value"]) for header in headers),
                producer_id=producer_id,
            ),
        )
