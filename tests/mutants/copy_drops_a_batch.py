"""A replicator that drops a batch now and then."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Final
from unittest.mock import patch

from drkit.copy_task.source import fetching
from drkit.exercise.checks import SAME_SIDES
from drkit.wire import Transformed, transform

BROKEN: Final = "the replicator does not copy the first batch of every twentieth answer"
SCENARIO: Final = "gray-primary"
CAUGHT_BY: Final = SAME_SIDES
IN: Final = "replicate"
_EVERY: Final = 20


def apply() -> None:
    """Break this process."""
    number = count(1)

    def drop(*args: Any, **kwargs: Any) -> Iterator[Transformed]:
        for part in transform(*args, **kwargs):
            if part.chunks and next(number) % _EVERY == 0:
                del part.chunks[0]
            yield part

    patch.object(fetching, "transform", drop).start()
