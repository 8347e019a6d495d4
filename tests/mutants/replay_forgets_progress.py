"""A drkit that does not know how far an interrupted replay has come.

Two functions are broken: without its progress alone, drkit still knows each replayed record by its header,
and the scenario passes. Without the header it still finds records of equal content, and asks what they are.
"""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.replay import plan
from drkit.replay.compare import Origin

BROKEN: Final = "a resumed return knows neither how far its replay has come, nor the records that it replayed"
SCENARIO: Final = "return-replayed"
CAUGHT_BY: Final = (
    "drkit itself: the new primary has records with the content of some of the tail: duplicates or distinct?"
)


def apply() -> None:
    """Break this process."""
    patch.object(plan, "begun_by", lambda *_: None).start()
    patch.object(Origin, "offset_of", lambda *_: None).start()
