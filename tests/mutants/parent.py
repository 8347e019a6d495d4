"""The parent of a scenario's processes, with one mutant in the commands of drkit.

``MUTANT`` names a module of this folder. Its patch is applied in the child that runs a command, after the
fork: replicators and clients run the real drkit.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
import os
from typing import Final

from drkit.exercise import processes

MODULE: Final = "tests.mutants.parent"
MUTANT: Final = "MUTANT"
"""Environment variable with the name of the mutant."""


def run_mutant(typed: Sequence[str]) -> tuple[int, str, str]:
    """Run a command of a broken drkit in this process."""
    import_module(f"tests.mutants.{os.environ[MUTANT]}").apply()
    return processes.run_drkit(typed)


def main() -> None:
    """Run the parent of a scenario's processes; commands are those of the mutant."""
    processes.WORK["command"] = run_mutant
    processes.main()
