"""The keys of a log that have a value, by hashes: nine bytes a record. Pure."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

from drkit.wire import Record

Hashes = npt.NDArray[np.uint64]
_HASH_BYTES: Final = 8
_AT_ONCE: Final = 100_000


class LogKeys:
    """What the records of a log make of their keys, in order."""

    def __init__(self) -> None:
        self._hashes, self._live = array("Q"), bytearray()

    def __len__(self) -> int:
        return len(self._live)

    def take(self, record: Record) -> None:
        """Take the next record."""
        if record.key is not None:
            self._hashes.append(_hash(record.key))
            self._live.append(record.value is not None)

    def living(self) -> Hashes:
        """The keys whose newest record has a value, sorted."""
        newest_first = np.frombuffer(self._hashes, np.uint64)[::-1]
        keys, newest = np.unique(newest_first, return_index=True)
        found: Hashes = keys[np.frombuffer(self._live, np.bool_)[::-1][newest]]
        return found


class LivingKeys:
    """Keys, of which another log may have some."""

    def __init__(self, keys: Hashes) -> None:
        self._keys, self._left, self._seen = keys, np.ones(len(keys), np.bool_), array("Q")

    def drop(self, record: Record) -> None:
        """Take a record of the other log."""
        if record.key is not None:
            self._seen.append(_hash(record.key))
            if len(self._seen) >= _AT_ONCE:
                self._flush()

    def number(self) -> int:
        """The number of keys of which it has no record."""
        self._flush()
        return int(self._left.sum())

    def _flush(self) -> None:
        seen = np.frombuffer(self._seen, np.uint64)
        at = np.searchsorted(self._keys, seen)
        at = at[at < len(self._keys)] if len(self._keys) else at[:0]
        known = np.isin(self._keys[at], seen)
        self._left[at[known]] = False
        self._seen = array("Q")


def _hash(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=_HASH_BYTES).digest(), "big")
