"""All stages, by page, and the pages that have none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

from tests.support.laws import ROOT
from tests.support.runbooks.stage import Stage
from tests.support.runbooks.stages import drills, holds, pairs, refusals, replays, returns, runs

THEMES: Final = (refusals, runs, holds, pairs, returns, replays, drills)
STAGES: Final[dict[str, Stage]] = {name: stage for theme in THEMES for name, stage in theme.STAGES.items()}
UNSTAGED: Final = ROOT / "tests" / "runbooks" / "unstaged.txt"
SAMPLE: Final = (
    "failover-paused",
    "failover-planned-not-possible",
    "first-set-up",
    "hold-wrong-cluster",
    "replay-same-or-other",
)
"""The pages of `make test`; the others are executed in `make test-wide`."""


def unstaged() -> dict[str, str]:
    """Return the pages without a stage, each with its reason."""
    lines = UNSTAGED.read_text(encoding="utf-8").splitlines()
    rows = [line.split(": ", 1) for line in lines if line and not line.startswith("#")]
    return {row[0]: row[-1] for row in rows}


def wide(pages: Iterable[str]) -> Any:
    """Parametrize a test by the pages of a theme that `make test-wide` executes."""
    return pytest.mark.parametrize("page", sorted(set(pages) - set(SAMPLE)))
