"""The rows of the page of mutants, as files that `python -m tests.chaos_page` takes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

FOLDER: Final = "DRKIT_CHAOS_RESULTS"
"""Environment variable: the folder that gets a file for each mutant that was caught."""
PATTERN: Final = "mutant-*.json"


def write_row(name: str, *, broken: str, scenario: str, caught_by: str) -> None:
    """Write the row of a mutant that was caught."""
    if folder := os.environ.get(FOLDER):
        row = {"mutant": name, "broken": broken, "scenario": scenario, "caught_by": caught_by}
        file = Path(folder, PATTERN.replace("*", name))
        file.write_text(json.dumps(row) + "\n", encoding="utf-8")
