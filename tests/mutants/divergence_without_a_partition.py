"""A drkit whose `divergence` leaves the first partition of each topic out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from unittest.mock import patch

from drkit.exercise.checks import ONE_SIDE
from drkit.failover.loss import divergence
from drkit.model import TopicPartition

BROKEN: Final = "the answer of `drkit divergence` leaves the first partition of each topic out"
SCENARIO: Final = "primary-killed"
CAUGHT_BY: Final = ONE_SIDE


def apply() -> None:
    """Break this process."""
    partitions = divergence._partitions

    def others(*args: Any) -> Iterator[tuple[TopicPartition, int | None]]:
        return (each for each in partitions(*args) if each[0].partition > 0)

    patch.object(divergence, "_partitions", others).start()
