"""Alert rules and dashboard use only metrics that exist; the page of metrics describes all of them."""

from __future__ import annotations

from dataclasses import replace
import json
from pathlib import Path
import re
import tomllib

import pytest
import yaml

from drkit import observe
from drkit.detect.reasons import Reason
from drkit.detect.verdict import VerdictKind
from drkit.monitoring.metrics import STATES, TABLE, pair_samples
from drkit.offsets.group_guard import GuardVerdict
from drkit.status.pair.judge import judge
from drkit.status.pair.model import PairState
from drkit.watch import board
from tests.pages.metrics import documentation
from tests.support.status.alert_files import DASHBOARD, INHIBIT, METRIC, ROOT, RULES, expressions, rules
from tests.support.status.pair_facts import RPO, RUN, back, direction, status

ALERTS = ROOT / "docs/how-to/alerts.md"


def known() -> set[str]:
    counted = {f.name for metric in observe.COUNTED for f in metric.describe()}
    return counted | {f"{name}_total" for name in counted} | set(TABLE) | set(board.TABLE)


def labels_of(metric: str) -> set[str]:
    for each, names in observe.COUNTED.items():
        if metric.removesuffix("_total") in {f.name for f in each.describe()}:
            return set(names)
    return set(board.TABLE[metric][0] if metric in board.TABLE else TABLE[metric].labels)


def labels() -> set[str]:
    return set().union(*map(labels_of, known() & ({*TABLE} | {*board.TABLE}))) | {
        label for names in observe.COUNTED.values() for label in names
    }


@pytest.mark.parametrize("path", [RULES, DASHBOARD], ids=lambda p: p.name)
def test_every_metric_of_a_file_exists(path: Path):
    found = expressions(path)
    assert len(found) >= 11
    used = {name for expression in found for name in METRIC.findall(expression)}
    assert used
    assert used - known() == set()


def test_every_alert_says_what_and_how_bad():
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert {*rule} <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert {*rule["annotations"]} == {"summary", "description", "runbook_url"}
        for text in rule["annotations"].values():
            assert text.count("{{") == text.count("}}")
            assert set(re.findall(r"\$labels\.(\w+)", text)) <= labels()


