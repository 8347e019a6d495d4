"""docs/how-to/topologies.md shows what works: its settings load and its class is a naming policy."""

from __future__ import annotations

from pathlib import Path
import re
import tomllib

import pytest

from drkit.config import Settings
from drkit.topology import broken_promise

PAGE = (Path(__file__).parents[3] / "docs/how-to/topologies.md").read_text(encoding="utf-8")
TABLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
ALIASES = ("primary", "standby", "west", "east", "hub")


@pytest.mark.parametrize("text", TABLES)
def test_settings_on_the_page(text: str):
    """P1, P6: the settings of each topology, as a reader would copy them."""
    clusters = {alias: {"bootstrap_servers": f"{alias}:9092"} for alias in ALIASES}
    settings = Settings.model_validate({"clusters": clusters, **tomllib.loads(text)})
    assert settings.flows
    assert not settings.disagreements()


def test_the_class_on_the_page():
    """P5: renaming by a class of one's own."""
    (text,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, type] = {}
    exec(text, names)  # noqa: S102  our own page
    policy = names["Teams"]("west", ".")
    assert not broken_promise(policy, "west", ".")
    assert policy.comes_from("dr-east.orders", "east")
    assert policy.comes_from("dr-west.dr-east.orders", "east")
    assert not policy.comes_from("orders", "east")
