"""A drkit that continues the log of an old primary that came back with an older disk.

Two functions are broken: the scenario asks for a rebuild, which would also repair what COMPARE did not see.
"""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import SAME_SIDES
from drkit.failover.core.request import Method
from drkit.failover.returning import compare, deciding

BROKEN: Final = "COMPARE does not see what an older disk lacks, and its partitions are not rebuilt"
SCENARIO: Final = "return-older-disk"
CAUGHT_BY: Final = SAME_SIDES


def apply() -> None:
    """Break this process."""
    patch.object(compare, "unsound", lambda *_: []).start()
    patch.object(deciding, "method_of", lambda *_, **__: Method.DELTA).start()
