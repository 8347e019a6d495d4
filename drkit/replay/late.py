"""Keys that clients of a compacted topic write while their older values are replayed."""

from __future__ import annotations

from drkit.replay.destination import Destination
from drkit.replay.records import Origin, key_hash
from drkit.replay.side import ActiveSide
from drkit.wire import Record


class LateKeys:
    """Keys of everything that others wrote to a partition since an offset, decided or not.

    :param since: up to there the tail was compared
    """

    def __init__(self, side: ActiveSide, to: Destination, origin: Origin, since: int) -> None:
        self._side, self._to, self._origin = side, to, origin
        self._next = since
        self._hashes: set[bytes] = set()

    async def read_on(self, end: int | None = None) -> None:
        """Read up to an offset, or to the current end. Raises DrkitError."""
        end = await self._side.end(self._to.at, self._to.topic_id) if end is None else end
        if end > self._next:
            span = (self._next, end)
            await self._side.read(self._to.at, self._to.topic_id, span, self._take, committed=False)
            self._next = end

    def without(self, records: list[Record]) -> list[Record]:
        """The records whose keys no other client has written."""
        return [r for r in records if r.key is None or key_hash(r.key) not in self._hashes]

    def _take(self, record: Record) -> None:
        if record.key is not None and self._origin.offset_of(record.headers) is None:
            self._hashes.add(key_hash(record.key))
