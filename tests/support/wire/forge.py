"""Batches written byte by byte, also ones no honest producer or broker would write.

It shares no encoder with drkit.wire: what both agree on has been written down twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
import struct
from typing import Any

import google_crc32c

from drkit.wire import Record, Transformed, decode, read_header, transform
from drkit.wire.codecs import compress

ABORT, COMMIT = 0, 1


def zigzag(number: int) -> bytes:
    rest = number * 2 if number >= 0 else -number * 2 - 1
    out = []
    while True:
        rest, low = divmod(rest, 128)
        out.append(low + 128 if rest else low)
        if not rest:
            return bytes(out)


def field(data: bytes | None) -> bytes:
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def record_bytes(offset_delta: int, time_delta: int, record: Record) -> bytes:
    body = b"\0" + zigzag(time_delta) + zigzag(offset_delta) + field(record.key) + field(record.value)
    body += zigzag(len(record.headers))
    for name, content in record.headers:
        body += field(name) + field(content)
    return zigzag(len(body)) + body


@dataclass(frozen=True)
class Batch:
    """A batch as a broker stores it. ``records`` keep their absolute offsets and times."""

    base: int
    records: tuple[Record, ...]
    span: int = 0
    """Offsets it takes; 0: up to its last record."""
    codec: int = 0
    attributes: int = 0
    """Without the codec."""
    producer_id: int = -1
    leader_epoch: int = 3
    base_time: int | None = None
    max_time: int | None = None
    count: int | None = None
    last_offset_delta: int | None = None
    frames: int = 1
    """Compressed one after the other: gzip members, zstd and lz4 frames, snappy-java streams."""
    junk: int = 0
    """Bytes after the last frame that belong to none."""

    @property
    def end(self) -> int:
        return self.base + (self.span or (self.records[-1].offset - self.base + 1 if self.records else 1))

    def to_bytes(self) -> bytes:
        first = self.records[0].timestamp if self.records else -1
        base_time = first if self.base_time is None else self.base_time
        body = b"".join(
            record_bytes(record.offset - self.base, record.timestamp - base_time, record)
            for record in self.records
        )
        if self.codec:
            size = -(-len(body) // self.frames) or 1
            starts = range(0, len(body) or 1, size)
            body = b"".join(compress(self.codec, body[at : at + size]) for at in starts)
            body += b"j" * self.junk
        last = self.end - self.base - 1 if self.last_offset_delta is None else self.last_offset_delta
        max_time = max([record.timestamp for record in self.records], default=-1)
        tail = struct.pack(
            ">hiqqqhii",
            self.attributes | self.codec,
            last,
            base_time,
            max_time if self.max_time is None else self.max_time,
            self.producer_id,
            -1 if self.producer_id < 0 else 7,
            -1 if self.producer_id < 0 else 0,
            len(self.records) if self.count is None else self.count,
        )
        tail += body
        crc = google_crc32c.value(tail)
        return struct.pack(">qiibI", self.base, len(tail) + 9, self.leader_epoch, 2, crc) + tail

    def having(self, **changes: Any) -> Batch:
        return replace(self, **changes)


def batch(base: int, count: int, **fields: Any) -> Batch:
    """``count`` ordinary records from offset ``base`` on."""
    return Batch(base, tuple(plain_record(base + number) for number in range(count)), **fields)


def plain_record(offset: int, time: int = 1_700_000_000_000) -> Record:
    return Record(offset, time + offset, b"k%d" % offset, b"value %d" % offset, ())


def marker(offset: int, producer_id: int, kind: int) -> Batch:
    """A transaction marker (control batch)."""
    control = Record(offset, 1_700_000_000_000, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 5), ())
    return Batch(offset, (control,), attributes=0x30, producer_id=producer_id)


def log(*batches: Batch) -> bytes:
    return b"".join(item.to_bytes() for item in batches)


def run(buffer: bytes, **arguments: Any) -> Transformed:
    """All parts of :func:`parts` as one."""
    first, *others = parts(buffer, **arguments)
    for part in others:
        first.chunks += part.chunks
        for drop in part.drops:
            first.drop(*drop)
        for producer, records in part.looped.items():
            first.looped[producer] = first.looped.get(producer, 0) + records
        assert part.next_source >= first.next_source
        first.returned, first.next_source = part.returned, part.next_source
        first.leader_epoch = part.leader_epoch
    return first


def parts(buffer: bytes, **arguments: Any) -> list[Transformed]:
    """``transform`` with arguments that change nothing by themselves."""
    usual: dict[str, Any] = {
        "position": 0,
        "end": None,
        "aborted": (),
        "skip_producer_ids": frozenset(),
        "merge_below": 0,
        "merge_up_to": 256 * 1024,
        "max_batch_bytes": 1024 * 1024,
    }
    return list(transform(buffer, **(usual | arguments)))


def copied(done: Transformed) -> list[Record]:
    """The records of all chunks with their source offsets, by the runs; checks every chunk on the way."""
    records: list[Record] = []
    for chunk in done.chunks:
        header = read_header(chunk.data)
        inside = decode(header, chunk.data)
        offsets = [run.source + number for run in chunk.runs for number in range(run.count)]
        assert header.base_offset == 0
        assert header.leader_epoch == -1
        assert header.size == chunk.size == len(chunk.data)
        assert header.attributes & ~0x07 == 0
        assert header.count == header.last_offset_delta + 1 == chunk.count == len(inside) == len(offsets)
        assert [record.offset for record in inside] == list(range(chunk.count))
        assert max(record.timestamp for record in inside) == header.max_timestamp == chunk.max_timestamp
        assert chunk.next_source == offsets[-1] + 1
        assert all(left < right for left, right in pairwise(offsets))
        assert all(
            one.source + one.count < two.source for one, two in zip(chunk.runs, chunk.runs[1:], strict=False)
        )
        records += [record._replace(offset=offset) for offset, record in zip(offsets, inside, strict=True)]
    return records
