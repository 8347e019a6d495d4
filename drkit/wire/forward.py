"""Forwards a batch unchanged: the path of nearly all bytes."""

from __future__ import annotations

from struct import Struct
from typing import Final

from drkit.wire.chunk import Chunk, How, OffsetRun
from drkit.wire.header import CODEC_BITS, CRC_START, MAGIC, BatchHeader

_BEFORE_CRC: Final = Struct(">qiibIh")


def forward(header: BatchHeader, covered: bytes) -> Chunk:
    """The batch with the fields of its source log cleared: base offset, leader epoch, attributes.

    ``covered``: its bytes from the attributes on, which the checksum was computed of; so the only copies
    are that slice and this one.

    A delete horizon needs no more than its bit cleared: the base timestamp is then the horizon and the
    records' deltas are relative to it, so the sum remains each record's own time.
    """
    base, length, leader_epoch, _, _, attributes, _, _, max_timestamp, _, _, _, count = header
    data = bytearray(CRC_START)
    data += covered
    _BEFORE_CRC.pack_into(data, 0, 0, length, -1, MAGIC, 0, attributes & CODEC_BITS)
    return Chunk(
        data=data,
        runs=(OffsetRun(base, count),),
        count=count,
        max_timestamp=max_timestamp,
        next_source=base + count,
        leader_epoch=leader_epoch,
        how=How.FORWARDED,
    )
