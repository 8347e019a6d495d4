"""The parent of commands whose machine may be suspended while they wait at an entry of their journal."""

from __future__ import annotations

import time
from typing import Any, Final
from unittest.mock import patch

from drkit.exercise import processes
from drkit.exercise.processes import PausingJournal

MODULE: Final = "tests.support.failover.walk.sleeping_parent"


class SleepingJournal(PausingJournal):
    """A journal whose process may wake up later: the clocks advance by the seconds with which it proceeds."""

    def wait_at(self, entry: object) -> Any:
        if slept := super().wait_at(entry):
            monotonic, any_clock = time.monotonic, time.clock_gettime
            time.monotonic = lambda: monotonic() + slept
            time.clock_gettime = lambda clock: any_clock(clock) + slept


def main() -> None:
    """Run the parent."""
    patch.object(processes, "PausingJournal", SleepingJournal).start()
    processes.main()
