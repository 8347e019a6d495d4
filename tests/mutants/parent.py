"""The parent of a scenario's processes, with a mutant in the children of one kind.

``MUTANT`` names a module of this folder. Its patch is applied in the child, after the fork: in one that runs
a command of drkit, or does the work that the mutant's ``IN`` names. All others run the real drkit.
"""

from __future__ import annotations

from importlib import import_module
import os
from typing import Any, Final

from drkit.exercise import processes

MODULE: Final = "tests.mutants.parent"
MUTANT: Final = "MUTANT"
"""Environment variable with the name of the mutant."""


def main() -> None:
    """Run the parent of a scenario's processes; the children of one kind are those of the mutant."""
    mutant: Any = import_module(f"tests.mutants.{os.environ[MUTANT]}")
    kind = getattr(mutant, "IN", "command")
    work = processes.WORK[kind]

    def run_broken(*args: Any, **kwargs: Any) -> processes.Ended | None:
        mutant.apply()
        return work(*args, **kwargs)

    processes.WORK[kind] = run_broken
    processes.main()
