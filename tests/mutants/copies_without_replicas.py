"""A replicator that creates each copy with one replica."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import COMMANDS
from drkit.topic_sync import change

BROKEN: Final = "the replicator creates copies with one replica"
SCENARIO: Final = "standby-broker-dies"
CAUGHT_BY: Final = COMMANDS
IN: Final = "replicate"


def apply() -> None:
    """Break this process."""
    patch.object(change, "replication_factor", lambda *_: 1).start()
