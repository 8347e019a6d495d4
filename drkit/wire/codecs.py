"""Checksum and compression of record batches: the only module of ``drkit.wire`` with foreign libraries."""

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

from drkit.wire.zstd_frames import ZstdFrame, frames

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names as in Kafka's ``compression.type``; the index is the number in the batch attributes."""

MAX_DECOMPRESSED: Final = 256 << 20
"""Bytes that the records of one batch may unpack to. Kafka reads records as a stream and has no limit; drkit
holds them in memory. An ordinary batch unpacks to some 10 MB at most."""

# Kafka's snappy is the stream of snappy-java ("xerial"): this header, then blocks with a 4-byte length.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")

_LZ4_RATIO: Final = 255
"""No lz4 data can grow more than this."""
_ZSTD_LEVEL: Final = 3

_GZIP_START: Final = b"\x1f\x8b\x08"
_GZIP_SHORT: Final = 18
"""Java looks for another member only in more bytes than these: the header and trailer of a member."""
_GZIP_WINDOW: Final = 16 * 1024
"""Bytes given to a later member at once: zlib copies those that it leaves over."""

crc32c: Final[Callable[[bytes], int]] = google_crc32c.value
"""CRC-32C (Castagnoli), of ``bytes`` only: about 20 GB/s, so never worth leaving out."""


class CodecError(ValueError):
    """Bytes that the named codec cannot unpack, or that would unpack to more than the limit."""


class TooLargeError(CodecError):
    """Data that unpacks to more than the limit."""

    def __init__(self, codec: str, limit: int) -> None:
        super().__init__(f"{codec} data unpacks to more than {limit:,} bytes, the limit of a batch")


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
    """``data`` unpacked as Kafka's Java client reads it, at most ``limit`` bytes.

    Java reads all members of gzip data, all frames of zstd data and all streams of snappy-java, but only the
    first frame of lz4 data. What follows the last gzip member or the first lz4 frame is ignored, as in Java.

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
        raise TooLargeError(CODEC_NAMES[codec], limit)
    return plain


def _unpack(codec: int, data: bytes, limit: int) -> bytes:
    """One byte more than ``limit`` is enough to show the caller that there is more."""
    if codec == GZIP:
        return _gunzip(data, limit)
    if codec == SNAPPY:
        return _unsnap(data, limit)
    if codec == LZ4:
        return _unlz4(data, limit)
    if codec == ZSTD:
        return _unzstd(data, limit)
    raise CodecError(f"codec {codec} does not exist")


def _refuse_truncated(plain: bytes, *, eof: bool, limit: int) -> bytes:
    if not eof and len(plain) <= limit:
        raise CodecError("compressed data ends too early")
    return plain


def _gunzip(data: bytes, limit: int) -> bytes:
    member = zlib.decompressobj(wbits=31)
    plain = _refuse_truncated(member.decompress(data, limit + 1), eof=member.eof, limit=limit)
    at = len(data) - len(member.unused_data)
    if not _another_member(data, at):
        return plain
    parts, remaining = [plain], limit - len(plain)
    while remaining >= 0 and _another_member(data, at):
        plain, at = _gunzip_member(data, at, remaining)
        parts.append(plain)
        remaining -= len(plain)
    return b"".join(parts)


def _another_member(data: bytes, at: int) -> bool:
    return len(data) - at > _GZIP_SHORT and data.startswith(_GZIP_START, at)


def _gunzip_member(data: bytes, at: int, limit: int) -> tuple[bytes, int]:
    member, parts, remaining = zlib.decompressobj(wbits=31), [], limit + 1
    while not member.eof and at < len(data) and remaining:
        window = data[at : at + _GZIP_WINDOW]
        parts.append(member.decompress(window, remaining))
        remaining -= len(parts[-1])
        at += len(window) - len(member.unconsumed_tail) - len(member.unused_data)
    return _refuse_truncated(b"".join(parts), eof=member.eof, limit=limit), at


def _unlz4(data: bytes, limit: int) -> bytes:
    if len(data) * _LZ4_RATIO <= limit:
        return bytes(lz4.frame.decompress(data))
    unpacker = lz4.frame.LZ4FrameDecompressor()
    return _refuse_truncated(unpacker.decompress(data, max_length=limit + 1), eof=unpacker.eof, limit=limit)


def _unzstd(data: bytes, limit: int) -> bytes:
    if 0 < zstandard.frame_content_size(data) <= limit:
        try:
            return _zstd.unpacker.decompress(data, allow_extra_data=False)
        except zstandard.ZstdError:
            pass  # several frames, or damage: the code below distinguishes them
    parts: list[bytes] = []
    remaining = limit
    for frame in _zstd_frames(data):
        parts.append(_unzstd_frame(data[frame.start : frame.end], frame.most, remaining))
        remaining -= len(parts[-1])
        if remaining < 0:
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _zstd_frames(data: bytes) -> list[ZstdFrame]:
    try:
        return list(frames(data))
    except ValueError as error:
        raise CodecError(f"not zstd: {error}") from error


def _unzstd_frame(frame: bytes, most: int, limit: int) -> bytes:
    """:param most: upper bound of what it unpacks to, from its blocks."""
    size = zstandard.frame_content_size(frame)
    if size > limit:
        raise TooLargeError("zstd", limit)
    if size > most:
        raise CodecError(f"zstd frame says {size} bytes, its blocks hold {most} at most")
    if size >= 0:
        return _zstd.unpacker.decompress(frame)
    # The Java client streams: its frames do not contain their size.
    if most <= limit:
        return _zstd.unpacker.decompress(frame, max_output_size=max(1, most))
    with _zstd.unpacker.stream_reader(frame) as reader:
        return reader.read(limit + 1)


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
    at, remaining = len(_XERIAL_HEADER), limit
    while at < len(data):
        if data.startswith(_XERIAL_MAGIC, at):
            at = _another_stream(data, at)
            continue
        if len(data) - at < _BLOCK_LENGTH.size:
            raise CodecError("compressed data ends too early")
        (size,) = _BLOCK_LENGTH.unpack_from(data, at)
        at += _BLOCK_LENGTH.size
        if not 0 <= size <= len(data) - at:
            raise CodecError(f"snappy block of {size} bytes in {len(data) - at}")
        parts.append(_unsnap_block(data[at : at + size], remaining))
        remaining -= len(parts[-1])
        at += size
    return b"".join(parts)


def _another_stream(data: bytes, at: int) -> int:
    """The position after the header of a later snappy-java stream."""
    end = at + len(_XERIAL_HEADER)
    if end > len(data):
        raise CodecError("compressed data ends too early")
    if (version := _BLOCK_LENGTH.unpack_from(data, at + len(_XERIAL_MAGIC))[0]) < 1:
        raise CodecError(f"snappy stream of version {version}")
    return end


def _unsnap_block(block: bytes, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > limit:
        raise TooLargeError("snappy", limit)
    return bytes(cramjam.snappy.decompress_raw(block))
