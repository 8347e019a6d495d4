"""Alert rules and dashboard use only metrics that exist; the page of metrics describes all of them."""

from __future__ import annotations

from pathlib import Path
import re

import pytest

from drkit import observe
from drkit.monitoring.metrics import TABLE, documentation
from drkit.monitoring.metrics_groups import STATES
from drkit.offsets.group_guard import GuardVerdict
from drkit.status.pair.model import PairState
from tests.support.status.alert_files import DASHBOARD, METRIC, ROOT, RULES, expressions

ALERTS = ROOT / "docs/how-to/alerts.md"


def known() -> set[str]:
    counted = {f.name for metric in observe.COUNTED for f in metric.describe()}
    return counted | {f"{name}_total" for name in counted} | set(TABLE)


@pytest.mark.parametrize("path", [RULES, DASHBOARD], ids=lambda p: p.name)
def test_every_metric_of_a_file_exists(path: Path):
    found = expressions(path)
    assert len(found) >= 11
    used = {name for expression in found for name in METRIC.findall(expression)}
    assert used
    assert used - known() == set()


def test_every_alert_says_what_and_how_bad():
    text = RULES.read_text(encoding="utf-8")
    alerts = text.split("- alert: ")[1:]
    assert len(alerts) == text.count("summary: ") == text.count("description: ") == text.count("severity: ")
    assert len({a.split()[0] for a in alerts}) == len(alerts)


def test_every_alert_leads_to_its_section():
    text = RULES.read_text(encoding="utf-8")
    alerts = {a.split()[0]: a for a in text.split("- alert: ")[1:]}
    sections = re.findall(r"^## (\w+)$", ALERTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == list(alerts)
    for name, alert in alerts.items():
        assert f"runbook_url: docs/how-to/alerts.md#{name.lower()}\n" in alert


def test_labels_in_expressions_exist():
    labels = {label for row in TABLE.values() for label in row.labels}
    labels |= {label for names in observe.COUNTED.values() for label in names}
    for path in (RULES, DASHBOARD):
        for expression in expressions(path):
            for chosen in re.findall(r"\{([^}]*)\}", expression):
                assert set(re.findall(r"(\w+)\s*=~?", chosen)) <= labels
            for grouped in re.findall(r"by \(([^)]*)\)", expression):
                assert set(grouped.replace(" ", "").split(",")) <= labels


def test_values_in_expressions_exist():
    page = (ROOT / "docs/reference/events.md").read_text(encoding="utf-8")
    events = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    known = {
        "kind": set(events),
        "state": {*STATES, *(s.value for s in PairState)},
        "reason": {v.name.lower() for v in GuardVerdict},
    }
    asked = {name: set[str]() for name in known}
    for expression in (e for path in (RULES, DASHBOARD) for e in expressions(path)):
        for name, values in re.findall(r"(kind|state|reason)=~?\"([^\"]*)\"", expression):
            asked[name] |= set(values.split("|"))
    assert all(asked.values())
    assert [(name, values - known[name]) for name, values in asked.items() if values - known[name]] == []


def test_an_alert_on_one_event_hears_the_first_one():
    """A counter's series begins with its first event, and nothing has increased then."""
    single = [e for e in expressions(RULES) if "increase(drkit_events_total{" in e and "> 0" in e]
    assert single
    assert [e for e in single if "unless drkit_events_total{" not in e] == []


def test_the_page_of_metrics_is_up_to_date():
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    assert documentation() in page, "copy what drkit.monitoring.metrics.documentation() gives"
