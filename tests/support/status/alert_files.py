"""The alert rules and the dashboard that come with drkit, and what they ask for."""

from __future__ import annotations

import json
from pathlib import Path
import re
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
RULES, DASHBOARD = ROOT / "docker/prometheus/drkit.rules.yaml", ROOT / "docker/grafana/drkit.json"
INHIBIT = ROOT / "docker/prometheus/drkit.inhibit.yaml"
METRIC = re.compile(r"\b(?:drkit|kafka_connect)_[a-z_0-9]+")


def expressions(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        board = json.loads(text)
        shown = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
        return [*shown, *(each["expr"] for each in board["annotations"]["list"])]
    return [rule["expr"] for rule in rules()]


def rules() -> list[dict[str, Any]]:
    """Return the alert rules, as Prometheus reads them."""
    [group] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found
