"""Record batches as bytes: from what a source broker sends to what a target broker gets.

Batches are cut, renumbered, merged and stamped here, and records are read from them. Pure: no cluster, no
clock, no file; foreign packages only for codecs and checksums.
"""

from __future__ import annotations

from drkit.wire.aborted import AbortedTransactions, is_commit
from drkit.wire.building import encode
from drkit.wire.chunk import Chunk, Drop, DropReason, How, OffsetRun, Returned, Transformed
from drkit.wire.header import BatchHeader, CorruptBatch, read_header, split
from drkit.wire.reading import is_whole, pieces_in, records_in, visible
from drkit.wire.records import Piece, Record, decode
from drkit.wire.stamping import batch_crc, stamp
from drkit.wire.transform import transform

__all__ = [
    "AbortedTransactions",
    "BatchHeader",
    "Chunk",
    "CorruptBatch",
    "Drop",
    "DropReason",
    "How",
    "OffsetRun",
    "Piece",
    "Record",
    "Returned",
    "Transformed",
    "batch_crc",
    "decode",
    "encode",
    "is_commit",
    "is_whole",
    "pieces_in",
    "read_header",
    "records_in",
    "split",
    "stamp",
    "transform",
    "visible",
]
