from __future__ import annotations

from pathlib import Path
import re

import pytest

from drkit.config import DrillSettings, FailoverSettings, FlowSettings, read
from drkit.config.changes import LIVE
from drkit.config.mm2.keys import FLOW_KEYS
from drkit.config.schema import described_schema
from tests.pages.settings import PAGES, coming_from_mm2, configuration, reference_toml

DOCS = Path(__file__).parents[3] / "docs/reference"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run: python -m tests.pages.settings"


def test_every_setting_is_there_and_has_a_meaning():
    page = configuration()
    for model in described_schema()["$defs"].values():
        for name, found in model["properties"].items():
            assert found.get("description"), name
            assert name == "alias" or f"| `{name}` |" in page


def test_every_key_of_mm2_is_there():
    page = coming_from_mm2()
    assert [k.name for k in FLOW_KEYS if f"| `{k.name}` |" not in page] == []


@pytest.mark.parametrize("uncomment", [False, True])
def test_the_reference_file_is_the_defaults(tmp_path: Path, *, uncomment: bool):
    text = reference_toml()
    if uncomment:
        text = re.sub(r"^#(?=\S+ = )", "", text, flags=re.MULTILINE)
        assert text.count("\n#") < reference_toml().count("\n#") - 30
    (tmp_path / "drkit.toml").write_text(text)
    settings = read(tmp_path / "drkit.toml", {}).settings
    assert settings.flows == (FlowSettings(source="primary", target="standby"),)
    assert settings.failover == FailoverSettings(repoint=settings.failover.repoint)
    assert settings.drills == (DrillSettings(name="monthly", kind="bubble", cron="0 6 1 * *"),)
    assert all(not c.client for c in settings.clusters.values())


def test_the_reference_file_has_every_setting():
    text = reference_toml()
    for model in described_schema()["$defs"].values():
        for name in model["properties"]:
            shown = re.search(rf"^#?(\[\[?\w+\.)?{name}\b", text, re.MULTILINE)
            assert name == "alias" or shown, name


def test_what_is_taken_while_running_is_documented():
    page = configuration().partition("## While it runs")[2].partition("\n## ")[0]
    assert [name for name in LIVE if f"`{name}`" not in page] == []
