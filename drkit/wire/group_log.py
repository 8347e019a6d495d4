"""Finds the groups in the records of one partition of ``__consumer_offsets``. Pure.

The key of each record begins with a version (INT16) and the group (STRING), for any kind of record: a
committed offset (versions 0 and 1), a group (2), or the kinds of KIP-848 and its successors. Values are not
read, so a new kind of record only shows that its group has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
import struct
from typing import Final

from drkit.wire.header import split
from drkit.wire.records import pieces
from drkit.wire.varint import read_varint

_START: Final = struct.Struct(">hh")
"""Version, and the length of the group's name."""


@dataclass(slots=True)
class GroupLog:
    """Reads one partition incrementally, including uncommitted records."""

    next_offset: int
    """Records before this offset are ignored; no transaction that began earlier may be open here."""
    _open: dict[int, set[str]] = field(default_factory=dict)
    """Producer → groups with offsets in its open transaction: they count when it commits (KIP-98)."""

    def take(self, data: bytes) -> set[str]:
        """Return the groups in a fetch response.

        :raises CorruptBatch: these are no record batches
        :raises ValueError: a key names no group
        """
        changed: set[str] = set()
        for header, batch in split(data):
            if header.next_offset <= self.next_offset:
                continue
            if header.is_control:
                changed |= self._open.pop(header.producer_id, set())
            else:
                groups = {_group_of(body) for _, _, body in pieces(header, batch)}
                if header.is_transactional:
                    self._open.setdefault(header.producer_id, set()).update(groups)
                changed |= groups
            self.next_offset = header.next_offset
        return changed


def _group_of(body: bytes) -> str:
    try:
        length, at = read_varint(body, 0)
        _, size = _START.unpack_from(body, at)
    except (IndexError, struct.error) as error:
        raise ValueError(f"a record without a key of its kind: {error}") from error
    begin = at + _START.size
    if size < 0 or begin + size > at + length:
        raise ValueError(f"a group's name of {size} bytes in a key of {length}")
    return body[begin : begin + size].decode()
