"""Finds the frames of zstd data by their block headers, without unpacking (RFC 8878)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = tuple(bytes((low, 0x2A, 0x4D, 0x18)) for low in range(0x50, 0x60))
_DESCRIPTOR_AT: Final = 4
_DICTIONARY_BYTES: Final = (0, 1, 2, 4)
_SIZE_BYTES: Final = (0, 2, 4, 8)
_SINGLE_SEGMENT: Final = 0x20
_CHECKSUM: Final = 0x04
_BLOCK_HEADER: Final = 3
_RLE, _COMPRESSED = 1, 2
_MOST_OF_A_BLOCK: Final = 128 * 1024
"""Bytes that a compressed block unpacks to at most."""


class ZstdFrame(NamedTuple):
    """A frame that has content."""

    start: int
    end: int
    most: int
    """Upper bound of the bytes that it unpacks to."""


def frames(data: bytes) -> Iterator[ZstdFrame]:
    """The frames of ``data``, without skippable ones. Raises ValueError for other bytes."""
    at = 0
    while at < len(data):
        if data.startswith(_MAGIC, at):
            frame = _frame(data, at)
            yield frame
            at = frame.end
        elif data.startswith(_SKIPPABLE, at):
            at = _skipped(data, at)
        else:
            raise ValueError(f"{len(data) - at} bytes that are no frame follow at byte {at}")


def _frame(data: bytes, start: int) -> ZstdFrame:
    try:
        descriptor = data[start + _DESCRIPTOR_AT]
        single = descriptor & _SINGLE_SEGMENT
        size_bytes = _SIZE_BYTES[descriptor >> 6] or (1 if single else 0)
        window_bytes = 0 if single else 1
        at = start + _DESCRIPTOR_AT + 1 + window_bytes + _DICTIONARY_BYTES[descriptor & 3] + size_bytes
        most, last = 0, 0
        while not last:
            header = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            last, kind, size = header & 1, header >> 1 & 3, header >> 3
            at += _BLOCK_HEADER + (1 if kind == _RLE else size)
            most += _MOST_OF_A_BLOCK if kind == _COMPRESSED else size
    except IndexError:
        raise ValueError("compressed data ends too early") from None
    at += 4 if descriptor & _CHECKSUM else 0
    if at > len(data):
        raise ValueError("compressed data ends too early")
    return ZstdFrame(start, at, most)


def _skipped(data: bytes, start: int) -> int:
    end = start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")
    if end > len(data):
        raise ValueError("compressed data ends too early")
    return end
