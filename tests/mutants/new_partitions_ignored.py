"""A drkit that does not know that a topic of the primary may grow.

Two functions are broken: with SNAPSHOT alone broken, DRAIN waits for the copy of that partition, and refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from unittest.mock import patch

from drkit.exercise.checks import COMMANDS
from drkit.failover.checks import survey
from drkit.failover.core.context import Context
from drkit.failover.loss.count import Lost, lost_partitions
from drkit.failover.loss.positions import ScopePositions
from drkit.failover.steps import drain, group_offsets
from drkit.kafka.raw import RawCluster
from drkit.model import TopicPartition
from drkit.offsets.translation import PartitionPosition

BROKEN: Final = "SNAPSHOT and DRAIN ignore a partition without copied records"
SCENARIO: Final = "topic-grows"
CAUGHT_BY: Final = COMMANDS


def apply() -> None:
    """Break this process."""
    reasons = survey._reasons

    def of_copies(names: Any, topics: Any, configs: Any, _partitions: Any) -> Iterator[str]:
        return reasons(names, topics, configs, ())

    def of_begun(context: Context, places: ScopePositions, source: RawCluster | None) -> list[Lost]:
        begun = {tp for tp, p in places.items() if isinstance(p, PartitionPosition) and p.frontier}
        lost = lost_partitions(context, places, source)
        return [each for each in lost if TopicPartition(each.topic, each.partition) in begun]

    patch.object(survey, "_reasons", of_copies).start()
    for step in (drain, group_offsets):
        patch.object(step, "lost_partitions", of_begun).start()
