"""Decides which records of a tail are sent: compares it with what the new primary took since. Pure.

Compared are key, value and headers as a multiset: each copy on the new primary accounts for one record of the
tail, the earlier one first. Times do not count: a client that sends a record again gives it a new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntFlag, StrEnum
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
MOST_HASHES: Final = 1_000_000
"""In memory at a time; about 150 MB. With more of them both sides are read several times."""
_EXAMPLES: Final = 20
_FAR: Final = 1 << 63


class Origin(NamedTuple):
    """A partition of the old primary, and the run that replays its records."""

    cluster_id: str
    at: TopicPartition
    run_id: str
    is_kept: bool = False
    """The old primary keeps the records: what is appended is equal to them, without a header."""

    def header(self, offset: int) -> bytes:
        """Return the value of the header for the record at this offset."""
        return self._place + f"{offset}/{self.run_id}".encode()

    def offset_of(self, headers: Headers) -> int | None:
        """Return the offset from which any run has replayed a record, or None for every other record."""
        header = replay_header(headers)
        if not header.startswith(self._place):
            return None
        match = _OFFSET.fullmatch(header, len(self._place))
        return int(match[1]) if match else None

    def stamped(self, record: Record) -> Record:
        """Return the record as it is appended: drkit's header comes last, all else stays."""
        if self.is_kept:
            return record
        return record._replace(headers=(*record.headers, (HEADER, self.header(record.offset))))

    @property
    def _place(self) -> bytes:
        return f"{self.cluster_id}/{self.at}@".encode()


def replay_header(headers: Headers) -> bytes:
    """Return the value of drkit's header, or nothing for a record that no replay has appended."""
    return next((value for name, value in reversed(headers) if name == HEADER), None) or b""


def content_hash(record: Record) -> bytes:
    """Return a hash of key, value and headers, without times and drkit's own header."""
    parts = [record.key, record.value]
    for name, value in record.headers:
        if name != HEADER:
            parts += (name, value)
    return _hashed(parts)


def key_hash(key: bytes) -> bytes:
    """Return a hash of a key."""
    return _hashed([key])


def _hashed(parts: Iterable[bytes | None]) -> bytes:
    """Return a hash of parts, each with its length: no two lists of parts have the same input."""
    digest = blake2b(digest_size=_SIZE)
    for part in parts:
        digest.update(_NONE if part is None else len(part).to_bytes(8, "big"))
        digest.update(part or b"")
    return digest.digest()


class Same(StrEnum):
    """The meaning of a record with equal content on the new primary."""

    CONTENT = "content"
    """The same record, sent again by its client: it is not replayed."""
    NONE = "none"
    """Another record that happens to be equal: all of the tail is replayed."""


class TailFlag(IntFlag):
    """Facts about a record of the tail on the new primary."""

    REPLAYED = 1
    """The record itself, with drkit's header, or appended by a return that was to keep the tail."""
    ALIKE = 2
    """A record of a client with equal content."""
    KEY_CHANGED = 4
    """A record of a client with its key."""


_THERE: Final = TailFlag.REPLAYED | TailFlag.ALIKE


class TailFate(StrEnum):
    """The action of a replay on a record."""

    SEND = "send"
    ALREADY = "already"
    """It is there."""
    KEPT_BACK = "kept back"
    """On a compacted topic, an older value would replace a newer one."""


def fate_of(flags: int, *, same: Same, compacted: bool) -> TailFate:
    """The fate of a record with these flags."""
    if flags & TailFlag.REPLAYED or (flags & TailFlag.ALIKE and same is Same.CONTENT):
        return TailFate.ALREADY
    return TailFate.KEPT_BACK if compacted and flags & TailFlag.KEY_CHANGED else TailFate.SEND


