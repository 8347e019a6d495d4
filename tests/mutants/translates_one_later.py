"""A drkit that translates each position one record too late.

Two functions are broken: with the proof of TRANSLATE as it is, drkit holds the run
(`translates_one_later_proof_kept`).
"""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import POSITIONS
from drkit.failover.steps import group_offsets as translate
from tests.mutants import translates_one_later_proof_kept

BROKEN: Final = "positions are translated one record too late, and TRANSLATE does not translate them back"
SCENARIO: Final = "orchestrator-killed-at-open"
CAUGHT_BY: Final = POSITIONS


def apply() -> None:
    """Break this process."""
    translates_one_later_proof_kept.apply()
    patch.object(translate, "_prove", lambda *_: None).start()
