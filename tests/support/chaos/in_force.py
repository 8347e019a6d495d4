"""Whether a fault was in force."""

from __future__ import annotations

from drkit.exercise.history import ScenarioHistory
from drkit.exercise.verdict import RequiredFault, coverage


def in_force(history: ScenarioHistory, wanted: RequiredFault) -> bool:
    """Return whether a fault was in force while a step was under way."""
    return any((fault, step) == wanted for fault, _, step in coverage(history))
