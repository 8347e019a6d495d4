"""Keys of a compacted log, by hashes: which have a value, and the offset of the newest record. Pure."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

_HASH_BYTES: Final = 8
_AT_ONCE: Final = 100_000
_DROPPED: Final = -1


class LivingKeys:
    """Keys with the offsets of their newest records: sixteen bytes a key.

    What was added or dropped last is in a dictionary; it goes into sorted arrays when it has grown.
    """

    def __init__(self) -> None:
        self._hashes: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._offsets: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._recent: dict[int, int] = {}

    @property
    def at_most(self) -> int:
        """An upper bound on the number of keys; 0 only if there is none."""
        return len(self._hashes) + len(self._recent)

    def number(self) -> int:
        """The number of keys."""
        self._flush()
        return len(self._hashes)

    def offsets(self) -> array[int]:
        """The offsets of their newest records, in ascending order."""
        self._flush()
        return array("q", np.sort(self._offsets).tobytes())

    def take(self, key: bytes | None, offset: int, *, has_value: bool) -> None:
        """Take the next record of the log; one without a key changes nothing."""
        if not has_value:
            self.drop(key)
        elif key is not None:
            self._recent[_hash(key)] = offset
            self._flush_if_full()

    def drop(self, key: bytes | None) -> None:
        """Forget a key."""
        if key is None or not self.at_most:
            return
        if len(self._hashes):
            self._recent[_hash(key)] = _DROPPED
            self._flush_if_full()
        else:
            self._recent.pop(_hash(key), None)

    def _flush_if_full(self) -> None:
        if len(self._recent) >= _AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if not self._recent:
            return
        recent = np.fromiter(self._recent.keys(), np.uint64, len(self._recent))
        offsets = np.fromiter(self._recent.values(), np.int64, len(self._recent))
        self._recent = {}
        order = np.argsort(recent)
        recent, offsets = recent[order], offsets[order]
        at = np.searchsorted(self._hashes, recent)
        inside = at < len(self._hashes)
        known = at[inside][self._hashes[at[inside]] == recent[inside]]
        if len(known):
            self._hashes, self._offsets = np.delete(self._hashes, known), np.delete(self._offsets, known)
        added = offsets != _DROPPED
        if added.any():
            at = np.searchsorted(self._hashes, recent[added])
            self._hashes = np.insert(self._hashes, at, recent[added])
            self._offsets = np.insert(self._offsets, at, offsets[added])


def _hash(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=_HASH_BYTES).digest(), "big")