def test_every_alert_leads_to_its_section():
    """By an address that opens from a pager."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = project["urls"]["Documentation"].replace("/tree/", "/blob/") + "/how-to/alerts.md"
    names = [rule["alert"] for rule in rules()]
    assert re.findall(r"^## (\w+)$", ALERTS.read_text(encoding="utf-8"), re.MULTILINE) == names
    assert [rule["annotations"]["runbook_url"] for rule in rules()] == [f"{page}#{n.lower()}" for n in names]


def test_a_lost_primary_and_a_held_failover_are_alerts_of_their_own():
    """A lost primary paged as 'DrkitFault: verdict'."""
    by_name = {rule["alert"]: rule for rule in rules()}
    lost, held = by_name["DrkitPrimaryLost"], by_name["DrkitFailoverHeld"]
    assert 'drkit_verdict{verdict="LOST"}' in lost["expr"]
    assert "LOST" in lost["annotations"]["summary"]
    assert "drkit failover --all --dry-run" in lost["annotations"]["description"]
    assert "drkit_held_run_topics" in held["expr"]
    assert by_name["DrkitFault"]["expr"] == 'drkit_fault{fault!~"verdict|rpo_exceeded"} == 1'


def test_the_limit_of_the_loss_is_the_configured_one():
    """The rule compared with 30 s, whatever rpo_seconds was."""
    [rule] = [rule for rule in rules() if rule["alert"] == "DrkitLossTooLarge"]
    assert re.findall(r'fault="(\w+)"', rule["expr"]) == ["rpo_exceeded"]
    assert not re.search(r"drkit_rpo_seconds\s*[<>]", rule["expr"])


def test_a_lost_primary_silences_what_follows_from_it():
    """Alertmanager compares the labels in equal: an alert without them would never be silent."""
    by_name = {rule["alert"]: rule for rule in rules()}
    page = (ROOT / "docs/reference/status.md").read_text(encoding="utf-8")
    faults = set(re.findall(r"^\| `([a-z_`, ]+)` \|", page.partition("## Faults")[2], re.MULTILINE))
    faults = {name for row in faults for name in re.findall(r"[a-z_]+", row)}
    inhibited = yaml.safe_load(INHIBIT.read_text(encoding="utf-8"))["inhibit_rules"]
    sources, targets = set[str](), set[str]()
    for rule in inhibited:
        assert rule["equal"] == ["source", "target"]
        matchers = [re.fullmatch(r'(\w+) =~? "([^"]*)"', m) for m in rule["target_matchers"]]
        chosen = {m[1]: set(m[2].split("|")) for m in matchers if m is not None}
        assert len(chosen) == len(matchers)
        assert chosen.get("fault", set()) <= faults
        targets |= chosen["alertname"]
        sources |= {m.partition('"')[2].rstrip('"') for m in rule["source_matchers"]}
    assert sources == {"DrkitPrimaryLost", "DrkitFailoverHeld"}
    assert sources | targets <= {*by_name}
    assert not sources & targets
    for name in targets:
        used = METRIC.findall(by_name[name]["expr"])
        assert all({"source", "target"} <= labels_of(metric) for metric in used), name


@pytest.mark.parametrize(("held", "topics"), [("", 0), ("no answer", 1)])
def test_a_held_failover_is_a_metric(held: str, topics: int):
    """One at work is no alarm."""
    found = judge(direction(run=RUN._replace(held=held)), back(), RPO)
    assert found.state is PairState.FAILING_OVER
    samples = {name: value for name, _, value in pair_samples(("p", "s"), replace(status("x"), pair=found))}
    assert samples["drkit_held_run_topics"] == topics


def test_the_dashboard_begins_with_the_pair():
    board_ = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    row, *panels = board_["panels"]
    assert (row["type"], row["title"], row["gridPos"]["y"]) == ("row", "Pair", 0)
    assert [p["gridPos"]["y"] for p in board_["panels"]] == sorted(
        p["gridPos"]["y"] for p in board_["panels"]
    )
    assert len({p["id"] for p in board_["panels"]}) == len(board_["panels"])
    pair = [p for p in panels if "description" in p]
    used = {name for p in pair for t in p["targets"] for name in METRIC.findall(t["expr"])}
    assert {"drkit_verdict_level", "drkit_pair_topics", "drkit_unprotected_seconds"} <= used
    assert "drkit_held_run_topics" in used
    assert board_["links"]
    assert board_["annotations"]["list"]


def test_labels_in_expressions_exist():
    for path in (RULES, DASHBOARD):
        for expression in expressions(path):
            for chosen in re.findall(r"\{([^}]*)\}", expression):
                assert set(re.findall(r"(\w+)\s*[=!]=?~?", chosen)) <= labels()
            for grouped in re.findall(r"by \(([^)]*)\)", expression):
                assert set(grouped.replace(" ", "").split(",")) <= labels()


def test_values_in_expressions_exist():
    page = (ROOT / "docs/reference/events.md").read_text(encoding="utf-8")
    events = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    known = {
        "kind": set(events),
        "state": {*STATES, *(s.value for s in PairState)},
        "reason": {v.name.lower() for v in GuardVerdict} | {r.value for r in Reason},
        "verdict": {v.name for v in VerdictKind} | {"pass"},
    }
    asked = {name: set[str]() for name in known}
    for expression in (e for path in (RULES, DASHBOARD) for e in expressions(path)):
        for name, values in re.findall(r"(kind|state|reason|verdict)!?=~?\"([^\"]*)\"", expression):
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
    assert documentation() in page, "copy what tests.pages.metrics.documentation() gives"
