"""Inputs for parsers: valid samples that were changed a little, and bytes that were never valid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import random
import struct
from typing import Final

import google_crc32c

NUMBERS: Final = (0, 1, -1, 2, 127, 128, 255, 256, 32767, -32768, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
WORDS: Final = (
    b"null", b"NaN", b"1e999", b"-1", b"9" * 400, b"[" * 3000, b'{"a":' * 3000, b"\xff\xfe", b"\0",
    b"\n", b'"', b"{}", b"[]", b"\\u", b"\xed\xa0\x80", b"${env:X}", b"${file:/x}", b"=", b"true",
    b"../../x", b"\x1b]0;x\x07",
)  # fmt: skip
"""What broke parsers before."""


def mutated(chance: random.Random, samples: Sequence[bytes]) -> bytes:
    """One of the samples with one to five changes; now and then random bytes."""
    if not samples or chance.random() < 0.1:
        return chance.randbytes(chance.randrange(0, 200))
    data = bytearray(chance.choice(samples))
    for _ in range(chance.randrange(1, 6)):
        chance.choice(_CHANGES)(chance, data, samples)
    return bytes(data)


def _flip(chance: random.Random, data: bytearray, _samples: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _cut(chance: random.Random, data: bytearray, _samples: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    del data[at : at + chance.choice((1, 4, 20, 1000))]


def _double(chance: random.Random, data: bytearray, _samples: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    data[at:at] = data[at : at + chance.randrange(1, 80)]


def _splice(chance: random.Random, data: bytearray, samples: Sequence[bytes]) -> None:
    other = chance.choice(samples)
    at, begin = chance.randrange(len(data) + 1), chance.randrange(len(other) + 1)
    data[at:] = other[begin:]


def _number(chance: random.Random, data: bytearray, _samples: Sequence[bytes]) -> None:
    size, form = chance.choice(((1, ">B"), (2, ">H"), (4, ">I"), (8, ">Q")))
    at = chance.randrange(len(data) + 1)
    data[at : at + size] = struct.pack(form, chance.choice(NUMBERS) % (1 << 8 * size))


def _word(chance: random.Random, data: bytearray, _samples: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    data[at : at + chance.choice((0, 1, 5))] = chance.choice(WORDS)


def _noise(chance: random.Random, data: bytearray, _samples: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    data[at:at] = chance.randbytes(chance.randrange(1, 20))


_CHANGES: Final[tuple[Callable[[random.Random, bytearray, Sequence[bytes]], None], ...]] = (
    _flip, _flip, _cut, _double, _splice, _number, _number, _word, _noise,
)  # fmt: skip


def with_checksums(data: bytes) -> bytes:
    """Record batches with correct checksums, so that what follows the checksum is parsed, too."""
    found, at = bytearray(data), 0
    while at + 61 <= len(found):
        (length,) = struct.unpack_from(">i", found, at + 8)
        end = at + 12 + length
        if length < 49 or end > len(found):
            end = len(found)
            struct.pack_into(">i", found, at + 8, end - at - 12)
        struct.pack_into(">I", found, at + 17, google_crc32c.value(bytes(found[at + 21 : end])))
        at = end
    return bytes(found)
