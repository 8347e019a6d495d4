"""Checksum and compression of record batches: the only place of ``drkit.wire`` with foreign libraries."""

from __future__ import annotations

from collections.abc import Callable
import struct
import threading
from typing import Final
import zlib

import cramjam
import google_crc32c
import lz4.frame
import zstandard

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names as in Kafka's ``compression.type``; the index is the number in the batch attributes."""

MAX_DECOMPRESSED: Final = 1 << 30
"""Bytes one batch may unpack to. Kafka's own limit is a Java array (2 GiB), ordinary batches are 10 MB."""

# Kafka's snappy is the stream of snappy-java ("xerial"): this header, then blocks with a 4-byte length.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")

_LZ4_RATIO: Final = 255
"""No lz4 data can grow more than this."""
_ZSTD_LEVEL: Final = 3
_ZSTD_GUESS: Final = 16
_ZSTD_LEAST: Final = 128 * 1024

crc32c: Final[Callable[[bytes], int]] = google_crc32c.value
"""CRC-32C (Castagnoli), of ``bytes`` only: about 20 GB/s, so never worth leaving out."""


class CodecError(ValueError):
    """Bytes that the named codec cannot unpack, or that would unpack to more than the limit."""


class _Zstd(threading.local):
    """Making these costs 10 µs, using them on a small batch 0.3 µs; one thread at a time may use them."""

    def __init__(self) -> None:
        self.packer = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
        self.unpacker = zstandard.ZstdDecompressor()


_zstd: Final = _Zstd()


def compress(codec: int, data: bytes | memoryview) -> bytes:
    """``data`` compressed as Kafka's clients do it. Raises CodecError for an unknown codec."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        packer = zlib.compressobj(wbits=31)
        return packer.compress(data) + packer.flush()
    if codec == SNAPPY:
        return _xerial(bytes(data))
    if codec == LZ4:
        return bytes(lz4.frame.compress(data, block_linked=False, store_size=False))
    if codec == ZSTD:
        return _zstd.packer.compress(data)
    raise CodecError(f"codec {codec} does not exist")


def decompress(codec: int, data: bytes, limit: int = MAX_DECOMPRESSED) -> bytes:
    """``data`` unpacked, at most ``limit`` bytes.

    Raises CodecError for damaged data, an unknown codec, and data that unpacks to more than ``limit``
    bytes: it stops there, so a small batch cannot eat the memory of a task.
    """
    if codec == NONE:
        return data
    try:
        plain = _unpack(codec, data, limit)
    except (zlib.error, EOFError, RuntimeError, zstandard.ZstdError, cramjam.DecompressionError) as error:
        raise CodecError(f"not {CODEC_NAMES[codec]}: {error}") from error
    if len(plain) > limit:
        raise CodecError(f"{CODEC_NAMES[codec]} data unpacks to more than {limit} bytes")
    return plain


def _unpack(codec: int, data: bytes, limit: int) -> bytes:
    """One byte more than ``limit`` is enough to tell the caller that there is more."""
    if codec == GZIP:
        gunzip = zlib.decompressobj(wbits=31)
        return _ended(gunzip.decompress(data, limit + 1), eof=gunzip.eof, limit=limit)
    if codec == SNAPPY:
        return _unsnap(data, limit)
    if codec == LZ4:
        return _unlz4(data, limit)
    if codec == ZSTD:
        return _unzstd(data, limit)
    raise CodecError(f"codec {codec} does not exist")


def _ended(plain: bytes, *, eof: bool, limit: int) -> bytes:
    if not eof and len(plain) <= limit:
        raise CodecError("compressed data ends too early")
    return plain


def _unlz4(data: bytes, limit: int) -> bytes:
    if len(data) * _LZ4_RATIO <= limit:
        return bytes(lz4.frame.decompress(data))
    unpacker = lz4.frame.LZ4FrameDecompressor()
    return _ended(unpacker.decompress(data, max_length=limit + 1), eof=unpacker.eof, limit=limit)


def _unzstd(data: bytes, limit: int) -> bytes:
    size = zstandard.frame_content_size(data)
    if size > limit:
        raise CodecError(f"zstd data unpacks to more than {limit} bytes")
    if size >= 0:
        return _zstd.unpacker.decompress(data)
    # The Java client streams: its frames do not say how large they are. Guess, and grow up to the limit.
    room = min(limit, max(_ZSTD_LEAST, _ZSTD_GUESS * len(data)))
    while True:
        try:
            return _zstd.unpacker.decompress(data, max_output_size=room)
        except zstandard.ZstdError:
            if room == limit:
                raise
            room = min(limit, room * _ZSTD_GUESS)


def _xerial(data: bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _unsnap(data: bytes, limit: int) -> bytes:
    # librdkafka writes one bare snappy block, the Java client the xerial stream; Kafka reads both.
    if not data.startswith(_XERIAL_MAGIC):
        return _unsnap_block(data, limit)
    parts: list[bytes] = []
    at, left = len(_XERIAL_HEADER), limit
    while at < len(data):
        if len(data) - at < _BLOCK_LENGTH.size:
            raise CodecError("compressed data ends too early")
        (size,) = _BLOCK_LENGTH.unpack_from(data, at)
        at += _BLOCK_LENGTH.size
        if not 0 <= size <= len(data) - at:
            raise CodecError(f"snappy block of {size} bytes in {len(data) - at}")
        parts.append(_unsnap_block(data[at : at + size], left))
        left -= len(parts[-1])
        at += size
    return b"".join(parts)


def _unsnap_block(block: bytes, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > limit:
        raise CodecError(f"snappy data unpacks to more than {limit} bytes")
    return bytes(cramjam.snappy.decompress_raw(block))
