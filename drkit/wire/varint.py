"""Kafka's variable-length integers: zigzag, then 7 bits a byte, lowest first (as in Protocol Buffers)."""

from __future__ import annotations

from typing import Final

_MORE: Final = 0x80
_SEVEN: Final = 0x7F
_LAST_SHIFT: Final = 63


def varint(number: int) -> bytes:
    """``number`` (any signed 64-bit value) as a varint."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > _SEVEN:
        out.append(rest & _SEVEN | _MORE)
        rest >>= 7
    out.append(rest)
    return bytes(out)


VARINTS: Final = (
    *(bytes((2 * number,)) for number in range(64)),
    *(bytes((2 * number & _SEVEN | _MORE, number >> 6)) for number in range(64, 8192)),
    *(bytes((2 * number & _SEVEN | _MORE, number >> 6 & _SEVEN | _MORE, 1)) for number in range(8192, 16384)),
)
"""The encodings of small numbers: nearly all offset deltas, time deltas and lengths there are in a batch."""


def short_varint(number: int) -> bytes:
    """As :func:`varint`, from the table when it can."""
    return VARINTS[number] if 0 <= number < len(VARINTS) else varint(number)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at`` and the position after it.

    Raises IndexError at the end of the data, ValueError past 10 bytes.
    """
    byte = data[at]
    at += 1
    raw = byte & _SEVEN
    shift = 7
    while byte >= _MORE:
        if shift > _LAST_SHIFT:
            raise ValueError("varint is longer than 10 bytes")
        byte = data[at]
        at += 1
        raw |= (byte & _SEVEN) << shift
        shift += 7
    return (raw >> 1) ^ -(raw & 1), at
