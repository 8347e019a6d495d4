"""Finds the transactional batches that a read-committed consumer skips (Kafka's ``CompletedFetch``)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop
from struct import Struct
from typing import Final

from drkit.wire.header import BatchHeader
from drkit.wire.records import decode

_CONTROL_KEY: Final = Struct(">hh")
_ABORT: Final = 0
_COMMIT: Final = 1


class AbortedTransactions:
    """The aborted transactions of one fetch answer, followed batch by batch in offset order."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """``aborted``: producer id and first offset of each, as the Fetch answer lists them."""
        self._coming = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapify(self._coming)
        self._open: set[int] = set()

    def advance(self, last_offset: int) -> None:
        """Take up the transactions that begin at or before ``last_offset``, the end of the next batch."""
        while self._coming and self._coming[0][0] <= last_offset:
            self._open.add(heappop(self._coming)[1])

    def hides(self, header: BatchHeader) -> bool:
        """Return whether the batch belongs to an aborted transaction."""
        return header.is_transactional and header.producer_id in self._open

    def end(self, header: BatchHeader, batch: memoryview) -> None:
        """Note a control batch: an abort marker ends the producer's aborted transaction.

        Compaction can leave a control batch without its record; it is then ignored, as in Kafka's consumer.
        """
        if header.producer_id not in self._open:
            return
        if _kind(header, batch) == _ABORT:
            self._open.discard(header.producer_id)


def is_commit(header: BatchHeader, batch: memoryview) -> bool:
    """Return whether a control batch commits its producer's transaction."""
    return _kind(header, batch) == _COMMIT


def _kind(header: BatchHeader, batch: memoryview) -> int | None:
    """Return the kind of a control batch's marker, or None if there is no marker."""
    for marker in decode(header, batch)[:1]:
        if marker.key is not None and len(marker.key) >= _CONTROL_KEY.size:
            return int(_CONTROL_KEY.unpack_from(marker.key)[1])
    return None
