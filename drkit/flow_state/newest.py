"""Parses only the newest of a large record that is written all the time. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from drkit.flow_state.kinds.run import SourceSeenRecord

T = TypeVar("T")
_KEY: Final = SourceSeenRecord.KEY.encode()
_KEPT: Final = 16


class NewestRecords(Generic[T]):
    """Passes on what is read; notes of the source's ends wait until all is read.

    A note has a row for each partition: to parse a day of them takes minutes where there are thousands.

    :param take: gets what is read
    :param is_damaged: whether the newest record under a key is damaged; then those before it are parsed, too
    """

    def __init__(self, take: Callable[[T], None], is_damaged: Callable[[str], bool]) -> None:
        self._take = take
        self._is_damaged = is_damaged
        self._late: deque[T] = deque(maxlen=_KEPT)

    def put(self, key: bytes | None, found: T) -> None:
        """Take one record of the topic."""
        if key == _KEY:
            self._late.append(found)
        else:
            self._take(found)

    def flush(self) -> None:
        """The end of the topic is reached."""
        if self._late:
            self._take(self._late[-1])
        if len(self._late) > 1 and self._is_damaged(SourceSeenRecord.KEY):
            for found in self._late:
                self._take(found)
        self._late.clear()
