"""A drkit that does not fence its own writers on the standby, and says that each partition proves it."""

from __future__ import annotations

from typing import Any, Final
from unittest.mock import patch

from drkit.exercise.checks import OLDER_WRITER
from drkit.failover.fencing.own_writers import Unproven, Writers
from drkit.failover.steps import freeze
from drkit.kafka.raw import RawCluster

BROKEN: Final = "FREEZE writes no markers, and says that drkit's older writers are fenced"
SCENARIO: Final = "zombie-replicator"
CAUGHT_BY: Final = OLDER_WRITER


async def _fence_nothing(_cluster: RawCluster, _writers: Writers, *_: Any, **__: Any) -> Unproven:
    return {}


def apply() -> None:
    """Break this process."""
    patch.object(freeze, "fence", _fence_nothing).start()
