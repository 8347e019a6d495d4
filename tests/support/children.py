"""Run child processes up to an entry of their journal, or to their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drkit.exercise.events import CommandEnded
from drkit.exercise.processes import Child


def run_until(child: Child, is_wanted: Callable[[Any], bool]) -> Any | None:
    """Return the first wanted entry, at which the process waits; None if it ended before."""
    while (entry := child.next_entry()) is not None and not is_wanted(entry):
        child.proceed()
    return entry


def finish(child: Child) -> CommandEnded:
    """Let it run to its end."""
    run_until(child, lambda _: False)
    return child.ended()
