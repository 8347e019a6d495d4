from __future__ import annotations

import gzip
import io
import struct
import threading

import cramjam
from hypothesis import given
from hypothesis import strategies as st
from kafka import codec as kafka_python
import lz4.frame
import pytest
import zstandard

from drkit.wire.codecs import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    MAX_DECOMPRESSED,
    NONE,
    SNAPPY,
    ZSTD,
    CodecError,
    compress,
    decompress,
)

CODECS = range(len(CODEC_NAMES))
PACKED = (GZIP, SNAPPY, LZ4, ZSTD)


@given(codec=st.sampled_from(CODECS), data=st.binary(max_size=300), times=st.integers(1, 400))
def test_what_is_packed_unpacks(codec: int, data: bytes, times: int) -> None:
    assert decompress(codec, compress(codec, data * times)) == data * times


@pytest.mark.parametrize("codec", PACKED)
def test_kafka_python_and_drkit_read_each_other(codec: int) -> None:
    data = bytes(range(256)) * 700
    name = CODEC_NAMES[codec]
    assert getattr(kafka_python, f"{name}_decode")(compress(codec, data)) == data
    assert decompress(codec, getattr(kafka_python, f"{name}_encode")(data)) == data


def test_snappy_is_read_bare_and_in_blocks() -> None:
    data = b"0123456789abcdef" * 5000
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data
    framed = compress(SNAPPY, data)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(SNAPPY, framed) == data


def test_zstd_frames_without_a_size_are_read_however_well_they_pack() -> None:
    # The Java client streams: the frame does not tell its size. 20 MB of zeros pack 1:10000.
    data = bytes(20_000_000)
    packer = zstandard.ZstdCompressor(write_content_size=False)
    assert decompress(ZSTD, packer.compress(data)) == data


ZSTD_SKIPPED = struct.pack("<II", 0x184D2A57, 5) + b"aside"
MANY = st.lists(st.binary(max_size=40), min_size=1, max_size=6)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, ZSTD])
@given(parts=MANY, times=st.sampled_from((1, 1, 2000)))
def test_all_frames_are_read(codec: int, parts: list[bytes], times: int) -> None:
    packed = b"".join(compress(codec, part * times) for part in parts)
    assert decompress(codec, packed) == b"".join(part * times for part in parts)


@given(parts=MANY)
def test_all_zstd_frames_without_a_size_are_read_and_skippable_ones_passed_over(parts: list[bytes]) -> None:
    pack = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress
    packed = ZSTD_SKIPPED.join((b"", *map(pack, parts), b""))
    assert decompress(ZSTD, packed) == b"".join(parts)


def test_of_lz4_frames_the_first_is_read_as_in_java() -> None:
    assert decompress(LZ4, compress(LZ4, b"first") + compress(LZ4, b"second")) == b"first"


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, ZSTD])
def test_a_later_frame_that_is_damaged_is_a_codec_error(codec: int) -> None:
    first, second = compress(codec, b"first" * 9), compress(codec, b"some text that is packed" * 50)
    for damaged in (second[:-1], second[:-9], second[: len(second) // 2]):
        with pytest.raises(CodecError):
            decompress(codec, first + damaged)


@pytest.mark.parametrize("codec", [GZIP, LZ4])
@pytest.mark.parametrize("rest", [b"\0", b"\0" * 40, b"junk", b"\x1f\x8b\x08", b"\x1f\x8b\x07" + b"j" * 40])
def test_java_ignores_what_follows_these(codec: int, rest: bytes) -> None:
    assert decompress(codec, compress(codec, b"text") + rest) == b"text"


@pytest.mark.parametrize("codec", [SNAPPY, ZSTD])
@pytest.mark.parametrize("rest", [b"\0", b"\0" * 40, b"junk", b"junk" * 10])
def test_elsewhere_what_follows_the_last_frame_is_a_codec_error(codec: int, rest: bytes) -> None:
    with pytest.raises(CodecError):
        decompress(codec, compress(codec, b"text") + rest)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, ZSTD])
def test_a_bomb_of_many_frames_is_defused(codec: int) -> None:
    bomb = b"".join(_bomb(codec, 400_000) for _ in range(10))
    assert len(decompress(codec, bomb, 4_000_000)) == 4_000_000
    for limit in (3_999_999, 400_000, 399_999):
        with pytest.raises(CodecError, match="unpacks to more than"):
            decompress(codec, bomb, limit)


def _bomb(codec: int, size: int) -> bytes:
    if codec == GZIP:
        return gzip.compress(bytes(size))
    return compress(codec, bytes(size))


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_defused(codec: int) -> None:
    bomb = _bomb(codec, 4_000_000)
    assert len(decompress(codec, bomb, 4_000_000)) == 4_000_000
    with pytest.raises(CodecError):
        decompress(codec, bomb, 3_999_999)


def test_no_batch_unpacks_to_more_than_the_limit() -> None:
    size = MAX_DECOMPRESSED + 1
    packer = zstandard.ZstdCompressor().compressobj(size=size)
    block = bytes(1 << 20)
    bomb = b"".join(packer.compress(block[: size - at]) for at in range(0, size, len(block))) + packer.flush()
    with pytest.raises(CodecError, match="more than 268,435,456 bytes, the limit of a batch"):
        decompress(ZSTD, bomb)


def test_a_streamed_zstd_bomb_is_defused() -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(4_000_000))
    with pytest.raises(CodecError):
        decompress(ZSTD, bomb, 3_999_999)


def test_sizes_that_lie_allocate_nothing() -> None:
    frame = bytearray(lz4.frame.compress(b"x" * 100, store_size=True))
    struct.pack_into("<Q", frame, 6, 1 << 62)
    with pytest.raises(CodecError):
        decompress(LZ4, bytes(frame))
    with pytest.raises(CodecError):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x" * 20)
    with pytest.raises(CodecError):
        decompress(ZSTD, b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 62) + b"x" * 20)


@pytest.mark.parametrize("codec", PACKED)
def test_damage_is_a_codec_error(codec: int) -> None:
    packed = compress(codec, b"some text that is packed" * 50)
    for damaged in (b"", packed[: len(packed) // 2], b"\xff" * 40):
        with pytest.raises(CodecError):
            decompress(codec, damaged)


@pytest.mark.parametrize("damaged", [b"\0\0", b"\0\0\0\x7fabc", b"\xff\xff\xff\xffabc"])
def test_damaged_snappy_blocks_are_codec_errors(damaged: bytes) -> None:
    with pytest.raises(CodecError):
        decompress(SNAPPY, compress(SNAPPY, b"some text") + damaged)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    with pytest.raises(CodecError, match=f"codec {codec}"):
        compress(codec, b"")
    with pytest.raises(CodecError, match=f"codec {codec}"):
        decompress(codec, b"")


def test_no_codec_is_no_copy() -> None:
    data = b"as it is"
    assert compress(NONE, data) is data
    assert decompress(NONE, data) is data


def test_threads_do_not_share_a_packer() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        data = b"%d-" % number * 20_000
        wrong.extend(number for _ in range(40) if decompress(ZSTD, compress(ZSTD, data)) != data)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_gzip_is_readable_by_anyone() -> None:
    with gzip.GzipFile(fileobj=io.BytesIO(compress(GZIP, b"hello"))) as stream:
        assert stream.read() == b"hello"
