"""A drkit that does not see that the standby has refused a position.

Two functions are broken: without the second one the step finds the old position when it reads it back.
"""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import POSITIONS
from drkit.failover.core.step import StepResult
from drkit.failover.groups.offsets import Positions, write
from drkit.failover.steps import group_offsets as commit_offsets
from drkit.failover.steps.group_offsets import CommitOffsetsStep
from drkit.kafka.raw import RawCluster
from drkit.model import TopicPartition

BROKEN: Final = "COMMIT_OFFSETS ignores the error of a partition, and does not read positions back"
SCENARIO: Final = "live-member"
CAUGHT_BY: Final = POSITIONS


def apply() -> None:
    """Break this process."""

    async def write_blindly(cluster: RawCluster, writes: Positions) -> dict[str, dict[TopicPartition, str]]:
        await write(cluster, writes)
        return {}

    patch.object(commit_offsets, "write", write_blindly).start()
    patch.object(CommitOffsetsStep, "prove", lambda *_: StepResult()).start()
