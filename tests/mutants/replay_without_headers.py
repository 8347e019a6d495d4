"""A drkit whose replay appends records without the headers that clients gave them."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import READERS
from drkit.replay.compare import HEADER, Origin
from drkit.wire import Record

BROKEN: Final = "a replay appends records without their headers"
SCENARIO: Final = "return-replayed"
CAUGHT_BY: Final = READERS


def _stamped(self: Origin, record: Record) -> Record:
    return record._replace(headers=((HEADER, self.header(record.offset)),))


def apply() -> None:
    """Break this process."""
    patch.object(Origin, "stamped", _stamped).start()
