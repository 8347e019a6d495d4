"""An observer that calls the primary lost at the first probe that takes long.

Two functions are broken: without the shorter timeout no probe of a slow primary fails.
"""

from __future__ import annotations

from typing import Any, Final
from unittest.mock import patch

from drkit.detect.probes import Prober
from drkit.detect.reasons import Reason
from drkit.detect.verdict import LOST, Picture, Verdict, judge
from drkit.exercise.checks import OBSERVED
from drkit.watch import observer

BROKEN: Final = "probes wait for 50 ms, and the first one that fails is a lost primary"
SCENARIO: Final = "gray-primary"
CAUGHT_BY: Final = OBSERVED
IN: Final = "client"
_SECONDS: Final = 0.05


def apply() -> None:
    """Break this process."""
    init = Prober.__init__

    def impatient(self: Prober, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self._settings = self._settings.model_copy(update={"probe_timeout_seconds": _SECONDS})

    def judge_at_once(picture: Picture) -> Verdict:
        verdict = judge(picture)
        if verdict.reason is Reason.UNCONFIRMED:
            return verdict._replace(kind=LOST.kind, reason=LOST.reason, primary_lost=True)
        return verdict

    patch.object(Prober, "__init__", impatient).start()
    patch.object(observer, "judge", judge_at_once).start()
