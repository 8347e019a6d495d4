"""A drill beside production leaves processor time to it."""

from __future__ import annotations

import os
import subprocess
import sys

from drkit.drill import run_drill
from drkit.drill.steps import CollectedEvidence


def test_only_the_drill_has_a_lower_priority() -> None:
    """With its processes. A scheduler may run a switchover next, which must not be slow."""
    seen: list[int] = []
    before = _niceness()

    def collect() -> CollectedEvidence:
        program = "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"
        child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        seen.extend((_niceness(), int(child.stdout)))
        return CollectedEvidence()

    run_drill._begun_aside(collect).result()
    assert seen == [run_drill._NICENESS] * 2
    assert _niceness() == before


def _niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)
