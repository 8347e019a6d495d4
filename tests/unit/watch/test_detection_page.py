"""docs/explanation/detection.md and the runbooks keep up with the table."""

from __future__ import annotations

from pathlib import Path
import re

import pytest

from drkit.detect.reasons import Reason, runbook
from drkit.detect.verdict import TABLE, VerdictKind
from tests.pages.detection import PAGE, PARTS, filled

ROOT = Path(__file__).parents[3]
HOLDS = [row.reason for row in TABLE if row.kind is VerdictKind.HOLD]
PAGES = sorted((ROOT / "runbooks").glob("hold-*.md"))


def test_the_generated_parts_are_up_to_date():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert filled(page) == page, "run: python -m tests.pages.detection"
    assert all(f"<!-- generated: {name} -->" in page for name in PARTS)


@pytest.mark.parametrize("reason", HOLDS)
def test_every_hold_has_its_runbook(reason: Reason):
    text = (ROOT / runbook(reason)).read_text(encoding="utf-8")
    assert f"`HOLD({reason})`" in text
    parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert parts == ["What it means", "What was seen", "What to do"]
    assert "```sh\ndrkit " in text


def test_no_runbook_of_a_hold_that_is_not_there():
    assert {p.name for p in PAGES} == {Path(runbook(r)).name for r in HOLDS}
