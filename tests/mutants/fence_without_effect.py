"""A drkit that does not fence the old primary, and says that it has proven it.

Two functions are broken: the step, and its proof, which would refuse at once. A planned switchover is held
even then: DRAIN waits for the end of a log that grows.
"""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import ONE_SIDE
from drkit.failover.core.step import FenceEvidence, StepResult
from drkit.failover.steps.fence import FenceStep

BROKEN: Final = "FENCE changes nothing, and says that its fence is proven"
SCENARIO: Final = "primary-frozen-and-back"
CAUGHT_BY: Final = ONE_SIDE
_EVIDENCE: Final[FenceEvidence] = {"proven": True, "how": "max.message.bytes", "debt": "", "details": {}}


def apply() -> None:
    """Break this process."""
    patch.object(FenceStep, "run", lambda *_: StepResult({**_EVIDENCE})).start()
    patch.object(FenceStep, "prove", lambda *_: StepResult()).start()
