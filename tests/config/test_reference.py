from __future__ import annotations

from pathlib import Path

import pytest

from drkit.config import Settings
from drkit.config.mm2_keys import FLOW_KEYS
from drkit.config.reference import PAGES, coming_from_mm2, configuration

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run: python -m drkit.config.reference"


def test_every_setting_is_there_and_has_a_meaning():
    page = configuration()
    for model in Settings.model_json_schema()["$defs"].values():
        for name, found in model["properties"].items():
            assert found.get("description"), name
            assert name == "alias" or f"| `{name}` |" in page


def test_every_key_of_mm2_is_there():
    page = coming_from_mm2()
    assert [k.name for k in FLOW_KEYS if f"| `{k.name}` |" not in page] == []
