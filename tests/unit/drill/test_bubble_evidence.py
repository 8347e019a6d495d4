"""What is measured in a bubble, and its verdict; and the entry of a drill as plain data."""

from __future__ import annotations

from dataclasses import replace
import json
from typing import Any

import pytest

from drkit.config.tables.drills import DrillLimits, DrillObjectives
from drkit.drill.entry import MISSED, DrillEntry, MadeItem
from drkit.drill.evidence import (
    BUBBLE,
    BubbleEvidence,
    ClientOutage,
    DrillEvidence,
    MeasuredLoss,
    VerdictLimits,
    measure_loss,
    measure_outages,
)
from drkit.drill.inventory import InventoryComparison
from drkit.drill.judge import judge
from drkit.drill.plan import DrillPlan
from drkit.drill.report import PlanReport, build_report, check_report, read_report
from drkit.exercise.checks import CheckResult
from drkit.exercise.events import PRIMARY, STANDBY, Acked, Consumed, Event
from drkit.exercise.history import ScenarioHistory
from drkit.exercise.verdict import FAIL, INCONCLUSIVE, PASS
from drkit.flow_state.processes import this_process
from tests.support.chaos.minimal import TP, log

LIMITS = VerdictLimits(rto_seconds=10.0, rpo_seconds=5.0)
PLAN = DrillPlan(
    id="20261128t060000-1a2b3c",
    name="weekly",
    kind="bubble",
    flow="primary->standby",
    objectives=DrillObjectives(rto_seconds=10.0, rpo_seconds=5.0),
    limits=DrillLimits(),
)
GOOD = BubbleEvidence(
    steps={"LOCK": 0.1, "OPEN": 0.2},
    outages=(ClientOutage("reader", "consume", 9.0, 3.0), ClientOutage("follower", "produce", 9.0, 2.0)),
    loss=MeasuredLoss(0, 0.0),
    checks=(CheckResult("once, in order", 3, []),),
    missing=(),
    controls={"a copied record dropped": True},
    inventory={"source": InventoryComparison(), "target": InventoryComparison()},
)


def both(**change: Any) -> dict[str, InventoryComparison]:
    return {side: InventoryComparison(**change) for side in ("source", "target")}


def acked(cluster: str, number: int, seconds: float, by: str = "follower") -> Event:
    return Acked(cluster, *TP, number, f"{by} {number}", seconds=seconds, by=by)


def consumed(cluster: str, number: int, seconds: float) -> Event:
    return Consumed(cluster, *TP, number, f"{number}", "reader", seconds=seconds, by="reader")


def test_outages_are_per_client_and_operation():
    events = [
        acked(PRIMARY, 1, 1.0),
        acked(PRIMARY, 2, 2.5),
        consumed(PRIMARY, 1, 2.0),
        acked(PRIMARY, 9, 9.0, "writer"),
        acked(STANDBY, 3, 6.0, "follower 2"),
        acked(STANDBY, 4, 7.0, "follower 2"),
        consumed(STANDBY, 2, 7.25),
    ]
    expected = (
        ClientOutage("follower", "produce", 1.5, 3.5),
        ClientOutage("reader", "consume", 1.0, 5.25),
    )
    assert measure_outages(ScenarioHistory(events)) == expected


def test_the_loss_is_what_the_target_lacks():
    events = [acked(PRIMARY, number, float(number)) for number in range(5)]
    copied = log("follower 0", "follower 1")
    assert measure_loss(ScenarioHistory([*events, *copied])) == MeasuredLoss(3, 2.0)
    everything = log(*(f"follower {number}" for number in range(5)))
    assert measure_loss(ScenarioHistory([*events, *everything])) == MeasuredLoss(0, 0.0)
    assert measure_loss(ScenarioHistory(events)) is None


