"""A drkit whose statement of the loss leaves the first partition out."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import ACKNOWLEDGED
from drkit.failover.core.context import Context
from drkit.failover.loss.count import Lost, lost_partitions
from drkit.failover.loss.positions import ScopePositions
from drkit.failover.steps import group_offsets as translate
from drkit.kafka.raw import RawCluster

BROKEN: Final = "the stated loss leaves a partition out"
SCENARIO: Final = "both-die"
CAUGHT_BY: Final = ACKNOWLEDGED


def apply() -> None:
    """Break this process."""

    def others(context: Context, places: ScopePositions, source: RawCluster | None) -> list[Lost]:
        return lost_partitions(context, places, source)[1:]

    patch.object(translate, "lost_partitions", others).start()
