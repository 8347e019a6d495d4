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

from drkit.wire.codecs import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD, CodecError, compress, decompress

CODECS = range(len(CODEC_NAMES))
PACKED = (GZIP, SNAPPY, LZ4, ZSTD)


@given(codec=st.sampled_from(CODECS), data=st.binary(max_size=300), times=st.integers(1, 400))
def test_what_is_packed_unpacks(codec: int, data: bytes, times: int) -> None:
    assert decompress(codec, compress(codec, data * times)) == data * times


@pytest.mark.parametrize("codec", PACKED)
def test_kafka_python_reads_ours_and_we_read_its(codec: int) -> None:
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
