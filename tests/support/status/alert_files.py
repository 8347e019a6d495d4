"""The alert rules and the dashboard that come with drkit, and what they ask for."""

from __future__ import annotations

import json
from pathlib import Path
import re

ROOT = Path(__file__).parents[3]
RULES, DASHBOARD = ROOT / "docker/prometheus/drkit.rules.yaml", ROOT / "docker/grafana/drkit.json"
METRIC = re.compile(r"\b(?:drkit|kafka_connect)_[a-z_0-9]+")


def expressions(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        panels = json.loads(text)["panels"]
        return [target["expr"] for panel in panels for target in panel["targets"]]
    return re.findall(r"^\s+expr: (.+)$", text, re.MULTILINE)