def shares_of(records: int, most: int = MOST_HASHES) -> int:
    """The number of passes for a tail of this many records: each has two hashes."""
    return max(1, -(-2 * records // most))


class KeptBefore(NamedTuple):
    """Records of a tail that returns appended to keep it: equal to those of the tail, without a header."""

    spans: tuple[tuple[int, int], ...] = ()
    """Offsets on the old primary, half open: each record inside was appended."""
    ids: frozenset[int] = frozenset()
    """The producers that wrote them, and nothing else."""
    is_readable: bool = True
    """False if retention has removed some records of the new primary: `spans` count without comparison."""

    def has(self, offset: int) -> bool:
        """Return whether the record at an offset of the old primary was appended."""
        return any(first <= offset < end for first, end in self.spans)


NOTHING_KEPT: Final = KeptBefore()


class ContentTally:
    """One pass over one share of the hashes: it takes the tail, the new primary, then the tail in order."""

    def __init__(
        self, origin: Origin, share: int = 0, shares: int = 1, kept: KeptBefore = NOTHING_KEPT
    ) -> None:
        self._origin, self._share, self._shares, self._kept = origin, share, shares, kept
        self._copies: dict[bytes, int] = {}
        """Hash of a content in the tail → the records of clients with it that are not assigned yet."""
        self._keys: dict[bytes, bool] = {}
        """Hash of a key in the tail → whether a record of a client has it."""
        self._replayed: dict[int, bytes] = {}
        """Offset in the tail → hash of the record that was replayed from there."""
        self._kept_copies = Counter[bytes]()
        """Hash of a content in the tail → the records with it that such returns wrote, not assigned yet."""

    def expect(self, record: Record) -> None:
        """Take a record of the tail."""
        if self._is_in_share(content := content_hash(record)):
            self._copies[content] = 0
        if record.key is not None and self._is_in_share(key := key_hash(record.key)):
            self._keys[key] = False

    def see_kept(self, record: Record) -> None:
        """Take a record of the new primary that a return wrote which was to keep the tail."""
        if (content := content_hash(record)) in self._copies:
            self._kept_copies[content] += 1

    def see(self, record: Record) -> None:
        """Take any other record of the new primary."""
        content, offset = content_hash(record), self._origin.offset_of(record.headers)
        if offset is not None:
            if content in self._copies:
                self._replayed[offset] = content
            return
        if content in self._copies:
            self._copies[content] += 1
        if record.key is not None and (key := key_hash(record.key)) in self._keys:
            self._keys[key] = True

    def flags(self, record: Record) -> int:
        """The flags of the next record of the tail, as far as this share decides about them."""
        flags, content = 0, content_hash(record)
        if content in self._copies:
            if self._replayed.get(record.offset) == content or self._was_kept(record.offset, content):
                flags |= TailFlag.REPLAYED
            elif self._copies[content]:
                self._copies[content] -= 1
                flags |= TailFlag.ALIKE
        if record.key is not None and self._keys.get(key_hash(record.key)):
            flags |= TailFlag.KEY_CHANGED
        return flags

    def _was_kept(self, offset: int, content: bytes) -> bool:
        if not self._kept.has(offset):
            return False
        if not self._kept_copies[content]:
            return not self._kept.is_readable
        self._kept_copies[content] -= 1
        return True

    def _is_in_share(self, digest: bytes) -> bool:
        return self._shares == 1 or int.from_bytes(digest[:8], "big") % self._shares == self._share


class ChangedKey(NamedTuple):
    """A record that is not on the new primary, and whose key a client has written there."""

    offset: int
    key: bytes


class TailCounts(NamedTuple):
    """A tail in numbers."""

    by_flags: Mapping[int, int] = {}
    """Flags → number of records with them."""
    bytes: int = 0
    """Size of keys and values."""
    oldest_ms: int | None = None
    newest_ms: int | None = None
    changed_keys: tuple[ChangedKey, ...] = ()
    """The first of them."""
    processed: Mapping[str, int] = {}
    """Group → records of the tail that it has processed on the old primary."""

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(self.by_flags.values())

    @property
    def replayed(self) -> int:
        """Records that drkit has appended."""
        return sum(n for flags, n in self.by_flags.items() if flags & TailFlag.REPLAYED)

    @property
    def alike(self) -> int:
        """Other records of which clients have written one with equal content."""
        return sum(n for flags, n in self.by_flags.items() if flags & _THERE == TailFlag.ALIKE)

    @property
    def changed(self) -> int:
        """Records that are not there, and whose keys clients have written."""
        return self.by_flags.get(TailFlag.KEY_CHANGED, 0)

    def of(self, fate: TailFate, *, same: Same, compacted: bool) -> int:
        """The number of records with this fate."""
        return sum(
            n for flags, n in self.by_flags.items() if fate_of(flags, same=same, compacted=compacted) is fate
        )


def counted_tail(
    tail: Iterable[Record], flags: bytes | bytearray, commits: Mapping[str, int] | None = None
) -> TailCounts:
    """Count the records of a tail.

    :param flags: of each record
    :param commits: group → offset that it has committed on the old primary
    :raises ValueError: there are more or fewer flags than records
    """
    size, oldest, newest = 0, _FAR, -_FAR
    by_flags, examples = Counter[int](), list[ChangedKey]()
    processed = Counter[str]()
    for record, flag in zip(tail, flags, strict=True):
        by_flags[flag] += 1
        size += len(record.key or b"") + len(record.value or b"")
        oldest, newest = min(oldest, record.timestamp), max(newest, record.timestamp)
        processed.update(group for group, offset in (commits or {}).items() if record.offset < offset)
        if flag == TailFlag.KEY_CHANGED and len(examples) < _EXAMPLES:
            examples.append(ChangedKey(record.offset, record.key or b""))
    first, last = (oldest, newest) if by_flags else (None, None)
    return TailCounts(dict(by_flags), size, first, last, tuple(examples), dict(processed))