@pytest.mark.parametrize(
    ("change", "verdict", "reason"),
    [
        ({}, PASS, ""),
        ({"error": "OPEN refuses"}, FAIL, "OPEN refuses"),
        ({"checks": (CheckResult("once, in order", 3, ["twice"]),)}, FAIL, "once, in order: twice"),
        ({"missing": ("nothing was examined",)}, INCONCLUSIVE, "nothing was examined"),
        ({"outages": (GOOD.outages[0], ClientOutage("follower", "produce", 1.0, 11.0))}, FAIL, "follower"),
        ({"outages": GOOD.outages[:1]}, INCONCLUSIVE, "no client resumed to produce"),
        ({"loss": MeasuredLoss(9, 6.0)}, FAIL, "6 s of records are lost"),
        ({"loss": None}, INCONCLUSIVE, "the loss is unknown"),
        ({"controls": None}, INCONCLUSIVE, "no control was run"),
        ({"controls": {"two records swapped": False}}, INCONCLUSIVE, "is not found: two records swapped"),
        ({"cleanup_problems": ("topic t: refused",)}, FAIL, "not cleaned up: topic t"),
        ({"inventory": None}, INCONCLUSIVE, "not compared"),
        ({"inventory": {"source": InventoryComparison()}}, INCONCLUSIVE, "not compared"),
        ({"inventory": both(ours_left=("topic t",))}, FAIL, "left on the"),
        ({"inventory": both(unknown=("ACL",))}, INCONCLUSIVE, "unknown on"),
        ({"inventory": both(changed_by_others=("topic t",))}, PASS, ""),
        ({"steps": None}, INCONCLUSIVE, "is not done"),
        ({"checks": ()}, INCONCLUSIVE, "no check examined anything"),
        ({"outages": (GOOD.outages[0], ClientOutage("f", "produce", 1.0, -5.0))}, INCONCLUSIVE, "unknown"),
    ],
)
def test_the_verdict(change: dict[str, Any], verdict: str, reason: str):
    """The verdict follows from the evidence in the report alone."""
    evidence = DrillEvidence(bubble=replace(GOOD, **change))
    judged = judge(BUBBLE, evidence, LIMITS)
    assert judged.word == verdict, judged
    assert reason in "; ".join(judged.reasons)
    assert bool(judged.reasons) is bool(reason)
    scope = {"flow": "p->s", "source": "p", "target": "s", "topics": 3, "partitions": 6, "groups": 3}
    plan = PlanReport(name="weekly", objectives=LIMITS)
    report = build_report(BUBBLE, plan, evidence, id=PLAN.id, scope=scope)
    again = read_report(report.to_json())
    assert again == report
    assert check_report(again) == []
    assert check_report(again.model_copy(update={"rto": ()})) != []


@pytest.mark.parametrize(("is_application", "exercised"), [(True, "bubble"), (False, "not exercised")])
def test_the_rights_of_applications_are_unproven_without_their_client(
    *, is_application: bool, exercised: str
) -> None:
    evidence = DrillEvidence(bubble=replace(GOOD, is_application=is_application))
    scope = {"flow": "p->s", "source": "p", "target": "s", "topics": 3, "partitions": 6, "groups": 3}
    report = build_report(BUBBLE, PlanReport(name="weekly"), evidence, id=PLAN.id, scope=scope)
    [rights] = [step for step in report.not_proven if step.step == "rights of applications"]
    assert rights.exercised == exercised
    assert rights.proven_by == "bubble with [drills.client], switchover"


def test_every_control_is_caught_on_good_evidence():
    controls = judge(BUBBLE, DrillEvidence(bubble=GOOD), LIMITS).controls
    assert set(controls.values()) == {True}
    assert len(controls) == 4


TOPIC = f"drkit-drill.{PLAN.id}.orders.internal"


def entry(**change: Any) -> DrillEntry:
    return DrillEntry.of(PLAN, 0, None, this_process()).model_copy(update=change)


def test_an_entry_is_read_back():
    made = (
        MadeItem("source", "topic", TOPIC),
        MadeItem("target", "topic", "drkit-state.drkit-drill-primary.internal"),
        MadeItem("target", "group", f"drkit-drill.{PLAN.id}.reader"),
    )
    known = entry(made=made, cleanup_owed=True).with_ids("source", {TOPIC: "id-1", "other": "id-2"})
    assert [item.topic_id for item in known.made] == ["id-1", "", ""]
    assert known.with_ids("source", {TOPIC: "id-9"}) == known
    assert DrillEntry.model_validate_json(known.model_dump_json()) == known
    assert known.key == PLAN.id
    assert DrillEntry(name="n", kind="k", flow="f", verdict=MISSED, began_ms=7, due_ms=7).key == "n.7"


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../../../endpoint"},
        {"name": "../x", "id": ""},
        {"made": [["target", "topic", "orders", ""]]},
        {"made": [["target", "topic", "victim.internal", ""]]},
        {"made": [["target", "group", "shop", ""]]},
        {"made": [["target", "topic", "drkit-drill.20261128t060000-ffffff.orders.internal", ""]]},
    ],
)
def test_an_entry_names_nothing_but_its_own(change: dict[str, Any]):
    """What an entry names is deleted, and its key is the name of a file."""
    text = json.dumps(json.loads(entry().model_dump_json()) | change)
    with pytest.raises(ValueError, match="validation error"):
        DrillEntry.model_validate_json(text)


@pytest.mark.parametrize(
    ("change", "is_running"),
    [
        ({}, True),
        ({"verdict": PASS}, False),
        ({"holder": replace(this_process(), born=1)}, False),
        ({"holder": replace(this_process(), host="elsewhere")}, True),
        ({"holder": replace(this_process(), host="elsewhere"), "written_ms": -300_000}, False),
    ],
)
def test_a_drill_that_runs_is_not_cleaned_up(change: dict[str, Any], *, is_running: bool):
    assert entry(**change).is_running(0) is is_running
