"""docs/reference/flow-state.md names every key, and which of them are required."""

from __future__ import annotations

from pathlib import Path
import re

from drkit.flow_state.records import KINDS

PAGE = Path(__file__).parents[3] / "docs/reference/flow-state.md"


def test_the_page_has_every_key():
    rows = re.findall(r"^\| (`.*?) \| .* \| (yes)? ?\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    told = {
        re.sub(r"<.*", "", key): bool(required)
        for keys, required in rows
        for key in re.findall(r"`(.*?)`", keys)
    }
    assert told == {kind.KEY: kind.REQUIRED for kind in KINDS}
