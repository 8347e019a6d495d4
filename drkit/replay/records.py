"""What is compared of a record, and the header that says where a replayed one comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
import re
from typing import Final, NamedTuple

from drkit.model import TopicPartition
from drkit.wire import Record

HEADER: Final = b"drkit.replayed-from"
"""Its value is ``<cluster id>/<topic>-<partition>@<offset>/<run>``: the position on the old primary."""
Headers = tuple[tuple[bytes, bytes | None], ...]
_SIZE: Final = 16
_OFFSET: Final = re.compile(rb"(0|[1-9][0-9]{0,18})/[^/]+")
_NONE: Final = b"\xff" * 8


class Origin(NamedTuple):
    """A partition of the old primary, and the run that replays its records."""

    cluster_id: str
    at: TopicPartition
    run_id: str
    is_kept: bool = False
    """The old primary keeps the records: what is appended is equal to them, without a header."""

    def header(self, offset: int) -> bytes:
        """The value of the header of the record at this offset."""
        return self._place + f"{offset}/{self.run_id}".encode()

    def offset_of(self, headers: Headers) -> int | None:
        """The offset from which any run has replayed a record; None for every other record."""
        found = next((value for name, value in reversed(headers) if name == HEADER), None)
        if found is None or not found.startswith(self._place):
            return None
        match = _OFFSET.fullmatch(found, len(self._place))
        return int(match[1]) if match else None

    def stamped(self, record: Record) -> Record:
        """The record as it is appended: the header comes last, all else stays."""
        if self.is_kept:
            return record
        return record._replace(headers=(*record.headers, (HEADER, self.header(record.offset))))

    @property
    def _place(self) -> bytes:
        return f"{self.cluster_id}/{self.at}@".encode()


def content_hash(record: Record) -> bytes:
    """A hash of key, value and headers; neither of times nor of drkit's own header."""
    parts = [record.key, record.value]
    for name, value in record.headers:
        if name != HEADER:
            parts += (name, value)
    return _hashed(parts)


def key_hash(key: bytes) -> bytes:
    """A hash of a key."""
    return _hashed([key])


def _hashed(parts: Iterable[bytes | None]) -> bytes:
    """A hash of parts, each with its length: no two lists of parts have the same input."""
    digest = blake2b(digest_size=_SIZE)
    for part in parts:
        digest.update(_NONE if part is None else len(part).to_bytes(8, "big"))
        digest.update(part or b"")
    return digest.digest()
