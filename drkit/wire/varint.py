"""Kafka's variable-length integers: zigzag, then 7 bits a byte, lowest first (as in Protocol Buffers)."""

from __future__ import annotations

from typing import Final


def varint(number: int) -> bytes:
    """``number`` (any signed 64-bit value) as a varint."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


VARINTS: Final = tuple(varint(number) for number in range(16384))
"""The encoding of small numbers, which are nearly all there are in a batch: offset deltas, time deltas, lengths."""


def short_varint(number: int) -> bytes:
    """As :func:`varint`, from the table when it can."""
    return VARINTS[number] if 0 <= number < len(VARINTS) else varint(number)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at`` and the position behind it. Raises IndexError at the end, ValueError past 10 bytes."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    raw = byte & 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("varint is longer than 10 bytes")
